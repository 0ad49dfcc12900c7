"""What is counted of suspensions: each that opened and each that settled, after the append, once or never."""

import asyncio

import pytest
from hosted import GATED, START, FakeWorkers, activated, context_of, decided, stored, until
from writer import call, reply

from holdfast.actors.activation.activation import Activation
from holdfast.actors.activation.counted import Counted
from holdfast.actors.steps import Step
from holdfast.conversation import Approve, CancelTurn, Deny, Status
from holdfast.conversation.records.events import CallSuspended, SuspensionSettled
from holdfast.counting import Counts
from holdfast.errors import Fenced, StoreUnavailable
from holdfast.persistence import TakeoverReason
from holdfast.testing import Delay, FailAfter, Faults, FaultyStore


class Noting(Counted):
    """Counts what an activation has written, and notes the events of suspensions."""

    def __init__(self):
        super().__init__(Counts())
        self.kinds = []

    def written(self, write):
        super().written(write)
        self.kinds += [event.kind for event in write.events if isinstance(event, CallSuspended | SuspensionSettled)]


async def waiting(noting, *answers, store=None, **more):
    """An activation that notes what it writes, and a call that waits for a decision."""
    store = store or await stored(GATED)
    workers = FakeWorkers(call("refund"), *answers)
    workers.store = store
    activation = Activation(context_of(store, workers, **more), "c-1")
    activation._counted = noting
    assert await activation.activate(seen_token="", because=TakeoverReason.ASKED, create=True) is None
    await activation.ask(START)
    return activation, await until(store, lambda state: state.status is Status.AWAITING_INPUT), store


async def test_a_cancelled_turn_counts_its_suspensions_and_a_repeated_decision_counts_none():
    noting = Noting()
    activation, _, _ = await waiting(noting)
    await activation.ask(CancelTurn(request_id="x-1"))
    await activation.ask(CancelTurn(request_id="x-1"))
    assert noting.kinds == ["call_suspended", "suspension_settled"]


async def test_nothing_is_counted_before_the_append_is_done():
    noting, appended = Noting(), asyncio.Event()
    store = FaultyStore(await stored(GATED), lambda _method, _number: None)
    activation, state, _ = await waiting(noting, store=store)
    store.policy = Faults(append=Delay(until=appended))
    decision = asyncio.create_task(activation.ask(decided(state, Deny("no"))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert noting.kinds == ["call_suspended"]
    appended.set()
    await decision
    assert noting.kinds == ["call_suspended", "suspension_settled"]


async def test_a_fenced_activation_counts_nothing_and_the_one_that_wrote_does():
    old, new = Noting(), Noting()
    activation, state, store = await waiting(old)
    seen = (await store.owner("c-1")).token
    successor = await activated(store, FakeWorkers(reply()), seen=seen, because=TakeoverReason.DIED)
    successor._counted = new
    with pytest.raises(Fenced):
        await activation.ask(decided(state, Deny("late")))
    assert (old.kinds, new.kinds) == (["call_suspended"], [])
    await successor.ask(decided(state, Approve()))
    assert (old.kinds, new.kinds) == (["call_suspended"], ["suspension_settled"])


@pytest.mark.parametrize("step", [Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN])
async def test_an_activation_that_is_killed_around_its_append_counts_nothing_and_nor_does_its_successor(step):
    def reached(at):
        if dying and at is step:
            raise asyncio.CancelledError

    noting, after, dying = Noting(), Noting(), []
    activation, state, store = await waiting(noting, reached=reached)
    dying.append(True)
    with pytest.raises(StoreUnavailable):
        await activation.ask(decided(state, Deny("no")))
    dying.clear()
    seen = (await store.owner("c-1")).token
    successor = await activated(store, FakeWorkers(reply()), seen=seen, because=TakeoverReason.DIED)
    successor._counted = after
    again = await successor.ask(decided(state, Deny("no")))
    assert noting.kinds == ["call_suspended"]
    assert (again.duplicate, after.kinds) == ((True, []) if step is Step.ASK_3_WRITTEN else (False, ["suspension_settled"]))


async def test_an_append_of_unknown_outcome_counts_nothing():
    noting = Noting()
    store = FaultyStore(await stored(GATED), lambda _method, _number: None)
    activation, state, _ = await waiting(noting, reply("done"), store=store)
    store.policy = Faults(append={store.calls["append"] + 1: FailAfter()})
    with pytest.raises(StoreUnavailable):
        await activation.ask(decided(state, Deny("no")))
    assert (await activation.ask(decided(state, Deny("no")))).duplicate
    await until(store, lambda state: state.status is Status.IDLE)
    assert noting.kinds == ["call_suspended"]
