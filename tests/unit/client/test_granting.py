"""Grants as a client gives, lists and revokes them: on the stack, over HTTP, and from a program that blocks."""

import asyncio
from types import SimpleNamespace

import pytest
from asgi_transport import AsgiTransport
from stores import WithActors, now
from writer import Writer, begin, call, start

from holdfast.client import Approve, AsyncClient, Client, Grant, InvalidInput, Level, Principal, Scope
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import CallTarget
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, create_app

SOURCES = Scope("path", "src/**", level="write")


def touching(name, *paths):
    targets = tuple(CallTarget(kind="path", value=path, level=Level.WRITE) for path in paths)
    return ProposedCall(tool_call_id=f"call_{name}", name="refund", arguments="{}", targets=targets)


@pytest.fixture(params=["stack", "http"])
async def given(request):
    """A client and its conversation, in which two calls wait that touch `src/`, and one that does not."""
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(touching("a", "src/a"), touching("b", "src/b"), touching("c", "lib/c")), now=now())
    client, transport = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30)), None
    if request.param == "http":
        transport = AsgiTransport(create_app(client, authentication=Authentication(anyone=True)))
        client = AsyncClient(HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=30, transport=transport))
    yield SimpleNamespace(client=client, conversation=client.conversation("c-1"), writer=writer, transport=transport)
    await client.aclose()


async def test_a_scope_lets_go_of_what_it_covers_and_stands_in_the_list(given):
    first, second, third = await given.conversation.pending()
    assert [(one.kind, one.value, one.level) for one in second.targets] == [("path", "src/b", Level.WRITE)]
    assert third.to_dict()["targets"] == [{"kind": "path", "value": "lib/c", "level": "write"}]
    assert await given.conversation.grants() == []
    receipt = await first.resolve(Approve(scope=SOURCES, reason="it is my branch"))
    (grant,) = await given.conversation.grants()
    assert isinstance(grant, Grant)
    assert (grant.kind, grant.pattern, grant.level, grant.ends_at) == ("path", "src/**", Level.WRITE, None)
    assert grant.seq == receipt.seq
    state = await given.conversation.state()
    assert [one.tool_call_id for one in state.pending] == [third.tool_call_id]
    assert [(one.tool_call_id, one.grants) for one in state.running] == [
        (first.tool_call_id, ()),
        (second.tool_call_id, (grant.grant_id,)),
    ]


async def test_several_decisions_bring_their_scopes(given):
    shown = await given.conversation.pending()
    await given.conversation.resolve_many({shown[0].suspension_id: Approve(scope=SOURCES)})
    (outcome,) = await given.client.resolve_each([(shown[2], Approve(scope=Scope("path", "lib/*", level="read", ends_s=60)))])
    assert outcome.seq
    first, second = await given.conversation.grants()
    assert (first.pattern, second.pattern, second.level) == ("src/**", "lib/*", Level.READ)
    assert 0 < second.ends_at - now() <= 60_000


async def test_a_grant_that_ended_is_not_listed(given):
    shown = await given.conversation.pending()
    await shown[0].resolve(Approve(scope=Scope("path", "src/**", level="write", ends_s=0.001)))
    async with asyncio.timeout(10):
        while await given.conversation.grants():
            await asyncio.sleep(0)


async def test_a_revocation_is_recorded_once_with_its_reason(given):
    shown = await given.conversation.pending()
    await shown[0].resolve(Approve(scope=SOURCES))
    (grant,) = await given.conversation.grants()
    if given.transport is not None:
        given.transport.lose = 1  # the answer is lost, and the repetition has the same key
    first = await given.conversation.revoke(grant.grant_id, "the branch is merged", request_id="r-1")
    again = await given.conversation.revoke(grant.grant_id, "the branch is merged", request_id="r-1")
    assert (again.seq, again.duplicate) == (first.seq, True)
    revoked = [event for event in given.writer.events if event.kind == "grant_revoked"]
    assert [(event.grant_id, event.reason) for event in revoked] == [(grant.grant_id, "the branch is merged")]
    assert await given.conversation.grants() == []
    assert given.writer.state.grants_epoch == 1


async def test_what_somebody_has_given_is_found_everywhere_and_ended(given):
    shown = await given.conversation.pending()
    client = given.client if given.transport is not None else given.client.acting_as(Principal("bo"))
    await client.resolve(shown[0], Approve(scope=SOURCES))
    by = given.writer.state.grants[0].by.id  # over HTTP, whom the server knows
    (found,) = (await given.client.given(by)).items
    assert (found.conversation_id, found.agent, found.votes, found.problem) == ("c-1", "desk", [], None)
    assert [grant.pattern for grant in found.grants] == ["src/**"]
    assert (await given.client.given("somebody else")).items == []
    assert (await given.client.given(by, proof="oidc")).items == []
    assert (await given.client.given()).items == [found]

    with pytest.raises(InvalidInput, match=r"by: .*has no grant and no open vote"):
        await given.conversation.revoke_given(by, proof="oidc")
    receipt = await given.conversation.revoke_given(by, "left", request_id="r-1")
    again = await given.conversation.revoke_given(by, "left", request_id="r-1")
    assert (again.seq, again.duplicate, again.audit_head) == (receipt.seq, True, receipt.audit_head)
    assert given.writer.events[-1].kind == "given_revoked"
    assert (await given.client.given()).items == []
    with pytest.raises(InvalidInput, match=r"by: .*has no grant and no open vote"):
        await given.conversation.revoke_given(by)
    with pytest.raises(InvalidInput, match="by: 7 is no principal's id"):
        await given.client.given(7)
    with pytest.raises(InvalidInput, match="proof: 'oath'"):
        await given.client.given(proof="oath")


@pytest.mark.parametrize(
    ("asking", "field"),
    [
        (lambda one: one.revoke(7), "grant_id"),
        (lambda one: one.revoke(""), "grant_id"),
        (lambda one: one.revoke("../c-2"), "grant_id"),
        (lambda one: one.revoke("g99"), "grant_id"),
        (lambda one: one.revoke("g1", 7), "reason"),
        (lambda one: one.revoke("g1", "x" * 1025), "reason"),
        (lambda one: one.revoke("g1", request_id="no id"), "request_id"),
    ],
)
async def test_what_cannot_be_revoked_is_refused_by_name(given, asking, field):
    with pytest.raises(InvalidInput) as refused:
        await asking(given.conversation)
    assert refused.value.field == field
    assert [event.kind for event in given.writer.events if event.kind.startswith("grant")] == []


async def test_the_list_names_who_gave_a_grant():
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(touching("a", "src/a")), now=now())
    ana = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30)).acting_as(Principal("ana"))
    (shown,) = (await ana.pending()).items
    await shown.resolve(Approve(scope=SOURCES))
    (grant,) = await ana.conversation("c-1").grants()
    assert grant.by == Principal("ana")


def test_a_program_that_blocks_lists_and_revokes_too():
    store = MemoryStore()
    with Client.connect(redis_url="unix:///nowhere", ray_address="auto") as blocking:

        async def prepared():
            writer = await Writer.of(store, "c-1")
            await writer.do(start(), begin(), call(touching("a", "src/a")), now=now())
            return AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))

        blocking._async()  # its loop begins
        client = blocking._client = blocking._run(prepared())
        assert blocking._async() is client
        conversation = blocking.conversation("c-1")
        (shown,) = conversation.pending()
        assert [one.value for one in shown.targets] == ["src/a"]
        shown.resolve(Approve(scope=SOURCES))
        (grant,) = conversation.grants()
        assert conversation.revoke(grant.grant_id, "enough").seq
        assert conversation.grants() == []
