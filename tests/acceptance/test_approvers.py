"""Who may decide, on the real thing: people whom keys prove over HTTP, two of them, kills, edits, and a rule's approvers."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest
from server_process import WITHIN_S, server_process
from stack_fixture import kill_host, results, runs_of

from holdfast.client import (
    AlreadyVoted,
    Approve,
    AsyncClient,
    Deny,
    InvalidInput,
    NotPermitted,
    Principal,
    Proof,
    Status,
    SuspensionKind,
)
from holdfast.client.async_client import acting_for
from holdfast.testing import call, calls

APP = "approved_app:app"
ROLES = {"ana": ["finance"], "bo": ["finance", "support"], "cy": ["support"], "eve": ["cfo", "finance"], "kim": ["board"]}
PEOPLE = {name: Principal(name, roles=roles, proof=Proof.KEY) for name, roles in ROLES.items()}


@pytest.fixture
async def treasury(stack):
    async with AsyncClient.connect(APP, timeout_s=90) as connected:
        yield connected


async def begun(stack, client, name, *asked):
    """A conversation that Ana has started, whose model asks for these calls, and the state in which it rests."""
    text = stack.scenarios.add(name, calls(*asked), "Done.")
    conversation = await acting_for(client, PEOPLE["ana"]).start("treasury", text, conversation_id=name)
    return conversation, await conversation.wait(timeout_s=WITHIN_S)


async def decided(client, who, name, decision):
    """The receipt of a decision of that person on what waits in the conversation."""
    (shown,) = await acting_for(client, PEOPLE[who]).conversation(name).pending()
    return await shown.resolve(decision)


async def finished(conversation, receipt):
    """The results that the model read, once the turn is over."""
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    while state.status is Status.AWAITING_INPUT:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    return results(await conversation.messages())


@asynccontextmanager
async def connected(stack, client):
    """A client over HTTP for each person, known to a server by an API key."""
    with server_process(stack, "--app", APP) as process:
        opened = {}
        try:
            url = None
            async with asyncio.timeout(WITHIN_S):
                while url is None:
                    line = await asyncio.to_thread(process.stdout.readline)
                    assert line, process.stderr.read()
                    url = re.search(r"http://127\.0\.0\.1:\d+", line)
            for name, roles in ROLES.items():
                _, key = await client.access.create_key(name, ["read", "decide", "start"], roles=roles)
                opened[name] = AsyncClient.connect(url=url[0], token=key)
            yield opened
        finally:
            for one in opened.values():
                await one.aclose()
            process.kill()


async def test_two_people_whom_keys_prove_agree_over_http(stack, treasury):
    async with connected(stack, treasury) as people:
        text = stack.scenarios.add("two-people", calls(call("transfer", {"amount": 7})), "Done.")
        conversation = await people["cy"].start("treasury", text, conversation_id="two-people")
        (shown,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
        assert (shown.approvers.minimum, shown.requester.id, shown.requester.proof) == (2, "cy", "key")
        asked = shown
        with pytest.raises(NotPermitted, match="'cy' is not one of role:finance"):
            await people["cy"].resolve(asked, Approve())
        await people["bo"].conversation("two-people").assign(shown)
        await people["bo"].conversation("two-people").comment(shown, "I know the order.")
        first = await people["bo"].resolve(asked, Approve(reason="it is due"))
        assert (first.settled, first.votes, first.needed) == (False, 1, 2)
        with pytest.raises(AlreadyVoted):
            await people["bo"].resolve(asked, Approve())
        (shown,) = await people["cy"].conversation("two-people").pending()
        assert (shown.assigned, shown.votes[0].by.id, shown.comments[0].text) == ("bo", "bo", "I know the order.")
        assert runs_of(stack, "two-people") == []
        mine = await people["cy"].pending(approver=Principal("ana", roles=["finance"]))
        assert "two-people" in {one.conversation_id for one in mine.items}
        last = await people["ana"].resolve(asked, Approve())
        assert (last.settled, last.votes, last.needed) == (True, 2, 2)
        assert await finished(conversation, last) == [{"ok": True, "result": "transferred 7"}]


async def test_a_program_in_the_cluster_decides_as_nobody_whom_no_server_has_proven(stack, treasury):
    conversation, state = await begun(stack, treasury, "claimed", call("transfer", {"amount": 7}))
    eve, (shown,) = PEOPLE["eve"], state.pending
    with pytest.raises(InvalidInput, match="no server has proven 'eve' by key"):
        treasury.acting_as(eve)
    claiming = AsyncClient(treasury.gateway.acting_as(eve))  # as code does that goes around the client
    with pytest.raises(InvalidInput, match="no server has proven 'eve' by key") as refused:
        await claiming.resolve(shown, Approve())
    assert refused.value.field == "principal.proof"
    stated = treasury.acting_as(Principal("eve", roles=ROLES["eve"]))
    with pytest.raises(NotPermitted, match="'eve' is stated, not proven"):
        await stated.resolve(shown, Approve())
    assert (await conversation.state()).seq == state.seq
    await conversation.end()


async def test_whoever_sent_the_message_does_not_decide_and_one_denial_settles(stack, treasury):
    conversation, _ = await begun(stack, treasury, "requester", call("transfer", {"amount": 7}))
    with pytest.raises(NotPermitted, match="'ana' sent the message"):
        await decided(treasury, "ana", "requester", Approve())
    assert not (await decided(treasury, "bo", "requester", Approve())).settled
    denied = await decided(treasury, "eve", "requester", Deny("too much"))
    assert denied.settled
    assert await finished(conversation, denied) == [{"ok": False, "error": "the user denied this call: too much"}]
    assert runs_of(stack, "requester") == []


async def test_a_vote_counts_after_the_actor_that_took_it_was_killed(stack, treasury, store):
    conversation, _ = await begun(stack, treasury, "vote-kill", call("transfer", {"amount": 7}))
    vote = await decided(treasury, "bo", "vote-kill", Approve())
    await kill_host(store, "vote-kill")
    with pytest.raises(AlreadyVoted):
        await decided(treasury, "bo", "vote-kill", Approve())
    assert runs_of(stack, "vote-kill") == []
    last = await decided(treasury, "eve", "vote-kill", Approve())
    assert (vote.votes, last.votes, last.settled) == (1, 2, True)
    assert await finished(conversation, last) == [{"ok": True, "result": "transferred 7"}]
    assert len(runs_of(stack, "vote-kill")) == 1


async def test_above_ten_thousand_the_cfo_decides_also_where_an_edit_makes_it_so_much(stack, treasury):
    conversation, state = await begun(stack, treasury, "cfo", call("pay", {"amount": 500}))
    assert state.pending[0].approvers.who == (("role:finance",),)
    edited = await decided(treasury, "bo", "cfo", Approve({"amount": 20_000}))
    assert edited.settled
    state = await conversation.wait(after=edited.seq, timeout_s=WITHIN_S)
    (again,) = state.pending
    assert (again.kind, again.arguments, again.approvers.who[-1]) == (
        SuspensionKind.APPROVAL,
        {"amount": 20_000},
        ("role:cfo",),
    )
    with pytest.raises(NotPermitted, match="role:cfo"):
        await decided(treasury, "bo", "cfo", Approve())
    assert runs_of(stack, "cfo") == []
    last = await decided(treasury, "eve", "cfo", Approve())
    assert await finished(conversation, last) == [{"ok": True, "result": "paid 20000", "edited_arguments": {"amount": 20_000}}]
    assert [run["amount"] for run in runs_of(stack, "cfo")] == [20_000]


async def test_a_rule_names_who_decides(stack, treasury):
    asked = call("lookup", {"order": "secret-7"}), call("lookup", {"order": "8"})
    conversation, state = await begun(stack, treasury, "board", *asked)
    (shown,) = state.pending
    assert (shown.rule, shown.approvers.who) == ("secret orders", (("role:board",),))
    with pytest.raises(NotPermitted, match="role:board"):
        await decided(treasury, "eve", "board", Approve())
    last = await decided(treasury, "kim", "board", Approve())
    assert await finished(conversation, last) == [
        {"ok": True, "result": "secret-7 is paid"},
        {"ok": True, "result": "8 is paid"},
    ]
