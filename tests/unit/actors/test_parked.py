"""A conversation whose work is at workers needs no actor: when it may be left, and how it goes on."""

import asyncio

from hosted import OPEN, START, FakeWorkers, Keeps, activated, keeping, recorded, soon, stored, until
from writer import Writer, begin, call, reply, start

from holdfast.actors import host as host_module
from holdfast.actors.activation import rest
from holdfast.actors.answers import Hosted
from holdfast.actors.host import Host
from holdfast.actors.workers import Claimed, NoApp, NoOutcome, NoWorker
from holdfast.conversation import AgentSpec, CancelTurn, ModelReplied, RunFinished, Send, Status, ToolSpec
from holdfast.conversation.text.envelope import success
from holdfast.persistence import Finding, RunStatus, TakeoverReason
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailAfter, Faults, FaultyStore

OPEN_START = START.model_copy(update={"spec": OPEN})
LEASE_MS = 60_000


async def resting(activation):
    await soon(lambda: activation.rest.since is not None)


async def due(store):
    return list((await store.attention(10)).conversation_ids)


async def test_a_conversation_whose_model_call_a_worker_keeps_is_left_and_goes_on_with_the_outcome():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await resting(activation)

    assert activation.parkable
    assert await activation.passivate()
    assert activation.over
    assert (await store.owner("c-1")).token == ""
    assert await due(store) == []
    (run,) = (await store.look("c-1", LEASE_MS)).claims
    assert (run.incarnation, run.worker) == ("p-1.x", "w")
    assert workers.dropped == []

    await recorded(store, ModelReplied(effect_id="t1.m1", content="Hi."))
    assert await due(store) == ["c-1"]
    second = FakeWorkers()
    await activated(store, second)
    state = await until(store, lambda state: state.status is Status.IDLE)
    assert state.last.outcome == "completed"
    assert (second.calls, second.joined) == ([], [])


async def test_who_takes_a_parked_conversation_over_follows_the_claim_and_may_leave_it_again():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await resting(activation)
    assert await activation.passivate()

    second = keeping()
    again = await activated(store, second, lease_ms=LEASE_MS)
    await again.ask(Send(text="and?", message_id="m-2"))
    await resting(again)
    assert second.calls == []
    assert await again.passivate()
    assert (await store.run("c-1", "t1.m1")).incarnation == "p-1.x"


async def test_what_a_worker_has_not_said_that_it_keeps_is_not_left():
    store, workers = await stored(OPEN), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await soon(lambda: workers.calls)

    assert (activation.rest.since, activation.parkable) == (None, False)
    assert not await activation.passivate()


async def test_a_conversation_is_left_only_once_workers_keep_all_of_its_work():
    spec = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund"),))
    store, workers = await stored(spec), keeping(call("refund", "refund"))
    gates = [asyncio.Event(), asyncio.Event()]

    async def run_tool(app, code, request):
        workers.runs.append(request)
        number = len(workers.runs)
        await gates[number - 1].wait()
        incarnation = f"p-1.{number}"
        await store.claim("c-1", request.effect_id, incarnation=incarnation, worker="w", bound_ms=LEASE_MS)
        return Claimed(incarnation, "w")

    workers.run_tool = run_tool
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(START.model_copy(update={"spec": spec}))
    await soon(lambda: len(workers.runs) == 2)
    gates[0].set()
    await soon(lambda: workers.joined)
    assert activation.rest.since is None
    assert not await activation.passivate()
    gates[1].set()
    await resting(activation)
    assert await activation.passivate()
    assert {run.incarnation for run in (await store.look("c-1", LEASE_MS)).claims} == {"p-1.1", "p-1.2"}

    for run in workers.runs:
        content = success('"done"')
        incarnation = (await store.run("c-1", run.effect_id)).incarnation
        await recorded(store, RunFinished(effect_id=run.effect_id, ok=True, content=content), incarnation)
    await activated(store, FakeWorkers(reply()))
    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"


async def test_a_conversation_whose_work_has_failed_in_a_workers_line_does_not_rest_until_a_worker_has_it_again():
    store, workers, asked = await stored(OPEN), keeping(), []
    gate, again = asyncio.Event(), asyncio.Event()

    async def call_model(app, code, request):
        asked.append(request)
        if len(asked) > 1:
            await again.wait()
        return Claimed("p-1.x", "w", begun=False)

    async def join(worker, incarnation, conversation_id, effect_id, *, briefly=False):
        if briefly:
            return Claimed(incarnation, worker, begun=False)
        await gate.wait()
        gate.clear()
        return NoOutcome.NOT_MINE  # its time to begin passed

    workers.call_model, workers.join = call_model, join
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await resting(activation)

    gate.set()
    await soon(lambda: len(asked) > 1)
    assert (activation.rest.since, activation.parkable) == (None, False)
    assert not await activation.passivate()

    again.set()
    await resting(activation)
    assert await activation.passivate()


async def test_a_conversation_whose_worker_answers_no_more_does_not_rest_until_one_does():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await resting(activation)

    workers.join_answer = NoWorker("the worker does not answer")
    workers.join_gate.set()
    await soon(lambda: len(workers.joined) > 1)
    assert (activation.rest.since, activation.parkable) == (None, False)
    assert not await activation.passivate()

    workers.join_gate.clear()
    await resting(activation)
    assert activation.parkable


async def test_work_that_a_write_has_settled_is_dropped_at_the_worker_that_claimed_it():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await resting(activation)
    assert workers.dropped == []

    await activation.ask(CancelTurn(request_id="r-1"))

    assert workers.dropped == [("w", "p-1.x")]
    assert await store.run("c-1", "t1.m1") is None


async def test_actors_at_rest_are_taken_before_those_whose_conversation_would_be_parked(monkeypatch):
    monkeypatch.setattr(rest, "HOLD_MS", 0)
    monkeypatch.setattr(rest, "OFFER_AFTER_MS", 0)
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    workers.store, ranks = store, []

    async def offer(name, rank):
        ranks.append(rank)

    monkeypatch.setattr(store, "offer", offer)
    host = Host(
        store,
        workers,
        name="actor-1",
        timing=Timing(lease_ms=LEASE_MS, tick_ms=10, linger_ms=60_000),
        process_limits=ProcessLimits(),
        clock=lambda: 1000,
        leave=lambda: None,
    )
    assert await host.activate("c-1", "", TakeoverReason.ASKED, create=True) == Hosted()
    await soon(lambda: ranks)
    assert ranks[-1] < host_module.PARKABLE
    await host.ask("c-1", OPEN_START)
    await soon(lambda: ranks[-1] > host_module.PARKABLE)
    assert workers.joined


# -- model calls of a release in which they had no records ----------------------------------------------------------------


async def unrecorded():
    """A store with a conversation whose model call has no record, and nobody owns it."""
    store = await stored(OPEN)
    writer = await Writer.of(store, "c-1")
    writer.spec = OPEN
    await writer.do(start(spec=OPEN), begin())
    store._conversations["c-1"].runs.clear()
    await writer.release()
    return store


async def test_a_model_call_that_an_older_release_began_gets_a_record_and_is_made_once():
    store, workers = await unrecorded(), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers)
    await resting(activation)
    assert (await store.run("c-1", "t1.m1")).incarnation == "p-1.x"

    workers.join_answer = ModelReplied(effect_id="t1.m1", content="Hi.")
    workers.join_gate.set()

    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"
    assert len(workers.calls) == 1
    assert await store.run("c-1", "t1.m1") is None


async def test_the_claim_of_such_a_call_stands_also_where_the_write_that_gave_it_a_record_was_not_confirmed():
    inner, workers = await unrecorded(), keeping(Keeps("p-1.x"))
    activation = await activated(FaultyStore(inner, Faults(append={1: FailAfter()})), workers)
    await resting(activation)

    await activation.ask(Send(text="and?", message_id="m-2"))

    run = await inner.run("c-1", "t1.m1")
    assert (run.status, run.incarnation) == (RunStatus.CLAIMED, "p-1.x")
    assert len(workers.calls) == 1


async def test_a_conversation_whose_app_cannot_be_opened_rests_while_it_is_tried_again_and_may_be_left():
    store, workers = await stored(OPEN), FakeWorkers(*[NoApp("it cannot be imported")] * 3)
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await soon(lambda: len(workers.calls) == 2)
    since = activation.rest.since
    assert since is not None
    await soon(lambda: len(workers.calls) == 4)  # now one waits for its answer
    assert activation.rest.since == since
    assert activation.parkable

    assert await activation.passivate()
    assert (await store.owner("c-1")).token == ""
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.RUNNABLE
    assert await due(store) == []  # for a while
    assert (await store.look("c-1", LEASE_MS)).finding is Finding.WAKE

    await activated(store, FakeWorkers(reply()))
    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"


async def test_work_that_a_worker_takes_after_all_is_waited_for_like_any_other():
    store, workers = await stored(OPEN), keeping(NoApp("it cannot be imported"), Keeps("p-1.x"))
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await soon(lambda: workers.joined)
    assert activation.parkable
    workers.join_answer = NoWorker("the worker does not answer")
    workers.join_gate.set()
    await soon(lambda: len(workers.joined) > 1)
    assert (activation.rest.since, activation.parkable) == (None, False)
