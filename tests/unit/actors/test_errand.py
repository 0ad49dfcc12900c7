"""One effect on its way to its outcome, against a store in memory and workers that never answer."""

import asyncio

import pytest

from holdfast.actors import NoOutcome, errand
from holdfast.actors.admission import Admission
from holdfast.actors.errand import Errand
from holdfast.actors.recent import Recent
from holdfast.conversation import AgentSpec, Limits, RunFinished, ToolSpec, outstanding
from holdfast.conversation.envelope import success
from holdfast.persistence import MemoryStore, codec
from holdfast.testing.activation import Activation, begin, call, start

BOUND_S = 0.05
QUICK = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), limits=Limits(run_timeout_s=BOUND_S))


class Silent:
    """Workers that take a run and never say anything; what happens to it meanwhile is up to the test."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.times = 0

    async def run_tool(self, app, code, request):
        self.times += 1
        self.asked.set()
        await asyncio.Event().wait()

    async def join(self, worker, incarnation, conversation_id, effect_id):
        await asyncio.Event().wait()
        return NoOutcome.GONE


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(errand, "GRACE_S", BOUND_S)
    monkeypatch.setattr(errand, "LOOK_S", BOUND_S, raising=False)


async def running():
    """A store with one run, its workers, the run's effect id, and its outcome on its way."""
    store, crew = MemoryStore(), Silent()
    activation = await Activation.of(store, "c-1")
    await activation.do(start(), begin(), call("lookup"))
    (effect,) = outstanding(activation.state)

    async def struck(process, what):
        return False

    given = {"state": activation.state, "spec": QUICK, "recent": Recent(), "run": None, "alone": False, "struck": struck}
    errand_ = Errand(store, crew, admission=Admission(store), **given)
    outcome = asyncio.create_task(errand_.outcome(effect, 1))
    async with asyncio.timeout(10):
        await crew.asked.wait()
    return store, crew, effect.effect_id, outcome


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
    _, crew, _, outcome = await running()
    async with asyncio.timeout(10):
        while crew.times < 3:
            await asyncio.sleep(0.01)
    assert not outcome.done()
    outcome.cancel()
