"""What an actor counts: what it wrote itself, once, and what it refused; told to the store when it keeps house."""

import asyncio

import pytest
from hosted import GATED, START, FakeWorkers, activated, stored, until, wall_ms
from writer import call, compact, reply, resolve

from holdfast import metrics
from holdfast.actors.answers import Hosted
from holdfast.actors.host import Host
from holdfast.actors.telling import tell
from holdfast.conversation import Approve, CancelTurn, Deny, FailureReason, ModelFailed, Status
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.counting import Counts, families
from holdfast.errors import StaleCall
from holdfast.persistence import MemoryStore, TakeoverReason
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore


def values(counts, metric):
    (found,) = families(counts.standing() if isinstance(counts, Counts) else counts, [metric])
    return found.values


async def test_a_turn_is_counted_as_it_is_written_and_a_decision_with_how_long_it_was_waited_for():
    store, workers, counts = await stored(GATED), FakeWorkers(call("refund"), reply("done")), Counts()
    activation = await activated(store, workers, counts=counts)
    await activation.ask(START)
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)

    assert values(counts, metrics.ACTIVATIONS) == {("new",): 1}
    assert values(counts, metrics.STARTED) == {("desk",): 1}
    assert values(counts, metrics.MESSAGES) == {("desk",): 1}
    assert values(counts, metrics.SUSPENDED) == {("desk", "refund", "approval"): 1}
    assert values(counts, metrics.SETTLED) == values(counts, metrics.TURNS) == {}

    await activation.ask(resolve(Deny("no"))(state))
    await until(store, lambda state: state.status is Status.IDLE)
    with pytest.raises(StaleCall):
        await activation.ask(resolve(Approve(), decision_id="d-2")(state))

    assert values(counts, metrics.SETTLED) == {("desk", "approval", "deny"): 1}
    assert sum(values(counts, metrics.WAIT)["desk", "approval"].buckets) == 1
    assert values(counts, metrics.TURNS) == {("desk", "completed"): 1}
    assert sum(values(counts, metrics.STALE).values()) == 1


async def test_a_summary_that_is_cancelled_is_no_turn():
    store, workers, counts = await stored(GATED), FakeWorkers(reply("done")), Counts()
    activation = await activated(store, workers, counts=counts)
    await activation.ask(START)
    idle = await until(store, lambda state: state.status is Status.IDLE)
    await activation.ask(compact()(idle))
    await until(store, lambda state: state.turn is not None and state.turn.compacts)
    await activation.ask(CancelTurn(request_id="x-1"))

    assert values(counts, metrics.TURNS) == {("desk", "completed"): 1}
    assert values(counts, metrics.SUMMARIES) == {("desk", "cancelled"): 1}


async def test_a_turn_that_failed_is_counted_by_why():
    def fails(state):
        return ModelFailed(effect_id="", error="no", reason=FailureReason.MODEL_TIMEOUT)

    store, counts = await stored(GATED), Counts()
    activation = await activated(store, FakeWorkers(fails), counts=counts)
    await activation.ask(START)
    await until(store, lambda state: state.last is not None)
    assert values(counts, metrics.TURNS) == {("desk", "model_timeout"): 1}


async def test_a_turn_that_was_stopped_is_counted_as_completed_and_by_why():
    store, counts = await stored(GATED), Counts()
    activation = await activated(store, FakeWorkers(reply("half of", finish_reason="length")), counts=counts)
    await activation.ask(START)
    await until(store, lambda state: state.last is not None)
    assert values(counts, metrics.TURNS) == {("desk", "completed"): 1}
    assert values(counts, metrics.STOPPED) == {("desk", "length"): 1}


async def test_a_conversation_that_another_one_started_is_counted_apart_until_it_ends():
    store, counts = await stored(GATED), Counts()
    activation = await activated(store, FakeWorkers(call("refund"), reply("done")), counts=counts)
    above = Ancestor(conversation_id="c-0", agent="lead")
    parent = Parent(suspension_id="s-1", path=(above,), depth=0, descendants=0, must_end_by=wall_ms() + 60_000)
    await activation.ask(START.model_copy(update={"parent": parent}))
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    assert values(counts, metrics.STARTED) == values(counts, metrics.CHILDREN_STARTED) == {("desk",): 1}
    assert values(counts, metrics.CHILDREN_ENDED) == {}
    await activation.ask(resolve(Deny("no"))(state))
    await until(store, lambda state: state.ended)
    assert values(counts, metrics.CHILDREN_ENDED) == {("desk",): 1}


async def test_a_revival_counts_itself_and_nothing_of_what_was_before():
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    await (await activated(store, workers)).ask(START)
    await until(store, lambda state: state.status is Status.AWAITING_INPUT)

    counts = Counts()
    seen = (await store.owner("c-1")).token
    await activated(store, FakeWorkers(), seen=seen, because=TakeoverReason.DIED, counts=counts)
    assert counts.taken() == {"holdfast_activations_total|died": 1}


async def test_a_decision_is_timed_by_whether_its_conversation_was_hosted_or_taken_up_for_it():
    store, counts, approve = await stored(GATED), Counts(), resolve(Approve(), decision_id="d-1")
    workers = FakeWorkers(call("refund"), reply("done"))
    workers.store = store

    def host(name):
        settled = {"timing": Timing(), "process_limits": ProcessLimits(), "clock": wall_ms, "leave": lambda: None}
        return Host(store, workers, name=name, counts=counts, **settled)

    first = host("actor-1")
    await first.activate("c-1", "", TakeoverReason.ASKED, create=True, first=START)
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    assert values(counts, metrics.RESOLVE_S) == {}, "a start is no decision"

    await first.ask("c-1", approve(state))
    await first.ask("c-1", resolve(Deny(), decision_id="d-2")(state))
    assert {was: sum(value.buckets) for was, value in values(counts, metrics.RESOLVE_S).items()} == {("hosted",): 1}

    seen = (await store.owner("c-1")).token
    await host("actor-2").activate("c-1", seen, TakeoverReason.DIED, create=False, first=approve(state))
    assert sum(values(counts, metrics.RESOLVE_S)["taken_up",].buckets) == 1


async def test_an_actor_tells_what_it_counted_with_its_heartbeat_and_only_if_it_counted():
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    workers.store = store
    told = FaultyStore(store, Faults())
    host = Host(
        told,
        workers,
        name="actor-1",
        timing=Timing(lease_ms=30, tick_ms=5),
        process_limits=ProcessLimits(),
        clock=wall_ms,
        leave=lambda: None,
    )
    assert isinstance(await host.activate("c-1", "", TakeoverReason.ASKED, create=True, first=START), Hosted)
    async with asyncio.timeout(20):
        while not values((await store.survey()).counts, metrics.SUSPENDED):
            await asyncio.sleep(0.01)
        said = told.calls["count"]
        beats = told.calls["heartbeat"]
        while told.calls["heartbeat"] < beats + 5:
            await asyncio.sleep(0.01)
    assert told.calls["count"] == said, "nothing was counted since, so nothing is said"


@pytest.mark.parametrize(("fault", "stands"), [(FailBefore(), 1), (FailAfter(), 2)])
async def test_what_cannot_be_told_is_told_the_next_time_even_if_it_is_counted_twice(fault, stands):
    inner, counts = MemoryStore(), Counts()
    store = FaultyStore(inner, Faults(count={1: fault}))
    counts.add(metrics.FENCED)
    await tell(store, counts)
    await tell(store, counts)
    await tell(store, counts)
    assert ((await inner.survey()).counts, store.calls["count"]) == ({"holdfast_fenced_writes_total": stands}, 2)
