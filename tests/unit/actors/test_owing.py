"""Whoever writes events also writes what they owe: the owner of a conversation and its guests."""

import pytest
from hosted import GATED, START, FakeWorkers, activated, stored, until
from writer import call, end, reply

from holdfast.actors.activation.guest import Guest
from holdfast.actors.published import unsigned
from holdfast.actors.worker.bench import at_any_time
from holdfast.conversation import AgentSpec, State, Status
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec
from holdfast.persistence import MemoryStore, OutboxState, Visited

WANTED = (NoticeKind.SUSPENDED, NoticeKind.TURN_COMPLETED, NoticeKind.ENDED, NoticeKind.QUARANTINED)
TOLD = GATED.model_copy(update={"notify": (NotifySpec(name="ops", events=WANTED),)})
OPS = "notice:ops:shop:app"


async def owed(store: MemoryStore) -> list[tuple[str, int]]:
    """What the conversation owes, in order, with the places in its log."""
    found = []
    for queue in store._owed.queues.values():
        found += [(one.kind, one.seq) for one in queue.envelopes]
    return found


async def test_an_owner_owes_what_its_events_are_about():
    store = await stored(TOLD)
    hosting = await activated(store, FakeWorkers(call("refund")))
    await hosting.ask(START)
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    (row,) = (await store.outbox(OutboxState.OWED, limit=10)).items
    assert (row.envelope.kind, row.envelope.target, row.waiting) == ("suspended", OPS, 1)
    (event,) = await store.at("c-1", [row.envelope.seq])
    assert event.kind == "call_suspended"
    await hosting.ask(end()(state))
    assert [kind for kind, _ in await owed(store)] == ["suspended", "ended"]


async def test_a_quarantine_owes_what_its_agent_is_told_of():
    store = await stored(TOLD)
    hosting = await activated(store, FakeWorkers(call("refund")))
    await hosting.ask(START)
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    owner = await store.owner("c-1")
    await store.strike("c-1", owner.token, process="p-1", reason="it kills", limit=1)
    assert await owed(store) == [("suspended", state.seq), ("quarantined", state.seq)]


async def test_an_agent_without_targets_owes_nothing():
    store = await stored(GATED)
    hosting = await activated(store, FakeWorkers(reply()))
    await hosting.ask(START)
    await until(store, lambda state: state.status is Status.IDLE and state.turns == 1)
    owner = await store.owner("c-1")
    await store.strike("c-1", owner.token, process="p-1", reason="it kills", limit=1)
    assert await owed(store) == []


@pytest.mark.parametrize("spec", [TOLD, GATED])
async def test_a_guest_owes_what_its_events_are_about(spec: AgentSpec):
    store = await stored(spec)
    visitor = Guest(store, admit=at_any_time, published=lambda app, agent: unsigned(store, app, agent))
    command = START.model_copy(update={"spec": spec})
    wrote = await visitor.judged("c-1", Visited(await store.now(), State(conversation_id="c-1"), ""), command)
    visited = Visited(wrote.written.now, wrote.write.after, wrote.write.append_id)
    await visitor.judged("c-1", visited, end()(wrote.write.after))
    assert [kind for kind, _ in await owed(store)] == (["ended"] if spec is TOLD else [])
