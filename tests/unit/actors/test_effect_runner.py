"""One effect on its way to its outcome, against a store in memory and workers that never answer, or answer as they are told."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from hosted import FromStore, context_of
from writer import Writer, begin, call, start

from holdfast.actors.activation import effect_runner as runner
from holdfast.actors.activation.effect_runner import EffectRunner
from holdfast.actors.workers import Claimed, NoOutcome, NoWorker
from holdfast.conversation import AgentSpec, FailureReason, Limits, ModelReplied, RunFinished, ToolSpec, outstanding
from holdfast.conversation.text.envelope import success
from holdfast.persistence import MemoryStore, codec

BOUND_S = 0.05
QUICK = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), limits=Limits(run_timeout_s=BOUND_S))


class Silent(FromStore):
    """Workers that take a run and never say anything; what happens to it meanwhile is up to the test."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.times = 0
        self.waiting = 0
        self.request = None

    async def run_tool(self, app, code, request):
        self.times += 1
        self.waiting += 1
        self.request = request
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting -= 1

    async def join(self, worker, incarnation, conversation_id, effect_id):
        await asyncio.Event().wait()
        return NoOutcome.GONE


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(runner, "GRACE_S", BOUND_S)
    monkeypatch.setattr(runner, "LOOK_S", BOUND_S, raising=False)


class Owned(SimpleNamespace):
    """What an activation holds: as many claims as `max_claims` says beside the next one."""

    @property
    def blame(self):
        return SimpleNamespace(max_claims=self.max_claims())


async def nothing(process, what):
    return False


def made(store, workers, state, spec, *, max_claims=lambda: 0, now=lambda: 0, run=None, strike=nothing, **heard):
    owned = Owned(state=state, spec=spec, token="t-1", max_claims=max_claims, time=SimpleNamespace(now=now))
    heard = {"put": lambda _: None} | heard
    context = context_of(store, workers)
    return EffectRunner(context, owned, run=run, strike=strike, traceparent=None, **heard)


async def running(*, max_claims=0):
    """A store with one run, its workers, the run's effect id, and its outcome on its way."""
    store, workers = MemoryStore(), Silent()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup"))
    (effect,) = outstanding(writer.state)

    errand_ = made(store, workers, writer.state, QUICK, max_claims=lambda: max_claims, now=wall_ms)
    outcome = asyncio.create_task(errand_.outcome(effect, 1))
    async with asyncio.timeout(10):
        await workers.asked.wait()
    return store, workers, effect.effect_id, outcome


async def test_an_outcome_that_was_recorded_counts_also_when_its_worker_answers_nothing_until_the_bound():
    # given a run whose worker recorded its outcome and then did not say so
    store, _, effect_id, outcome = await running()
    assert await store.claim("c-1", effect_id, incarnation="i.1", worker="w")
    recorded = RunFinished(effect_id=effect_id, ok=True, content=success('"done"'))
    await store.finish("c-1", effect_id, incarnation="i.1", outcome=codec.encode(recorded))
    # when its bound has passed
    async with asyncio.timeout(10):
        found = await outcome
    # then what is recorded is its outcome
    assert found == recorded


async def test_a_run_that_only_waits_for_its_turn_is_not_failed_and_its_bound_begins_with_its_claim():
    # given a run that no worker takes for many times its bound
    store, _, effect_id, outcome = await running()
    done, _ = await asyncio.wait({outcome}, timeout=10 * BOUND_S)
    assert not done, outcome.result()
    # when one takes it and says nothing more
    bound_ms = round(1000 * BOUND_S)
    assert await store.claim("c-1", effect_id, incarnation="i.1", worker="w", bound_ms=bound_ms)
    async with asyncio.timeout(10):
        found = await outcome
    # then it did not finish
    assert (found.ok, "did not finish" in found.content) == (False, True)


async def test_a_run_that_no_worker_has_heard_of_is_asked_for_again():
    _, workers, _, outcome = await running()
    async with asyncio.timeout(10):
        while workers.times < 3:
            await asyncio.sleep(0.01)
    assert not outcome.done()
    assert workers.waiting == 1  # those that were asked before are not waited for any more
    outcome.cancel()
    await asyncio.gather(outcome, return_exceptions=True)
    assert workers.waiting == 0


@pytest.mark.parametrize("max_claims", [0, 40, 1])
async def test_what_has_taken_processes_down_runs_in_the_company_that_is_left_it_from_its_first_try(max_claims):
    _, workers, _, outcome = await running(max_claims=max_claims)
    assert (workers.request.attempt, workers.request.max_claims) == (1, max_claims)
    outcome.cancel()
    await asyncio.gather(outcome, return_exceptions=True)


class Model(Silent):
    """Workers of a model call, who claim it for so long, if for any time, and say nothing more."""

    def __init__(self, store, bound_ms=None):
        super().__init__()
        self.store, self.bound_ms = store, bound_ms

    async def call_model(self, app, code, request):
        self.times += 1
        if self.bound_ms is not None:
            await self.store.claim("c-1", request.effect_id, incarnation="p-1.x", worker="w", bound_ms=self.bound_ms)
        self.asked.set()
        await asyncio.Event().wait()


async def calling():
    """A store with one model call, and the writer of its conversation."""
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    return store, writer


def wall_ms():
    return time.time_ns() // 1_000_000


def runner_of(store, writer, workers, **more):
    spec = QUICK.model_copy(update={"limits": Limits(model_timeout_s=BOUND_S, run_timeout_s=BOUND_S)})
    return made(store, workers, writer.state, spec, now=wall_ms, **more)


async def outcome_of(store, writer, workers, **more):
    (effect,) = outstanding(writer.state)
    async with asyncio.timeout(10):
        return await runner_of(store, writer, workers, **more).outcome(effect, 1)


async def test_a_model_call_whose_worker_answers_nothing_until_its_bound_has_failed():
    store, writer = await calling()
    outcome = await outcome_of(store, writer, Model(store, 50))
    assert outcome.reason is FailureReason.MODEL_TIMEOUT
    assert "within 0.05 s, nor did the worker" in outcome.error


async def test_a_claim_stands_until_its_own_bound_however_late_it_is_seen():
    # given a claim of before the takeover, that stands for longer than a call may take
    store, writer = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=600)
    run = await store.run("c-1", "t1.m1")
    # then the call has failed once that bound has passed, and no sooner
    outcome = await outcome_of(store, writer, Silent(), run=run)
    assert outcome.reason is FailureReason.MODEL_TIMEOUT
    assert await store.now() >= run.until


async def test_a_model_call_that_no_worker_has_claimed_is_asked_for_again_and_not_failed():
    store, writer = await calling()
    workers = Model(store)
    outcome = asyncio.create_task(outcome_of(store, writer, workers))
    async with asyncio.timeout(10):
        while workers.times < 3:
            await asyncio.sleep(0.01)
    assert not outcome.done()
    outcome.cancel()
    await asyncio.gather(outcome, return_exceptions=True)


async def test_an_answer_of_the_model_that_was_recorded_counts_although_its_worker_does_not_say_so():
    store, writer = await calling()
    workers = Model(store, 500)
    outcome = asyncio.create_task(outcome_of(store, writer, workers))
    async with asyncio.timeout(10):
        await workers.asked.wait()
    recorded = ModelReplied(effect_id="t1.m1", content="Hi.")
    assert await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=codec.encode(recorded))
    assert await outcome == recorded


class Telling(FromStore):
    """Workers that answer each request and each join with the next of these; `asked` is what was asked, in order."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def call_model(self, app, code, request):
        return await self._answer("call", request)

    async def run_tool(self, app, code, request):
        return await self._answer("run", request)

    async def join(self, worker, incarnation, conversation_id, effect_id):
        return await self._answer("join", (worker, incarnation))

    async def _answer(self, what, request):
        self.asked.append((what, request))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer


REPLIED = ModelReplied(effect_id="t1.m1", content="Hi.")


async def test_a_timeout_on_the_way_to_a_worker_is_no_timeout_of_the_model():
    store, writer = await calling()
    with pytest.raises(NoWorker, match="the store took too long"):
        await outcome_of(store, writer, Telling(TimeoutError("the store took too long")))


async def test_a_call_that_goes_on_is_said_to_be_at_a_worker_and_is_asked_about_while_this_activation_stays():
    store, writer = await calling()
    put = []

    async def claim():
        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
        return Claimed.BEGUN

    workers = Telling(claim, REPLIED)
    assert await outcome_of(store, writer, workers, put=lambda where: put.append((where, len(workers.asked)))) == REPLIED
    assert workers.asked[1:] == [("join", ("w", "p-1.x"))]
    assert put == [(Claimed.BEGUN, 1)]


async def test_what_is_recorded_of_a_call_that_a_worker_has_is_its_outcome_and_nobody_is_asked():
    store, writer = await calling()

    async def claim():
        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
        assert await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=codec.encode(REPLIED))
        return Claimed.BEGUN

    workers = Telling(claim)
    assert await outcome_of(store, writer, workers) == REPLIED


async def test_a_claim_of_before_the_takeover_is_at_a_worker_once_that_one_says_so():
    store, writer = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
    put = []
    workers = Telling(Claimed.QUEUED, REPLIED)
    run = await store.run("c-1", "t1.m1")
    assert await outcome_of(store, writer, workers, run=run, put=put.append) == REPLIED
    assert workers.asked == [("join", ("w", "p-1.x"))] * 2
    assert put == [Claimed.QUEUED]


def striking(*, over=False):
    struck = []

    async def strike(process, what):
        struck.append((process, what))
        return over

    return struck, strike


async def test_the_process_that_died_of_a_call_is_blamed_and_the_call_is_asked_for_again_alone_instead_of_its_claim():
    store, writer = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
    struck, strike = striking()
    workers = Telling(NoOutcome.GONE, REPLIED)
    assert await outcome_of(store, writer, workers, strike=strike, max_claims=lambda: len(struck)) == REPLIED
    assert struck == [("p-1", "the model call t1.m1: its worker died")]
    (_, request) = workers.asked[1]
    assert (request.instead_of, request.max_claims) == ("p-1.x", 1)


async def test_the_death_that_puts_the_conversation_in_quarantine_asks_for_nothing_more():
    store, writer = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
    struck, strike = striking(over=True)
    workers = Telling(NoOutcome.GONE)
    assert await outcome_of(store, writer, workers, strike=strike) is None
    assert (len(struck), len(workers.asked)) == (1, 1)


async def test_nobody_is_blamed_for_a_call_that_its_living_process_has_dropped():
    store, writer = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
    struck, strike = striking()
    workers = Telling(NoOutcome.FORGOTTEN, REPLIED)
    assert await outcome_of(store, writer, workers, strike=strike) == REPLIED
    assert struck == []
    assert workers.asked[1][1].instead_of == "p-1.x"


async def test_nobody_is_blamed_where_the_outcome_of_a_process_that_is_gone_was_recorded():
    store, writer = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w", bound_ms=60_000)
    struck, strike = striking()

    async def recorded():
        assert await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=codec.encode(REPLIED))
        return NoOutcome.GONE

    workers = Telling(recorded)
    assert await outcome_of(store, writer, workers, strike=strike) == REPLIED
    assert (struck, len(workers.asked)) == ([], 1)


async def test_who_comes_too_late_for_a_call_follows_the_claim_that_stands():
    store, writer = await calling()

    async def claimed_by_another():
        assert await store.claim("c-1", "t1.m1", incarnation="p-2.y", worker="w-2", bound_ms=60_000)
        return NoOutcome.NOT_MINE

    workers = Telling(claimed_by_another, REPLIED)
    assert await outcome_of(store, writer, workers) == REPLIED
    assert workers.asked[1] == ("join", ("w-2", "p-2.y"))


async def test_a_model_call_without_a_record_has_no_outcome_and_is_not_made():
    store, writer = await calling()
    store._conversations["c-1"].runs.clear()
    workers = Telling()
    assert await outcome_of(store, writer, workers) is None
    assert workers.asked == []
