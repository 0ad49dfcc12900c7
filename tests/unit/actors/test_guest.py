"""A worker judges an outcome itself where nobody owns the conversation; whatever keeps it from that, an actor does."""

import asyncio
from dataclasses import replace

import pytest
from given_worker import bench_at
from writer import APP, DESK, LEASE_MS, Writer, begin, call, cancel, finish, reply, send, start

from holdfast import metrics
from holdfast.actors.activation import judge as judging
from holdfast.actors.activation.guest import LOOK_MS, Guest
from holdfast.actors.published import unsigned
from holdfast.actors.steps import Step
from holdfast.actors.worker import deposit as deposits
from holdfast.actors.worker.bench import at_any_time
from holdfast.actors.worker.deposit import deposit, judged_here
from holdfast.actors.workers import ModelRequest, RunRequest, WorkPaused
from holdfast.conversation import ModelReplied, RunFinished, RunRuled, Status
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.counting import Counts
from holdfast.errors import CipherMissing, Fenced, StoreUnavailable
from holdfast.persistence import MemoryStore, RunStatus, Visited
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore

REQUEST = ModelRequest(
    code="code-1", conversation_id="c-1", agent="desk", spec_digest=DESK.digest, effect_id="t1.m1", upto_seq=3, attempt=1
)
RUN = RunRequest(
    code="code-1",
    conversation_id="c-1",
    agent="desk",
    spec_digest=DESK.digest,
    effect_id="call_4_1#1",
    turn_id="t1",
    tool_call_id="call_4_1",
    tool="lookup",
    attempt=1,
    arguments_at=4,
)
REPLIED = ModelReplied(effect_id="t1.m1", content="Hi.")
CLAIM = "process-1.x"


async def parked(*steps, effect_id="t1.m1"):
    """A store with a conversation that nobody owns, whose work a worker has claimed."""
    store = MemoryStore()
    await store.put_app(APP, [DESK])
    writer = await Writer.of(store, "c-1")
    await writer.do(start(app=APP.app), begin(), *steps)
    await store.claim("c-1", effect_id, incarnation=CLAIM, worker="w-1", bound_ms=LEASE_MS)
    await store.release("c-1", writer.token, look_ms=LEASE_MS)
    return store


def visitor(store, *, admit=at_any_time, **more):
    return Guest(store, admit=admit, published=lambda app, agent: unsigned(store, app, agent), **more)


async def recorded(store, outcome=REPLIED, request=REQUEST, *, reached=lambda _: None, carry_on=lambda _: None, **more):
    bench = bench_at(store, guest=visitor(store, **more), reached=reached, carry_on=carry_on)
    async with asyncio.timeout(20):
        return await deposit(bench, request, CLAIM, outcome, keeps_late=isinstance(request, RunRequest))


async def told(*steps):
    """As `parked`, and the request of a guest that says how the conversation stands."""
    store = await parked(*steps)
    kept, state = store._seen("c-1"), await store.load("c-1")
    return store, replace(REQUEST, visited=Visited(await store.now(), state, kept.append_id, kept.tail_bytes))


async def judged_at_once(store, request, *, reached=lambda _: None, claim=CLAIM):
    guest = visitor(store)
    guest.clock.heard(await store.now())
    bench = bench_at(store, guest=guest, reached=reached)
    async with asyncio.timeout(20):
        return await deposit(bench, request, claim, REPLIED, keeps_late=False)


async def log(store):
    return [event.kind for _, event in await store.read("c-1", after=3)]


async def test_a_final_answer_ends_the_turn_and_nobody_ever_owned_it():
    store, counts = await parked(), Counts()
    before = await store.owner("c-1")
    assert await recorded(store, counts=counts)
    assert await log(store) == ["model_answered", "turn_completed"]
    assert (await store.load("c-1")).status is Status.IDLE
    assert await store.owner("c-1") == replace(before, epoch=before.epoch + 1)
    assert (await store.attention(9)).conversation_ids == []
    assert counts.standing() == {f"{metrics.TURNS.name}|desk|completed": 1}


async def test_calls_that_wait_for_people_are_pending_without_an_actor():
    store = await parked()
    proposed = ProposedCall(tool_call_id="call_1", name="refund", arguments="{}")
    assert await recorded(store, replace_calls(proposed))
    (view,) = await store.pending_of("c-1")
    assert view.tool == "refund"
    assert (await store.load("c-1")).status is Status.AWAITING_INPUT


def replace_calls(*calls):
    return REPLIED.model_copy(update={"calls": calls, "content": None})


async def test_what_an_outcome_makes_outstanding_is_there_for_whoever_comes():
    store = await parked()
    assert await recorded(store, replace_calls(ProposedCall(tool_call_id="call_1", name="lookup", arguments="{}")))
    writer = await Writer.of(store, "c-1")
    assert writer.effect_ids == tuple(writer.runs)
    assert [run.status for run in writer.runs.values()] == [RunStatus.RUNNABLE]


async def test_the_next_message_begins_its_turn_with_the_end_of_the_one_before():
    store = await parked(send(message_id="m-2"))
    assert await recorded(store)
    assert (await log(store))[1:] == ["model_answered", "turn_completed", "turn_started"]


async def test_a_paused_agents_next_turn_waits_for_an_actor():
    async def paused(agent):
        raise WorkPaused(agent)

    store = await parked(send(message_id="m-2"))
    assert await recorded(store, admit=paused)
    assert (await log(store))[1:] == ["model_answered", "turn_completed"]
    assert not await store.look("c-1", LOOK_MS)


async def test_a_turn_that_would_begin_later_than_it_was_admitted_for_waits_for_an_actor():
    async def admitted(agent):
        return await store.now()

    store = await parked(send(message_id="m-2"))
    assert await recorded(store, admit=admitted)
    assert (await log(store))[1:] == ["model_answered", "turn_completed"]
    assert not await store.look("c-1", LOOK_MS)


async def test_a_run_that_ends_after_its_call_was_settled_is_late_once():
    store = await parked(call("lookup"), effect_id="call_4_1#1")
    writer = await Writer.of(store, "c-1")
    await writer.do(cancel())
    await writer.release()
    assert not await recorded(store, RunFinished(effect_id="call_4_1#1", ok=True, content="{}"), RUN)
    assert list(await store.late("c-1")) == ["call_4_1#1"]


@pytest.mark.parametrize("claimed", [RUN.effect_id, "call_4_2#1"], ids=["this run", "another one"])
async def test_why_a_run_does_not_begin_is_not_written_once_another_worker_has_claimed_it(claimed):
    store = await parked(call("lookup", "lookup"), effect_id=claimed)
    before = await log(store)
    ruled = RunRuled(effect_id=RUN.effect_id, ruled=RuleVerdict(effect=RuleEffect.DENY))

    written = await judged_here(bench_at(store, guest=visitor(store)), RUN, ruled)

    assert written == (claimed != RUN.effect_id)
    assert await log(store) == [*before, *(["call_resolved"] if written else [])]


async def test_an_outcome_is_judged_anew_if_another_write_came_first():
    store, came = await parked(), []

    def reached(step):
        if step is Step.GUEST_1_READ and not came:
            came.append(step)
            store._seen("c-1").append_id = "another"

    assert await recorded(store, reached=reached)
    assert await log(store) == ["model_answered", "turn_completed"]


async def test_an_outcome_whose_conversation_never_stands_still_is_left_to_an_actor():
    store, came = await parked(), []

    def reached(step):
        came.append(step)
        store._seen("c-1").append_id = f"another-{len(came)}"

    assert await recorded(store, reached=reached)
    assert came == [Step.GUEST_1_READ] * deposits.TRIES
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.DONE
    assert (await store.attention(9)).conversation_ids == ["c-1"]


async def test_an_owner_that_comes_between_reading_and_writing_has_the_outcome():
    store, owners = await parked(), []

    class Racing(FaultyStore):
        async def append(self, conversation_id, write):
            if write.seen is not None:
                owners.append(await Writer.of(store, "c-1"))
            return await store.append(conversation_id, write)

    racing = Racing(store, Faults())
    assert await recorded(racing)
    assert owners[0].runs["t1.m1"].status is RunStatus.DONE
    await owners[0].do(reply())


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not written", "written, reply lost"])
async def test_an_outcome_whose_write_is_unknown_counts_once(fault):
    inner = await parked()
    assert await recorded(FaultyStore(inner, Faults(append=fault)))
    if await inner.run("c-1", "t1.m1") is not None:  # an actor finds it
        assert (await inner.attention(9)).conversation_ids == ["c-1"]
        await (await Writer.of(inner, "c-1")).do(reply())
    assert await log(inner) == ["model_answered", "turn_completed"]
    assert await inner.late("c-1") == {}


async def test_an_outcome_waits_for_a_store_that_is_away(monkeypatch):
    inner = await parked()
    assert await recorded(FaultyStore(inner, Faults(finish_as_guest={1: FailBefore(), 2: FailAfter()})))
    assert await log(inner) == ["model_answered", "turn_completed"]


async def test_an_outcome_that_cannot_be_judged_here_is_left_to_an_actor(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(judging, "decide", broken)
    store = await parked()
    assert await recorded(store)
    assert await log(store) == []
    assert (await store.attention(9)).conversation_ids == ["c-1"]


async def test_a_worker_that_is_succeeded_only_records():
    store = await parked()
    assert await recorded(store, retired=lambda: True)
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.DONE
    assert await log(store) == []


async def test_an_outcome_of_an_owned_conversation_is_its_owners():
    store = await parked()
    writer = await Writer.of(store, "c-1")
    assert await recorded(store)
    assert await log(store) == []
    await writer.do(reply())


async def test_without_a_guest_outcomes_are_recorded():
    store = await parked()
    assert await deposit(bench_at(store), REQUEST, CLAIM, REPLIED)
    assert not await deposit(bench_at(store), REQUEST, "process-2.y", REPLIED)
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.DONE


async def test_a_record_of_unknown_fate_is_tried_again():
    faulty = FaultyStore(await parked(), Faults(finish={1: FailBefore(StoreUnavailable("x"))}))
    assert await deposit(bench_at(faulty), REQUEST, CLAIM, REPLIED)


async def test_outcomes_that_come_at_once_are_judged_one_after_the_other():
    store, told = await parked(call(*["lookup"] * 8), effect_id="call_4_1#1"), []
    for number in range(2, 9):
        await store.claim("c-1", f"call_4_{number}#1", incarnation=CLAIM, worker="w-1", bound_ms=LEASE_MS)
    bench = bench_at(store, guest=visitor(store), reached=lambda _: None, carry_on=told.append)

    async def ended(number):
        name = f"call_4_{number}"
        request = replace(RUN, effect_id=f"{name}#1", tool_call_id=name)
        await asyncio.sleep(0)
        return await deposit(bench, request, CLAIM, RunFinished(effect_id=f"{name}#1", ok=True, content="{}"))

    assert all(await asyncio.gather(*(ended(number) for number in range(1, 9))))
    assert (await store.load("c-1")).status is Status.GENERATING
    assert [request.effect_id for request in told] == ["t1.m2"]


async def test_an_outcome_is_recorded_while_others_of_its_conversation_are_judged_or_wait_for_that():
    store = await parked(call("lookup", "lookup"), effect_id="call_4_1#1")
    bench = bench_at(store, guest=visitor(store), reached=lambda _: None, carry_on=lambda _: None)
    turn, gate = bench.guest.turn("c-1"), asyncio.Event()

    async def another():
        async with turn:
            await gate.wait()

    await turn.acquire()
    waiting = asyncio.create_task(another())
    await asyncio.sleep(0)
    ending = asyncio.create_task(deposit(bench, RUN, CLAIM, RunFinished(effect_id="call_4_1#1", ok=True, content="{}")))
    turn.release()  # nobody has it until `another` has woken
    async with asyncio.timeout(10):
        while (await store.run("c-1", "call_4_1#1")).status is not RunStatus.DONE:
            await asyncio.sleep(0)
    assert await log(store) == ["model_answered", "run_scheduled", "run_scheduled"]
    gate.set()
    await waiting
    assert await ending
    assert (await log(store))[-1] == "call_resolved"


async def test_a_request_that_says_how_the_conversation_stands_needs_no_reading():
    store, request = await told()
    steps = []
    assert await judged_at_once(FaultyStore(store, Faults(finish_as_guest=FailBefore())), request, reached=steps.append)
    assert steps == [Step.GUEST_2_WRITTEN]
    assert await log(store) == ["model_answered", "turn_completed"]
    assert await store.run("c-1", "t1.m1") is None


async def test_the_model_call_that_a_guest_asks_for_says_how_the_conversation_stands():
    store, wanted = await parked(call("lookup"), effect_id="call_4_1#1"), []
    assert await recorded(store, RunFinished(effect_id="call_4_1#1", ok=True, content="{}"), RUN, carry_on=wanted.append)
    (request,) = wanted
    await store.claim("c-1", request.effect_id, incarnation=CLAIM, worker="w-1", bound_ms=LEASE_MS)
    outcome = REPLIED.model_copy(update={"effect_id": request.effect_id})
    guest = visitor(store)
    guest.clock.heard(await store.now())
    bench = bench_at(FaultyStore(store, Faults(finish_as_guest=FailBefore())), guest=guest, reached=lambda _: None)
    assert await deposit(bench, request, CLAIM, outcome, keeps_late=False)
    assert (await log(store))[-2:] == ["model_answered", "turn_completed"]


@pytest.mark.parametrize("tools", [("lookup",), ("lookup", "lookup")])
async def test_a_run_that_is_alone_outstanding_knows_how_the_conversation_stands(tools):
    (store, request), wanted = await told(), []
    bench = bench_at(store, guest=visitor(store), reached=lambda _: None, carry_on=wanted.append)
    calls = [ProposedCall(tool_call_id=f"call_{number}", name=name, arguments="{}") for number, name in enumerate(tools)]
    assert await deposit(bench, request, CLAIM, replace_calls(*calls), keeps_late=False)
    assert [asked.visited is not None for asked in wanted] == [len(tools) == 1] * len(tools)

    run = wanted[0]
    await store.claim("c-1", run.effect_id, incarnation=CLAIM, worker="w-1", bound_ms=LEASE_MS)
    steps = []
    bench = replace(bench, reached=steps.append)
    bench.guest.clock.heard(await store.now())
    assert await deposit(bench, run, CLAIM, RunFinished(effect_id=run.effect_id, ok=True, content="{}"))
    assert (Step.GUEST_1_READ in steps) is (len(tools) > 1)
    assert (await log(store))[-1] == "call_resolved"
    assert await store.abandoned("c-1") == {}


async def alone():
    """A store with a claimed run that is alone outstanding, a bench with a guest, and the run's request."""
    (store, request), wanted = await told(), []
    bench = bench_at(store, guest=visitor(store), reached=lambda _: None, carry_on=wanted.append)
    one = ProposedCall(tool_call_id="call_1", name="lookup", arguments="{}")
    assert await deposit(bench, request, CLAIM, replace_calls(one), keeps_late=False)
    (run,) = wanted
    await store.claim("c-1", run.effect_id, incarnation=CLAIM, worker="w-1", bound_ms=LEASE_MS)
    bench.guest.clock.heard(await store.now())
    return store, bench, run


async def cancelled(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(cancel())
    await writer.release()


async def test_the_outcome_of_a_run_whose_call_was_cancelled_meanwhile_is_late():
    store, bench, run = await alone()
    await cancelled(store)
    assert not await deposit(bench, run, CLAIM, RunFinished(effect_id=run.effect_id, ok=True, content="{}"))
    assert list(await store.late("c-1")) == [run.effect_id]


async def test_the_outcome_of_a_run_that_an_actor_has_given_up_is_late():
    store, bench, run = await alone()
    writer = await Writer.of(store, "c-1")
    await writer.do(finish(content='{"ok":false,"error":"it did not finish in time"}', ok=False))
    await writer.release()
    assert not await deposit(bench, run, CLAIM, RunFinished(effect_id=run.effect_id, ok=True, content="{}"))
    assert list(await store.late("c-1")) == [run.effect_id]


async def test_an_outcome_is_recorded_at_once_though_the_log_cannot_be_read():
    store, bench, run = await alone()
    faults = Faults(append=FailBefore(Fenced("c-1")), at=FailBefore(CipherMissing("conversation 'c-1'")))
    bench = replace(bench, store=FaultyStore(store, faults), guest=visitor(FaultyStore(store, faults)))
    bench.guest.clock.heard(await store.now())
    assert await deposit(bench, run, CLAIM, RunFinished(effect_id=run.effect_id, ok=True, content="{}"))
    assert (await store.run("c-1", run.effect_id)).status is RunStatus.DONE


@pytest.mark.parametrize("written", [False, True], ids=["not written", "written, reply lost"])
async def test_a_run_whose_write_is_unknown_and_whose_turn_is_cancelled_then_is_late_unless_it_was_judged(written):
    store, bench, run = await alone()

    class Interrupted(MemoryStore):
        """Its append is not answered, and the turn is cancelled meanwhile."""

        def __getattribute__(self, name):
            return object.__getattribute__(self, name) if name in {"append", "_asked"} else getattr(store, name)

        async def append(self, conversation_id, write):
            if written:
                await store.append(conversation_id, write)
            await cancelled(store)
            raise StoreUnavailable("the connection is lost")

    bench = replace(bench, guest=visitor(Interrupted()))
    bench.guest.clock.heard(await store.now())
    assert await deposit(bench, run, CLAIM, RunFinished(effect_id=run.effect_id, ok=True, content="{}")) is written
    assert list(await store.late("c-1")) == ([] if written else [run.effect_id])
    assert await store.abandoned("c-1") == {}


@pytest.mark.parametrize("why", ["another write", "a queued message", "no clock"])
async def test_where_it_may_stand_otherwise_the_outcome_is_recorded_first(why):
    store, request = await told(*([send(message_id="m-2")] if why == "a queued message" else []))
    if why == "another write":
        store._seen("c-1").append_id = "another"
    steps = []
    if why == "no clock":
        assert await recorded(store, request=request, reached=steps.append)
    else:
        assert await judged_at_once(store, request, reached=steps.append)
    assert steps == [Step.GUEST_1_READ, Step.GUEST_2_WRITTEN]
    assert (await log(store))[-2:] in (["model_answered", "turn_completed"], ["turn_completed", "turn_started"])


async def test_an_outcome_of_a_lost_claim_changes_nothing():
    store, request = await told()
    before = await store.load("c-1")
    assert not await judged_at_once(store, request, claim="process-2.y")
    assert await store.load("c-1") == before
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.CLAIMED


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not written", "written, reply lost"])
async def test_an_outcome_that_is_judged_at_once_counts_once(fault):
    inner, request = await told()
    assert await judged_at_once(FaultyStore(inner, Faults(append={1: fault})), request)
    assert await log(inner) == ["model_answered", "turn_completed"]


async def test_an_outcome_that_cannot_be_judged_at_once_is_recorded(monkeypatch):
    monkeypatch.setattr(judging, "decide", lambda *_: 1 / 0)
    store, request = await told()
    assert await judged_at_once(store, request)
    assert (await store.run("c-1", "t1.m1")).status is RunStatus.DONE
