"""Who is told of suspensions: of each that opened and each that settled, after the append, and never in its way."""

import asyncio

import pytest
from hosted import GATED, START, FakeWorkers, activated, context_of, decided, stored, until
from writer import call, reply

from holdfast.actors.activation.activation import Activation
from holdfast.actors.steps import Step
from holdfast.conversation import Approve, CancelTurn, Deny, Status
from holdfast.errors import Fenced, StoreUnavailable
from holdfast.persistence import TakeoverReason
from holdfast.testing import Delay, FailAfter, Faults, FaultyStore


class Noting:
    def __init__(self):
        self.notices = []

    def told(self, notice):
        self.notices.append(notice)

    @property
    def kinds(self):
        return [notice.event.kind for notice in self.notices]


class Failing(Noting):
    def told(self, notice):
        super().told(notice)
        message = "no"
        raise ZeroDivisionError(message)


async def waiting(*answers, store=None, observers=(), **more):
    """An activation with these observers before its own, and a call that waits for a decision."""
    store = store or await stored(GATED)
    workers = FakeWorkers(call("refund"), *answers)
    workers.store = store
    activation = Activation(context_of(store, workers, **more), "c-1")
    activation._observers[:0] = observers
    assert await activation.activate(seen_token="", because=TakeoverReason.ASKED, create=True) is None
    await activation.ask(START)
    return activation, await until(store, lambda state: state.status is Status.AWAITING_INPUT), store


async def test_observers_are_told_of_each_suspension_that_opens_and_settles_by_its_entry_in_the_log():
    noting = Noting()
    activation, state, store = await waiting(reply("done"), observers=[noting])
    await activation.ask(decided(state, Deny("no")))
    await until(store, lambda state: state.status is Status.IDLE)

    opened, settled = noting.notices
    log = dict(await store.read("c-1", after=0))
    assert (log[opened.seq], log[settled.seq]) == (opened.event, settled.event)
    assert (opened.event.kind, settled.event.kind) == ("call_suspended", "suspension_settled")
    assert {(notice.conversation_id, notice.agent) for notice in noting.notices} == {("c-1", "desk")}
    assert opened.before is None or opened.before.suspension is None
    assert settled.before.suspension.suspension_id == opened.event.suspension_id
    assert settled.command.kind == "resolve"


async def test_a_cancelled_turn_tells_of_its_suspensions_and_a_repeated_decision_of_none():
    noting = Noting()
    activation, _, _ = await waiting(observers=[noting])
    await activation.ask(CancelTurn(request_id="x-1"))
    await activation.ask(CancelTurn(request_id="x-1"))
    assert noting.kinds == ["call_suspended", "suspension_settled"]


async def test_nobody_is_told_before_the_append_is_done():
    noting, appended = Noting(), asyncio.Event()
    store = FaultyStore(await stored(GATED), lambda _method, _number: None)
    activation, state, _ = await waiting(store=store, observers=[noting])
    store.policy = Faults(append=Delay(until=appended))
    decision = asyncio.create_task(activation.ask(decided(state, Deny("no"))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert noting.kinds == ["call_suspended"]
    appended.set()
    await decision
    assert noting.kinds == ["call_suspended", "suspension_settled"]


async def test_an_observer_that_fails_stops_neither_the_turn_nor_the_other_observers(caplog):
    failing, noting = Failing(), Noting()
    activation, state, store = await waiting(reply("done"), observers=[failing, noting])
    receipt = await activation.ask(decided(state, Deny("no")))
    assert (await until(store, lambda state: state.status is Status.IDLE)).turns == 1
    assert receipt.settled
    assert noting.notices == failing.notices != []
    assert caplog.text.count("an observer failed") == 2


async def test_an_observer_whose_own_task_never_ends_holds_up_no_turn():
    class Slow(Noting):
        def told(self, notice):
            super().told(notice)
            tasks.append(asyncio.create_task(asyncio.Event().wait()))

    tasks, slow = [], Slow()
    activation, state, store = await waiting(reply("done"), observers=[slow])
    await activation.ask(decided(state, Deny("no")))
    await until(store, lambda state: state.status is Status.IDLE)
    assert [task.done() for task in tasks] == [False, False]
    for task in tasks:
        task.cancel()


async def test_a_fenced_activation_tells_nobody_and_the_one_that_wrote_does():
    old, new = Noting(), Noting()
    activation, state, store = await waiting(observers=[old])
    seen = (await store.owner("c-1")).token
    successor = await activated(store, FakeWorkers(reply()), seen=seen, because=TakeoverReason.DIED)
    successor._observers.append(new)
    with pytest.raises(Fenced):
        await activation.ask(decided(state, Deny("late")))
    assert (old.kinds, new.kinds) == (["call_suspended"], [])
    await successor.ask(decided(state, Approve()))
    assert (old.kinds, new.kinds) == (["call_suspended"], ["suspension_settled"])


@pytest.mark.parametrize("step", [Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN])
async def test_an_activation_that_is_killed_around_its_append_tells_nobody_and_nor_does_its_successor(step):
    def reached(at):
        if dying and at is step:
            raise asyncio.CancelledError

    noting, after, dying = Noting(), Noting(), []
    activation, state, store = await waiting(observers=[noting], reached=reached)
    dying.append(True)
    with pytest.raises(StoreUnavailable):
        await activation.ask(decided(state, Deny("no")))
    dying.clear()
    seen = (await store.owner("c-1")).token
    successor = await activated(store, FakeWorkers(reply()), seen=seen, because=TakeoverReason.DIED)
    successor._observers.append(after)
    again = await successor.ask(decided(state, Deny("no")))
    assert noting.kinds == ["call_suspended"]
    assert (again.duplicate, after.kinds) == ((True, []) if step is Step.ASK_3_WRITTEN else (False, ["suspension_settled"]))


async def test_an_append_of_unknown_outcome_tells_nobody():
    noting = Noting()
    store = FaultyStore(await stored(GATED), lambda _method, _number: None)
    activation, state, _ = await waiting(reply("done"), store=store, observers=[noting])
    store.policy = Faults(append={store.calls["append"] + 1: FailAfter()})
    with pytest.raises(StoreUnavailable):
        await activation.ask(decided(state, Deny("no")))
    assert (await activation.ask(decided(state, Deny("no")))).duplicate
    await until(store, lambda state: state.status is Status.IDLE)
    assert noting.kinds == ["call_suspended"]
