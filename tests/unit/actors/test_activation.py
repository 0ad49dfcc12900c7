"""One activation, against a store in memory and workers that are a fake: what it does when something goes wrong."""

import asyncio
import dataclasses
from unittest import mock

import pytest
from hosted import GATED, GENERATING, OPEN, START, Dies, FakeWorkers, activated, decided, soon, stored, until, wall_ms
from writer import call, cancel, fail_model, reply, resolve, send

from holdfast.actors.workers import NoWorker
from holdfast.conversation import AgentSpec, Approve, Limits, RunFinished, Send, Status, ToolSpec
from holdfast.conversation.log import work
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.conversation.text.envelope import success
from holdfast.errors import ConversationExists, Fenced, StaleCall, StoreUnavailable
from holdfast.persistence import RunStatus, Takeover, TakeoverReason, codec
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore
from holdfast.work_context import about


async def test_a_refused_start_with_another_spec_does_not_change_what_the_turn_runs_with():
    store, workers = await stored(GATED, OPEN), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(START)
    await until(store, lambda state: state.turn is not None)
    with pytest.raises(ConversationExists):
        await activation.ask(START.model_copy(update={"text": "other", "spec": OPEN}))
    workers.answers.append(call("refund"))
    workers.gate.set()
    state = await until(store, lambda state: state.calls)
    assert state.status is Status.AWAITING_INPUT  # gated, as the turn's own spec says


@pytest.mark.parametrize("bound", ["not_after", "must_end_by"])
async def test_a_start_by_a_parent_is_refused_if_it_is_too_late_by_the_stores_clock_alone(bound):
    behind = wall_ms()
    ahead = behind
    store = await stored(GATED, clock=lambda: ahead)
    activation = await activated(store, FakeWorkers(), clock=lambda: behind)
    ahead += 20
    times = {"must_end_by": behind + 90_000, "not_after": behind + 90_000, bound: behind + 10}
    above = (Ancestor(conversation_id="c-0", agent="lead"),)
    parent = Parent(suspension_id="m-1", path=above, depth=2, descendants=10, must_end_by=times["must_end_by"])
    with pytest.raises(StaleCall):
        await activation.ask(START.model_copy(update={"parent": parent, "not_after": times["not_after"]}))
    assert not (await store.owner("c-1")).started


async def test_a_second_activation_joins_the_run_of_this_conversation_and_runs_nothing():
    store, workers = await stored(OPEN), FakeWorkers(call("refund"))
    activation = await activated(store, workers)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(10):
        while not workers.runs:
            await asyncio.sleep(0)
    second = FakeWorkers(reply())
    second.join_answer = RunFinished(effect_id="call_4_1#1", ok=True, content=success('"joined"'))
    await activated(store, second, seen=(await store.owner("c-1")).token, because=TakeoverReason.DIED)
    await until(store, lambda state: state.status is Status.IDLE)
    assert second.joined == [("c-1", "call_4_1#1")]
    assert (len(workers.runs), len(second.runs)) == (1, 0)
    with pytest.raises(Fenced):
        await activation.ask(START)


async def test_an_outcome_that_was_recorded_is_taken_without_asking_any_worker():
    store, workers = await stored(OPEN), FakeWorkers(call("refund"))
    activation = await activated(store, workers)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(10):
        while (await store.run("c-1", "call_4_1#1")) is None or not workers.runs:
            await asyncio.sleep(0)
    outcome = codec.encode(RunFinished(effect_id="call_4_1#1", ok=True, content=success("1")))
    assert await store.finish("c-1", "call_4_1#1", incarnation="i.1", outcome=outcome)
    second = FakeWorkers(reply())
    await activated(store, second, seen=(await store.owner("c-1")).token, because=TakeoverReason.DIED)
    await until(store, lambda state: state.status is Status.IDLE)
    assert (second.runs, second.joined) == ([], [])


async def test_a_gated_run_that_is_lost_is_not_started_again():
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    activation = await activated(store, workers)
    await activation.ask(START)
    await activation.ask(decided(await until(store, lambda state: state.calls), Approve()))
    async with asyncio.timeout(10):
        while not workers.runs:
            await asyncio.sleep(0)
    second = FakeWorkers(reply())
    await activated(store, second, seen=(await store.owner("c-1")).token, because=TakeoverReason.DIED)
    await until(store, lambda state: state.status is Status.IDLE)
    assert second.runs == []
    results = [event.content for _, event in await store.read("c-1", after=0) if event.kind == "call_resolved"]
    assert ["outcome unknown" in result for result in results] == [True]


def move(activation, store):
    """Have the activation go on with another store."""
    context = dataclasses.replace(activation._context, store=store)
    for part in (activation, activation._owned, activation._effects):
        part._context = context
    activation._owned.store = store


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not written", "written, reply lost"])
async def test_a_decision_whose_append_failed_is_there_once_when_it_is_asked_again(fault):
    inner, workers = await stored(GATED), FakeWorkers(call("refund"))
    activation = await activated(inner, workers)
    await activation.ask(START)
    decision = decided(await until(inner, lambda state: state.calls), Approve())
    move(activation, FaultyStore(inner, Faults(append={1: fault})))
    with pytest.raises(StoreUnavailable):
        await activation.ask(decision)
    receipt = await activation.ask(decision)
    assert receipt.duplicate == isinstance(fault, FailAfter)
    settled = [event for _, event in await inner.read("c-1", after=0) if event.kind == "suspension_settled"]
    assert len(settled) == 1
    workers.gate.set()


async def test_while_the_store_is_away_whoever_asks_is_told_so_and_not_held():
    inner, workers = await stored(GATED), FakeWorkers(call("refund"))
    activation = await activated(inner, workers)
    await activation.ask(START)
    decision = decided(await until(inner, lambda state: state.calls), Approve())
    store = FaultyStore(inner, Faults(append=FailBefore(), acquire=FailBefore()))
    move(activation, store)
    async with asyncio.timeout(10):
        for _ in range(3):  # the first when it is written, the others while nobody can
            with pytest.raises(StoreUnavailable):
                await activation.ask(decision)
    assert not activation.over
    store.policy = Faults()
    async with asyncio.timeout(10):
        receipt = await activation.ask(decision)
    assert not receipt.duplicate
    workers.gate.set()


async def test_an_activation_that_was_deposed_answers_nobody_and_leaves_nobody_waiting():
    store, workers = await stored(GATED), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(START)
    await activated(store, FakeWorkers(), seen=(await store.owner("c-1")).token, because=TakeoverReason.DIED)
    answers = await asyncio.gather(*(activation.ask(START) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Fenced] * 3
    assert activation.over


async def test_a_lease_is_renewed_while_work_is_outstanding_and_a_deposed_one_stops():
    store, workers = await stored(GATED), FakeWorkers()
    activation = await activated(store, workers, lease_ms=60)
    await activation.ask(START)
    await until(store, lambda state: state.turn is not None)
    renewed = store._conversations["c-1"].lease
    async with asyncio.timeout(10):
        while store._conversations["c-1"].lease == renewed:
            await asyncio.sleep(0.005)
    await activated(store, FakeWorkers(), seen=(await store.owner("c-1")).token, because=TakeoverReason.DIED)
    async with asyncio.timeout(10):
        while not activation.over:
            await asyncio.sleep(0.005)


async def test_a_worker_that_is_away_fails_no_turn():
    store, workers = await stored(GATED), FakeWorkers(NoWorker("gone"), NoWorker("gone"), reply())
    activation = await activated(store, workers)
    await activation.ask(START)
    state = await until(store, lambda state: state.status is Status.IDLE)
    assert state.last.outcome == "completed"
    assert [request.attempt for request in workers.calls] == [1, 2, 3]


async def test_an_answer_of_the_model_that_cannot_be_recorded_fails_the_turn_and_is_not_asked_for_again():
    store, workers = await stored(GATED), FakeWorkers(reply("x", input_tokens=1 << 70))
    activation = await activated(store, workers)
    await activation.ask(START)
    state = await until(store, lambda state: state.last is not None)
    assert (state.last.outcome, len(workers.calls)) == ("failed", 1)


async def test_a_permanent_model_error_fails_the_turn():
    store, workers = await stored(GATED), FakeWorkers(fail_model("bad key"))
    activation = await activated(store, workers)
    await activation.ask(START)
    state = await until(store, lambda state: state.last is not None)
    assert state.status is Status.FAILED


async def test_what_rests_is_left_and_what_works_is_not():
    store, workers = await stored(GATED), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(START)
    assert not await activation.passivate()
    workers.answers.append(call("refund"))
    workers.gate.set()
    await until(store, lambda state: state.calls)
    assert await activation.passivate()
    assert (await store.owner("c-1")).actor == ""
    with pytest.raises(Fenced):
        await activation.ask(START)


async def test_an_id_that_was_only_acquired_can_still_be_started_by_another():
    store = await stored(GATED)
    abandoned = await activated(store, FakeWorkers())
    owner = await store.owner("c-1")
    assert (owner.started, owner.actor) == (False, abandoned._owned._context.actor)
    workers = FakeWorkers()
    activation = await activated(store, workers, seen=owner.token)
    assert (await activation.ask(START)).seq == 2


async def test_a_run_stays_runnable_until_a_worker_has_claimed_it():
    store, workers = await stored(OPEN), FakeWorkers(call("refund"))

    async def away(app, code, request):
        workers.runs.append(request)
        raise NoWorker("gone")

    workers.run_tool = away
    activation = await activated(store, workers)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(10):
        while len(workers.runs) < 2:
            await asyncio.sleep(0.01)
    assert (await store.run("c-1", "call_4_1#1")).status is RunStatus.RUNNABLE
    assert {run.effect_id for run in workers.runs} == {"call_4_1#1"}


async def test_an_owner_that_could_not_renew_its_lease_goes_on_while_nobody_else_has_taken_over():
    inner, workers = await stored(OPEN), FakeWorkers()
    store = FaultyStore(inner, Faults())
    activation = await activated(store, workers, lease_ms=30)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    store.policy = Faults(renew=FailBefore())
    async with asyncio.timeout(10):
        while store.calls["renew"] < 10:
            await asyncio.sleep(0.001)
    assert not activation.over
    workers.answers.append(reply())
    workers.gate.set()
    assert (await until(inner, lambda state: state.status is Status.IDLE)).last.outcome == "completed"
    assert len(workers.calls) == 1


async def test_the_third_process_that_dies_of_its_work_puts_a_conversation_in_quarantine_and_ends_its_hosting():
    inner = await stored(OPEN)
    workers = FakeWorkers(*(Dies(f"process-{number}.x") for number in (1, 2, 3)))
    activation = await activated(inner, workers)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(10):
        while not activation.over:
            await asyncio.sleep(0.01)
    assert [(request.max_claims, request.instead_of) for request in workers.calls] == [
        (0, ""),
        (1, "process-1.x"),
        (1, "process-2.x"),
    ]
    assert "the model call t1.m1: its worker died" in (await inner.quarantine("c-1")).reason
    with pytest.raises(Fenced):
        await activation.ask(START)


async def test_a_process_that_died_of_several_calls_of_a_conversation_is_blamed_once():
    store, workers = await stored(OPEN), FakeWorkers(*(Dies(f"process-1.{number}") for number in range(4)))
    activation = await activated(store, workers)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(20):
        while len(workers.calls) < 5:
            await asyncio.sleep(0.01)
    assert activation._owned.blame.crash_count == 1
    assert await store.quarantine("c-1") is None
    assert not activation.over


async def test_a_call_that_no_process_has_claimed_is_blamed_on_nobody_however_many_die_meanwhile():
    store, workers = await stored(OPEN), FakeWorkers(*[NoWorker("it died")] * 4)
    activation = await activated(store, workers)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(20):
        while len(workers.calls) < 5:
            await asyncio.sleep(0.01)
    assert activation._owned.blame.crash_count == 0
    assert {(request.max_claims, request.instead_of) for request in workers.calls} == {(0, "")}
    assert workers.joined == []
    workers.answers.append(reply())
    workers.gate.set()
    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"


async def test_what_waits_in_a_turn_is_not_read_again_by_the_next_activation():
    store, workers = await stored(GATED), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(START)
    for number in range(12):
        await activation.ask(Send(text="x" * 50_000, message_id=f"large-{number}"))

    taken = await store.acquire(
        "c-1",
        Takeover(
            seen_token=(await store.owner("c-1")).token, new_token="t-2", because=TakeoverReason.DIED, actor="a", lease_ms=1000
        ),
    )

    assert len(taken.state.queue) >= 11
    assert taken.tail_bytes <= 64 * 1024
    with pytest.raises(Fenced):
        await activation.ask(Send(text="x", message_id="late"))


async def test_the_end_of_one_run_of_many_looks_at_no_other_run():
    """Counted is what a host asks of each run: to make the effect that stands for it."""
    made = []
    for size in (50, 400):
        spec = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund"),), limits=Limits(max_calls=size))
        store, workers = await stored(spec), FakeWorkers(call(*["refund"] * size), reply())
        activation = await activated(store, workers)
        await activation.ask(START.model_copy(update={"spec": spec}))
        async with asyncio.timeout(30):
            while len(workers.runs) < size:
                await asyncio.sleep(0)
        with mock.patch.object(work, "_run_tool", wraps=work._run_tool) as effects:
            workers.gate.set()
            state = await until(store, lambda state: state.status is Status.IDLE)
        assert state.turns == 1
        assert len(workers.runs) == size
        made.append(effects.call_count / size)

    assert made[1] <= 1.2 * made[0]


async def test_a_run_that_is_approved_beside_another_starts_and_one_that_ended_is_forgotten():
    # given a run that goes on, and a call that waits beside it
    tools = (ToolSpec(name="lookup"), ToolSpec(name="refund", approval="required"))
    spec = AgentSpec(name="desk", model="m", tools=tools)
    store, workers = await stored(spec), FakeWorkers(call("lookup", "refund"), reply())
    activation = await activated(store, workers)
    await activation.ask(START.model_copy(update={"spec": spec}))
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    # when it is approved, then it runs too
    await activation.ask(resolve(Approve(), "call_4_2")(state))
    async with asyncio.timeout(10):
        while len(workers.runs) < 2:
            await asyncio.sleep(0)
    assert set(activation._effects.tasks) == {"call_4_1#1", "call_4_2#1"}
    # and when the first ends, then only the other is still an effect
    await activation.ask(RunFinished(effect_id="call_4_1#1", ok=True, content=success("1")))
    async with asyncio.timeout(10):
        while "call_4_1#1" in activation._effects.tasks:
            await asyncio.sleep(0)
    assert set(activation._effects.tasks) == {"call_4_2#1"}
    workers.gate.set()
    state = await until(store, lambda state: state.status is Status.IDLE)
    assert state.turns == 1


async def test_a_turn_says_which_request_sent_its_message_and_not_which_one_went_before():
    store, workers = await stored(OPEN), FakeWorkers()
    activation = await activated(store, workers)
    with about(request="r-1"):
        await activation.ask(START)
    await soon(lambda: workers.calls)
    for number, request in ((2, "r-2"), (3, ""), (4, "r-4")):
        with about(request=request):
            await activation.ask(send(message_id=f"m-{number}")(GENERATING))
    with about(request="r-5"):
        await activation.ask(cancel("x-1")(await store.load("c-1")))
    for _ in range(4):
        workers.answers.append(reply("done"))
    workers.gate.set()
    await until(store, lambda state: state.status is Status.IDLE)
    assert [request.request for request in workers.calls] == ["r-1", "r-2", "", "r-4"]
