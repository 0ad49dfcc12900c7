"""Who may decide, votes, assignments and comments as a client sees them: on the stack and over HTTP."""

import asyncio
from types import SimpleNamespace

import pytest
from asgi_transport import AsgiTransport
from stores import WithActors, now
from writer import Writer, begin, call, start

from holdfast.client import (
    AlreadyVoted,
    Approve,
    AsyncClient,
    BatchRefused,
    Client,
    Deny,
    InvalidInput,
    NotPermitted,
    Principal,
    Proof,
    StaleCall,
)
from holdfast.client.async_client import acting_for
from holdfast.client.filters import asked_of
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approvers
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import MemoryStore
from holdfast.server import create_app

PEOPLE = {"ana": ["finance"], "bo": ["finance", "board"], "cy": ["support"]}
BOTH = Approvers("role:finance", minimum=2)
OTHERS = Approvers("role:finance", not_requester=True)
CFO = Approvers("role:finance", "id:cfo")
CY = Principal("cy", roles=PEOPLE["cy"])


def asked(name, approvers):
    terms = None if approvers is None else approvers.terms
    return ProposedCall(tool_call_id=f"call_{name}", name="refund", arguments="{}", approvers=terms)


@pytest.fixture(params=["stack", "http"])
async def given(request):
    """A conversation that Ana started, where four calls wait, and a client for each person."""
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    calls = [asked("both", BOTH), asked("others", OTHERS), asked("cfo", CFO), asked("any", None)]
    ana = Principal("ana", roles=PEOPLE["ana"], proof=Proof.KEY)
    await writer.do(start(principal=ana), begin(), call(*calls), now=now())
    client = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))
    found, opened = {}, [client]
    for name, roles in PEOPLE.items():
        if request.param == "stack":
            found[name] = acting_for(client, Principal(name, roles=roles, proof=Proof.KEY))
            continue
        _, key = await client.access.create_key(name, ["read", "decide"], roles=roles)
        transport = AsgiTransport(create_app(client))
        found[name] = AsyncClient(HttpGateway(Address("http://127.0.0.1:8484", key), timeout_s=30, transport=transport))
        opened.append(found[name])
    yield SimpleNamespace(**found, writer=writer, over_http=request.param == "http")
    for one in reversed(opened):
        await one.aclose()


async def shown(client, name):
    """The pending call of that name."""
    return next(one for one in await client.conversation("c-1").pending() if one.tool_call_id == f"call_{name}")


async def test_a_pending_call_says_who_may_decide_and_who_asked(given):
    both, unbound = await shown(given.ana, "both"), await shown(given.ana, "any")
    assert (both.approvers, both.requester.id, both.requester.proof) == (BOTH.terms, "ana", "key")
    assert (both.votes, both.assigned, both.comments, unbound.approvers) == ((), "", (), None)
    plain = both.to_dict()
    assert plain["approvers"] == {
        "who": [["role:finance"]],
        "minimum": 2,
        "not_requester": False,
        "stated": False,
        "each": False,
    }
    assert plain["requester"] == {"id": "ana", "roles": ["finance"], "proof": "key"}
    assert (plain["votes"], plain["comments"], unbound.to_dict()["approvers"]) == ([], [], None)


async def test_two_people_agree_and_the_receipts_say_how_far_they_are(given):
    first = await (await shown(given.ana, "both")).resolve(Approve(reason="it is due"), decision_id="d-1")
    assert (first.settled, first.votes, first.needed) == (False, 1, 2)
    again = await (await shown(given.ana, "both")).resolve(Approve(reason="it is due"), decision_id="d-1")
    assert (again.duplicate, again.settled, again.votes, again.needed, again.seq) == (True, False, 1, 2, first.seq)
    (vote,) = (await shown(given.cy, "both")).votes
    assert (vote.by.id, vote.decision, vote.reason) == ("ana", "approve", "it is due")
    assert (await shown(given.cy, "both")).to_dict()["votes"][0]["by"]["id"] == "ana"
    with pytest.raises(AlreadyVoted) as twice:
        await (await shown(given.ana, "both")).resolve(Approve())
    assert (twice.value.principal_id, twice.value.votes, twice.value.needed) == ("ana", 1, 2)
    second = await (await shown(given.bo, "both")).resolve(Approve())
    assert (second.settled, second.votes, second.needed) == (True, 2, 2)
    assert [one.tool_call_id for one in (await given.ana.conversation("c-1").state()).running] == ["call_both"]


async def test_whoever_may_not_decide_is_told_why_and_nothing_changes(given):
    before = given.writer.state
    for who, name, why in (
        (given.cy, "both", "'cy' is not one of role:finance"),
        (given.ana, "others", "'ana' sent the message that led to this call"),
    ):
        with pytest.raises(NotPermitted) as refused:
            await (await shown(who, name)).resolve(Deny("no"))
        assert (refused.value.tool_call_id, refused.value.why) == (f"call_{name}", why)
    assert given.writer.state == before


async def test_several_decisions_name_those_that_are_not_permitted(given):
    both, unbound = await shown(given.cy, "both"), await shown(given.cy, "any")
    with pytest.raises(BatchRefused) as refused:
        await given.cy.conversation("c-1").resolve_many({both.suspension_id: Approve(), unbound.suspension_id: Approve()})
    assert [(name, type(one)) for name, one in refused.value.errors.items()] == [(both.suspension_id, NotPermitted)]
    outcomes = await given.cy.resolve_each([(both, Approve()), (unbound, Deny("no"))])
    assert [type(one).__name__ for one in outcomes] == ["NotPermitted", "Receipt"]
    (vote,) = await given.ana.conversation("c-1").resolve_many({both.suspension_id: Approve()})
    assert (vote.settled, vote.votes, vote.needed) == (False, 1, 2)
    (last,) = await given.bo.resolve_each([(both, Approve())])
    assert (last.settled, last.votes, last.needed) == (True, 2, 2)


async def test_whoever_takes_a_call_on_is_seen_by_the_others(given):
    call = await shown(given.ana, "both")
    conversation = given.ana.conversation("c-1")
    first = await conversation.assign(call, request_id="r-1")
    again = await conversation.assign(call.suspension_id, request_id="r-1")
    assert (first.duplicate, again.duplicate, again.seq) == (False, True, first.seq)
    assert (await shown(given.cy, "both")).assigned == "ana"
    await given.bo.conversation("c-1").assign(call, "bo")
    assert (await shown(given.cy, "both")).assigned == "bo"
    await given.bo.conversation("c-1").assign(call, Principal("ana"))
    assert (await shown(given.cy, "both")).assigned == "ana"
    await conversation.assign(call, None)
    assert (await shown(given.cy, "both")).assigned == ""
    await conversation.assign(call, "")


async def test_comments_are_seen_by_all_and_do_not_decide(given):
    call = await shown(given.ana, "both")
    conversation = given.ana.conversation("c-1")
    first = await conversation.comment(call, "Is it the right order?", request_id="r-1")
    again = await conversation.comment(call.suspension_id, "Is it the right order?", request_id="r-1")
    assert (again.duplicate, again.seq) == (True, first.seq)
    await given.bo.conversation("c-1").comment(call, "It is.")
    said = (await shown(given.cy, "both")).comments
    assert [(one.by.id, one.text) for one in said] == [("ana", "Is it the right order?"), ("bo", "It is.")]
    assert (await shown(given.cy, "both")).to_dict()["comments"][1]["text"] == "It is."
    with pytest.raises(InvalidInput, match="request_id"):
        await conversation.comment(call, "Another", request_id="r-1")


async def test_others_decide_after_an_escalation_and_the_first_ones_no_more(given):
    call = await shown(given.ana, "both")
    conversation = given.ana.conversation("c-1")
    await call.resolve(Approve())
    first = await conversation.escalate(call, ["role:support"], reason="on holiday", request_id="r-1")
    again = await conversation.escalate(call.suspension_id, ["role:support"], reason="on holiday", request_id="r-1")
    assert (first.duplicate, again.duplicate, again.seq) == (False, True, first.seq)
    now_shown = await shown(given.cy, "both")
    assert (now_shown.suspension_id, now_shown.votes) == (call.suspension_id, ())
    assert now_shown.approvers == Approvers("role:support", minimum=2).terms
    assert now_shown.escalated_at is not None
    assert now_shown.expires_at > call.expires_at
    assert call.suspension_id in {one.suspension_id for one in (await given.cy.pending(approver=CY)).items}
    with pytest.raises(NotPermitted):
        await given.bo.resolve(now_shown, Approve())
    assert (await given.cy.resolve(now_shown, Approve())).votes == 1


async def test_a_snoozed_call_is_hidden_from_who_says_it_alone(given):
    call = await shown(given.ana, "any")
    conversation = given.ana.conversation("c-1")
    first = await conversation.snooze(call, 3600, reason="at lunch", request_id="r-1")
    again = await conversation.snooze(call.suspension_id, 3600, reason="at lunch", request_id="r-1")
    assert (first.duplicate, again.duplicate, again.seq) == (False, True, first.seq)

    async def lists(client):
        return call.suspension_id in {one.suspension_id for one in (await client.pending()).items}

    assert not await lists(given.ana)
    assert await lists(given.bo)
    assert (await shown(given.bo, "any")).snoozed["key:ana"] > 0
    assert (await shown(given.ana, "any")).expires_at == call.expires_at
    await conversation.snooze(call, 0)
    assert await lists(given.ana)
    assert (await call.resolve(Deny("no"))).settled


async def test_an_escalation_and_a_snooze_say_what_is_wrong(given):
    both = await shown(given.ana, "both")
    ana, cy = given.ana.conversation("c-1"), given.cy.conversation("c-1")
    for work in (cy.escalate(both, ["role:support"]), cy.snooze(both, 60)):
        with pytest.raises(NotPermitted, match="not one of role:finance"):
            await work
    for work, field in (
        (ana.escalate(both, []), "to"),
        (ana.escalate(both, "role:cfo"), "to"),
        (ana.escalate(both, ["cfo"]), "to"),
        (ana.escalate(both, ["role:" + "x" * 300]), "to"),
        (ana.escalate(both, ["role:cfo"], reason="x" * 5000), "reason"),
        (ana.snooze(both, -1), "for_s"),
        (ana.snooze(both, "2h"), "for_s"),
        (ana.snooze(both, float("nan")), "for_s"),
        (ana.snooze(both, 10**12), "for_s"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await work
        assert refused.value.field == field


async def test_a_note_is_refused_where_it_is_of_no_use(given):
    both, unbound = await shown(given.ana, "both"), await shown(given.ana, "any")
    ana, cy = given.ana.conversation("c-1"), given.cy.conversation("c-1")
    for work in (cy.assign(both), cy.comment(both, "Let me")):
        with pytest.raises(NotPermitted, match="not one of role:finance"):
            await work
    for work, field in (
        (ana.assign(both, "\u200bana"), "to"),
        (ana.assign(both, 7), "to"),
        (ana.assign(both, "x" * 201), "to"),
        (ana.assign(7), "suspension_id"),
        (ana.assign(both, request_id="no id"), "request_id"),
        (ana.comment(both, ""), "text"),
        (ana.comment(both, "x" * 5000), "text"),
        (ana.comment(both, 7), "text"),
        (ana.comment(both, "\ud800"), "text"),
        (given.ana.conversation("c-2").assign(both), "call"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await work
        assert refused.value.field == field
    await unbound.resolve(Deny("no"))
    for work in (ana.assign(unbound), ana.comment(unbound.suspension_id, "late"), ana.comment("s-none", "?")):
        with pytest.raises(StaleCall):
            await work
    with pytest.raises(StaleCall) as strange:
        await ana.comment("no/such \u00fc", "?")
    assert strange.value.reason == "unknown"
    assert (await shown(given.ana, "both")).comments == ()


async def test_the_list_selects_what_a_principal_may_decide(given):
    async def names(*who, **more):
        page = await given.cy.pending(approver=Principal(*who, **more))
        return {one.tool_call_id.removeprefix("call_") for one in page.items}

    assert await names("ana", roles=["finance"]) == {"both", "cfo", "any"}
    assert await names("bo", roles=["board", "finance"]) == {"both", "others", "cfo", "any"}
    assert await names("cy") == {"any"}
    assert await names("cfo") == {"cfo", "any"}
    page = await given.cy.pending(approver=Principal("cy"), limit=1)
    assert [one.tool_call_id for one in page.items] == ["call_any"]
    with pytest.raises(InvalidInput, match="approver"):
        await given.cy.pending(approver="ana")
    if given.over_http:
        with pytest.raises(InvalidInput, match="comma"):
            await given.cy.pending(approver=Principal("cy", roles=["a,b"]))


@pytest.mark.parametrize(
    ("approver", "roles", "field"), [(None, "finance", "roles"), ("", None, "approver"), ("ana", "finance,,", "roles")]
)
def test_a_query_that_names_nobody_is_refused(approver, roles, field):
    with pytest.raises(InvalidInput) as refused:
        asked_of(approver, roles)
    assert refused.value.field == field


async def test_a_client_that_acts_as_nobody_says_who_takes_a_call_on():
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(asked("any", None)), now=now())
    client = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))
    call_any = await shown(client, "any")
    with pytest.raises(InvalidInput, match="has no principal"):
        await client.conversation("c-1").assign(call_any)
    await client.conversation("c-1").assign(call_any, "ana")
    assert (await shown(client, "any")).assigned == "ana"
    await client.aclose()


def test_a_program_that_blocks_assigns_and_comments_too():
    store = MemoryStore()
    writer = asyncio.run(Writer.of(store, "c-1"))
    both = Approvers("role:finance", minimum=2, stated=True)
    asyncio.run(writer.do(start(), begin(), call(asked("both", both)), now=now()))
    client = Client.connect(redis_url="unix:///nowhere", ray_address="auto")

    async def prepared():
        return AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))

    client._async()  # its loop begins
    client._client = client._run(prepared())
    ana = client.acting_as(Principal("ana", roles=["finance"]))
    (found,) = ana.pending(approver=Principal("ana", roles=["finance"])).items
    conversation = ana.conversation("c-1")
    conversation.assign(found)
    conversation.comment(found, "I look at it")
    assert found.resolve(Approve()).settled is False
    (found,) = conversation.pending()
    assert (found.assigned, found.comments[0].text, found.votes[0].by.id) == ("ana", "I look at it", "ana")
    client.close()
