"""A conversation whose work is at workers needs no actor: when it may be left, and how it goes on."""

import asyncio

from hosted import OPEN, START, FakeWorkers, Keeps, activated, keeping, recorded, soon, stored, until
from writer import Writer, begin, call, reply, start

from holdfast.actors.activation import effect_runner
from holdfast.actors.answers import Hosted, NotHosted, Replied
from holdfast.actors.host import Host
from holdfast.actors.workers import Claimed, NoApp, NoWorker
from holdfast.conversation import CancelTurn, ModelReplied, RunFinished, Send, Status
from holdfast.conversation.text.envelope import success
from holdfast.persistence import RunStatus, TakeoverReason
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailAfter, Faults, FaultyStore

OPEN_START = START.model_copy(update={"spec": OPEN})
LEASE_MS = 60_000


async def left(activation):
    await soon(lambda: activation.over)


async def due(store):
    return list((await store.attention(10)).conversation_ids)


async def test_a_conversation_whose_model_call_a_worker_keeps_is_left_and_goes_on_with_the_outcome():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await left(activation)

    assert (await store.owner("c-1")).token == ""
    assert await due(store) == []
    (run,) = await store.look("c-1", LEASE_MS)
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
    await left(activation)

    second = keeping()
    again = await activated(store, second, lease_ms=LEASE_MS)
    await again.ask(Send(text="and?", message_id="m-2"))
    await left(again)
    assert second.calls == []
    assert (await store.run("c-1", "t1.m1")).incarnation == "p-1.x"


async def test_what_a_worker_has_not_said_that_it_keeps_is_not_left():
    store, workers = await stored(OPEN), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await soon(lambda: workers.calls)

    assert activation.rest.since is None
    assert not await activation.passivate()


async def two_runs():
    """A store, workers that claim each of two runs once its gate is open, and the gates."""
    store, workers = await stored(OPEN), keeping(call("refund", "refund"))
    gates = [asyncio.Event(), asyncio.Event()]

    async def run_tool(app, code, request):
        workers.runs.append(request)
        number = len(workers.runs)
        await gates[number - 1].wait()
        incarnation = f"p-1.{number}"
        await store.claim("c-1", request.effect_id, incarnation=incarnation, worker="w", bound_ms=LEASE_MS)
        return Claimed.BEGUN

    workers.run_tool = run_tool
    return store, workers, gates


async def claimed(store, request):
    async with asyncio.timeout(10):
        while (await store.run("c-1", request.effect_id)).status is not RunStatus.CLAIMED:
            await asyncio.sleep(0.001)


async def half_claimed():
    """An activation of which one run of two is claimed, with its store, its workers and their gates."""
    store, workers, gates = await two_runs()
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await soon(lambda: len(workers.runs) == 2)
    gates[0].set()
    await claimed(store, workers.runs[0])
    return activation, store, workers, gates


async def test_an_outcome_is_judged_also_while_other_work_keeps_the_activation(monkeypatch):
    monkeypatch.setattr(effect_runner, "LOOK_S", 0.01)
    activation, store, workers, _ = await half_claimed()
    await recorded(store, RunFinished(effect_id=workers.runs[0].effect_id, ok=True, content=success('"done"')), "p-1.1")
    async with asyncio.timeout(10):
        while await store.run("c-1", workers.runs[0].effect_id) is not None:
            await asyncio.sleep(0.001)
    assert (await store.load("c-1")).busy
    assert not activation.over


async def test_a_conversation_is_left_only_once_workers_keep_all_of_its_work():
    activation, store, workers, gates = await half_claimed()
    assert activation.rest.since is None
    assert not await activation.passivate()
    gates[1].set()
    await left(activation)
    assert {run.incarnation for run in await store.look("c-1", LEASE_MS)} == {"p-1.1", "p-1.2"}

    for run in workers.runs:
        content = success('"done"')
        incarnation = (await store.run("c-1", run.effect_id)).incarnation
        await recorded(store, RunFinished(effect_id=run.effect_id, ok=True, content=content), incarnation)
    await activated(store, FakeWorkers(reply()))
    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"


async def test_work_whose_worker_answers_no_more_needs_the_activation_again_while_that_one_stays(monkeypatch):
    monkeypatch.setattr(effect_runner, "LOOK_S", 0.01)
    store, workers, gates = await two_runs()
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await soon(lambda: len(workers.runs) == 2)
    workers.join_answer = NoWorker("the worker does not answer")
    workers.join_gate.set()
    gates[0].set()
    await soon(lambda: workers.joined)
    gates[1].set()
    await soon(lambda: len(workers.joined) > 3)
    assert activation.rest.since is None
    assert not await activation.passivate()

    workers.join_gate.clear()
    await left(activation)


async def test_work_that_a_write_has_settled_is_dropped_at_the_worker_that_claimed_it():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    await left(activation)
    assert workers.dropped == []

    again = await activated(store, workers)
    await again.ask(CancelTurn(request_id="r-1"))

    assert workers.dropped == [("w", "p-1.x")]
    assert await store.run("c-1", "t1.m1") is None


async def test_an_actor_is_blank_and_on_offer_once_a_worker_has_the_work_of_its_conversation():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    workers.store = store
    host = Host(
        store,
        workers,
        name="actor-1",
        timing=Timing(lease_ms=LEASE_MS, tick_ms=60_000, linger_ms=60_000),
        process_limits=ProcessLimits(),
        clock=lambda: 1000,
        leave=lambda: None,
    )
    assert isinstance(await host.activate("c-1", "", TakeoverReason.ASKED, create=True, first=OPEN_START), Hosted)
    await soon(lambda: host.hosted is None)
    async with asyncio.timeout(10):
        while await store.offers() == 0:
            await asyncio.sleep(0.001)
    assert await store.hosted("actor-1") is None
    assert (await store.owner("c-1")).token == ""

    # when it is asked once more, it takes the conversation over again
    assert isinstance(await host.ask("c-1", Send(text="and?", message_id="m-2")), Replied)
    assert (await store.owner("c-1")).actor == "actor-1"
    await soon(lambda: host.hosted is None)

    # but not from another owner
    await activated(store, FakeWorkers())
    assert await host.ask("c-1", Send(text="and?", message_id="m-3")) == NotHosted()
    assert (await store.owner("c-1")).actor != "actor-1"


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
    await left(activation)
    assert (await store.run("c-1", "t1.m1")).incarnation == "p-1.x"

    await recorded(store, ModelReplied(effect_id="t1.m1", content="Hi."))
    await activated(store, workers)

    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"
    assert len(workers.calls) == 1
    assert await store.run("c-1", "t1.m1") is None


async def test_the_claim_of_such_a_call_stands_also_where_the_write_that_gave_it_a_record_was_not_confirmed():
    inner, workers = await unrecorded(), keeping(Keeps("p-1.x"))
    activation = await activated(FaultyStore(inner, Faults(append={1: FailAfter()})), workers)
    await left(activation)

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

    assert await activation.passivate()
    assert (await store.owner("c-1")).token == ""
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.RUNNABLE
    assert await due(store) == []  # for a while
    assert not await store.look("c-1", LEASE_MS)

    await activated(store, FakeWorkers(reply()))
    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"


async def test_a_conversation_is_left_once_a_worker_takes_its_work_after_all():
    store, workers = await stored(OPEN), keeping(NoApp("it cannot be imported"), Keeps("p-1.x"))
    activation = await activated(store, workers, lease_ms=LEASE_MS)
    await activation.ask(OPEN_START)
    await left(activation)
