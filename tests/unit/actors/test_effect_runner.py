"""One effect on its way to its outcome, against a store in memory and workers that never answer."""

import asyncio

import pytest

from holdfast.actors import NoOutcome, NoWorker
from holdfast.actors.activation import effect_runner as runner
from holdfast.actors.activation.effect_runner import EffectRunner
from holdfast.actors.activation.log_tail import LogTail
from holdfast.actors.admission import Admission
from holdfast.conversation import AgentSpec, FailureReason, Limits, RunFinished, ToolSpec, outstanding
from holdfast.conversation.envelope import success
from holdfast.persistence import MemoryStore, codec
from holdfast.testing.writer import Writer, begin, call, start

BOUND_S = 0.05
QUICK = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), limits=Limits(run_timeout_s=BOUND_S))


class Silent:
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


async def running(*, alone=False):
    """A store with one run, its workers, the run's effect id, and its outcome on its way."""
    store, workers = MemoryStore(), Silent()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup"))
    (effect,) = outstanding(writer.state)

    async def struck(process, what):
        return False

    given = {"state": writer.state, "spec": QUICK, "log_tail": LogTail(), "run": None, "alone": alone, "struck": struck}
    errand_ = EffectRunner(store, workers, admission=Admission(store), **given)
    outcome = asyncio.create_task(errand_.outcome(effect, 1))
    async with asyncio.timeout(10):
        await workers.asked.wait()
    return store, workers, effect.effect_id, outcome


async def test_an_outcome_that_was_recorded_counts_also_when_its_worker_answers_nothing_until_the_bound():
    # given a run whose worker recorded its outcome and then did not say so
    store, _, effect_id, outcome = await running()
    assert await store.claim("c-1", effect_id, incarnation="i.1", worker="w")
    recorded = RunFinished(effect_id=effect_id, ok=True, content=success('"done"'))
    await store.finish("c-1", effect_id, incarnation="i.1", outcome=codec.encode_outcome(recorded))
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
    assert await store.claim("c-1", effect_id, incarnation="i.1", worker="w")
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


@pytest.mark.parametrize("alone", [False, True])
async def test_what_has_taken_processes_down_runs_alone_from_its_first_try(alone):
    _, workers, _, outcome = await running(alone=alone)
    assert (workers.request.attempt, workers.request.alone) == (1, alone)
    outcome.cancel()
    await asyncio.gather(outcome, return_exceptions=True)


class Model(Silent):
    """A worker whose model call goes so."""

    def __init__(self, said=None):
        super().__init__()
        self.said = said

    async def call_model(self, app, code, request):
        if self.said is not None:
            raise self.said
        await asyncio.Event().wait()


async def model_called(workers):
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    (effect,) = outstanding(writer.state)
    spec = QUICK.model_copy(update={"limits": Limits(model_timeout_s=BOUND_S)})

    async def struck(process, what):
        return False

    given = {"state": writer.state, "spec": spec, "log_tail": LogTail(), "run": None, "alone": False, "struck": struck}
    errand_ = EffectRunner(store, workers, admission=Admission(store), **given)
    async with asyncio.timeout(10):
        return await errand_.outcome(effect, 1)


async def test_a_model_call_whose_worker_answers_nothing_until_its_bound_has_failed():
    outcome = await model_called(Model())
    assert outcome.reason is FailureReason.MODEL_TIMEOUT
    assert "within 0.05 s, nor did the worker" in outcome.error


async def test_a_timeout_on_the_way_to_a_worker_is_no_timeout_of_the_model():
    with pytest.raises(NoWorker, match="the store took too long"):
        await model_called(Model(TimeoutError("the store took too long")))
