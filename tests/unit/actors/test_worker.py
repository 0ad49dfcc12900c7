"""A worker for work that is done alone, without Ray: nothing shares its process with what may take it down."""

import asyncio
import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from given_worker import carried_out, claim_of, finished
from writer import DESK, Writer, begin, cancel, start

from holdfast.actors import memory
from holdfast.actors import worker as package
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker import claims, succession, tool_run
from holdfast.actors.worker import worker as module
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.app_runtime import AppRuntime
from holdfast.actors.worker.gate import CallRules, FixedRules
from holdfast.actors.worker.notify.notifier import Notifier
from holdfast.actors.worker.refusals import AppBroken, Dropped, Succeeded
from holdfast.actors.worker.transcripts import Reading
from holdfast.actors.worker.worker import Worker
from holdfast.actors.workers import Claimed, ModelRequest, NoOutcome, RunRequest
from holdfast.agent import App, Rules
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied, RunFinished
from holdfast.conversation.terms.models import ModelSpec
from holdfast.conversation.terms.money import NANOS
from holdfast.conversation.terms.overrides import Overridable, Overrides
from holdfast.persistence import MemoryStore, RunStatus
from holdfast.persistence.access import COST, TOKENS
from holdfast.settings import ProcessLimits

ACTORS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
SETTINGS = WorkerSettings(ACTORS, "alone-0", "shop:app", "c", alone=True, base="alone-0")


def limited(**limits):
    return replace(SETTINGS, actors=replace(ACTORS, process_limits=ProcessLimits(**limits)))


def run_request(number: int) -> RunRequest:
    return RunRequest(
        code="k",
        conversation_id=f"c-{number}",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id="call_1#2",
        turn_id="t1",
        tool_call_id="call_1",
        tool="lookup",
        attempt=2,
        arguments_at=3,
        max_claims=1,
    )


def model_request(number: int) -> ModelRequest:
    return ModelRequest(
        code="k",
        conversation_id=f"c-{number}",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id="t1.m1",
        upto_seq=2,
        attempt=1,
        max_claims=1,
    )


class Given(Worker):
    """Its store and its app are given; what it calls a model is a wait for the gate."""

    def __init__(self, loop: AppLoop) -> None:
        super().__init__(SETTINGS)
        self.store, self.gate, self.called = MemoryStore(), asyncio.Event(), []
        self._loop = loop
        self.app = App(agents=[])
        self.worn = False
        self._transcripts = self

    async def reading(self, store, request):
        return Reading([], 0)

    async def _open(self):
        return self.store, self

    async def loop(self):
        return self._loop

    @property
    def latest(self):
        return self._loop

    async def _open_store(self):
        return self.store

    @property
    def left(self):
        return self._loop.left

    async def _spec(self, store, digest):
        return DESK

    async def _model(self, store, runtime, request, spec, messages, *, rules):
        self.called.append(request.conversation_id)
        await self.gate.wait()
        return ModelFailed(effect_id=request.effect_id, error="no")


@pytest.fixture
async def worker():
    return Given(await AppLoop.open(App(agents=[])))


async def test_who_comes_after_a_body_that_goes_on_beyond_its_bound_has_another_process(worker, monkeypatch):
    over = threading.Event()

    async def run(bench, request, inputs, **_):
        try:
            async with asyncio.timeout(0.05):
                await bench.room.run(asyncio.to_thread(over.wait, 30))
        except TimeoutError:
            return RunFinished(effect_id=request.effect_id, ok=False, content="{}")

    monkeypatch.setattr(tool_run, "run", run)
    first, second = asyncio.create_task(worker._tool_run(run_request(1))), asyncio.create_task(worker._tool_run(run_request(2)))
    try:
        async with asyncio.timeout(10):
            assert (await first).ok is False
            with pytest.raises(Succeeded):
                await second  # it has waited here, unclaimed
            with pytest.raises(Succeeded):
                await worker._model_called(model_request(3))
        assert await worker.store.generation("alone-0") == 1
    finally:
        over.set()


async def asked(worker, number):
    """The writer of a conversation whose model call is outstanding; `model_request` is for it."""
    writer = await Writer.of(worker.store, f"c-{number}")
    await writer.do(start(), begin())
    return writer


async def status(worker, number):
    run = await worker.store.run(f"c-{number}", "t1.m1")
    return None if run is None else run.status


def calling(worker, number):
    return asyncio.create_task(carried_out(worker, model_request(number)))


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_calls_get_their_turns_in_the_order_in_which_they_came(worker):
    for number in range(4):
        await asked(worker, number)
    calls = [calling(worker, number) for number in range(4)]
    worker.gate.set()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*calls)
    assert worker.called == ["c-0", "c-1", "c-2", "c-3"]
    assert [type(outcome) for outcome in outcomes] == [ModelFailed] * 4
    assert [await status(worker, number) for number in range(4)] == [RunStatus.DONE] * 4


async def test_a_call_that_waits_for_its_turn_has_claimed_nothing_so_that_no_death_of_the_process_is_blamed_on_it(worker):
    for number in range(3):
        await asked(worker, number)
    calls = [calling(worker, number) for number in range(3)]
    await until(lambda: worker.called)
    assert [await status(worker, number) for number in range(3)] == [RunStatus.CLAIMED, RunStatus.RUNNABLE, RunStatus.RUNNABLE]
    worker.gate.set()
    async with asyncio.timeout(10):
        await asyncio.gather(*calls)
    assert worker.called == ["c-0", "c-1", "c-2"]


async def test_a_call_that_takes_longer_is_told_as_claimed_and_goes_on(worker):
    await asked(worker, 1)
    assert await worker._model_called(model_request(1)) is Claimed.BEGUN
    run = await worker.store.run("c-1", "t1.m1")
    assert (run.worker, run.process) == ("alone-0", worker._incarnation)
    assert run.until > await worker.store.now()
    assert await worker._model_called(model_request(1)) is Claimed.BEGUN  # a second request joins it
    claim = claim_of(worker, model_request(1))
    assert claim == run.incarnation
    worker.gate.set()
    async with asyncio.timeout(10):
        assert (await finished(worker, claim)).error == "no"
    assert worker.called == ["c-1"]


async def test_a_call_that_was_claimed_elsewhere_is_not_made_unless_that_claim_is_known_to_be_gone(worker):
    await asked(worker, 1)
    assert await worker.store.claim("c-1", "t1.m1", incarnation="process-1.abc", worker="w")
    worker.gate.set()
    assert await worker._model_called(model_request(1)) is NoOutcome.NOT_MINE
    assert await worker._model_called(replace(model_request(1), instead_of="process-0.abc")) is NoOutcome.NOT_MINE
    assert worker.called == []
    outcome = await carried_out(worker, replace(model_request(1), instead_of="process-1.abc"))
    assert (outcome.error, worker.called) == ("no", ["c-1"])


async def test_a_dropped_model_call_ends_and_makes_room_for_the_next(worker):
    for number in (1, 2):
        await asked(worker, number)
    await worker._model_called(model_request(1))
    claim = claim_of(worker, model_request(1))
    await worker.drop("process-9.abc")  # of another process
    assert await worker.keeps([claim]) == [True]
    joining = asyncio.create_task(finished(worker, claim))
    await asyncio.sleep(0)
    await worker.drop(claim)
    async with asyncio.timeout(10):
        with pytest.raises(Dropped):
            await joining
        second = calling(worker, 2)
        await until(lambda: len(worker.called) == 2)
        worker.gate.set()
        assert (await second).error == "no"
    assert await worker.keeps([claim]) == [False]


async def test_a_call_that_nobody_waits_for_any_more_is_found_by_the_look_although_nobody_told_the_worker(worker, monkeypatch):
    monkeypatch.setattr(claims, "LOOK_EVERY_S", 0.01)
    writer = await asked(worker, 1)
    worker._claims.look(worker._open_store)
    await worker._model_called(model_request(1))
    claim = claim_of(worker, model_request(1))
    await asyncio.sleep(0.1)
    assert await worker.keeps([claim]) == [True]
    await writer.do(cancel())
    async with asyncio.timeout(10):
        while (await worker.keeps([claim])) == [True]:
            await asyncio.sleep(0.001)
    assert not worker._working()


async def test_an_app_that_cannot_be_opened_is_tried_once_for_all_who_wait(monkeypatch):
    tries, gate = [], asyncio.Event()

    async def opening(settings):
        tries.append(settings)
        await gate.wait()
        raise TimeoutError("the app's lifespan did not open within 300 s")

    monkeypatch.setattr(module.AppRuntime, "open", opening)
    worker = Worker(SETTINGS)
    worker._store = MemoryStore()
    asked = [asyncio.create_task(worker.prepare()) for _ in range(5)]
    async with asyncio.timeout(10):
        while not tries:
            await asyncio.sleep(0)
        gate.set()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        worker._drain.cancel()
    assert [type(outcome) for outcome in outcomes] == [AppBroken] * 5
    with pytest.raises(Succeeded):
        await worker.prepare()
    assert len(tries) == 1
    assert "lifespan did not open" in await worker._store.problem("shop:app")
    assert await worker._store.generation("alone-0") == 1  # what hangs may hold this process for ever


async def test_a_worker_that_grew_beyond_its_bound_since_it_opened_its_app_is_succeeded(monkeypatch):
    resident_mb = [100.0]
    for where in (succession, memory):
        monkeypatch.setattr(where, "resident_mb", lambda: resident_mb[0])

    async def opened(settings):
        return AppRuntime(App(agents=[]), await AppLoop.open(App(agents=[])), Notifier(App(agents=[]), {}))

    monkeypatch.setattr(module.AppRuntime, "open", opened)
    worker = Worker(limited(worker_mb=200))
    worker._store = store = MemoryStore()
    await worker.prepare()
    worker._drain.cancel()
    resident_mb[0] = 200.0
    await worker._succession.hand_over(store, held=worker._opened[1].worn)
    assert await store.generation("alone-0") == 0
    resident_mb[0] = 201.0
    await worker._succession.hand_over(store, held=worker._opened[1].worn)
    assert await store.generation("alone-0") == 1
    with pytest.raises(Succeeded):
        await worker._tool_run(run_request(1))


@pytest.mark.parametrize(("serving", "ends"), [(None, False), (ACTORS.release, False), ("0.1.0", True)])
async def test_a_worker_writes_nothing_as_a_guest_while_another_release_serves_its_store(serving, ends):
    worker = Worker(SETTINGS)
    worker._store = store = MemoryStore()
    if serving is not None:
        await store.serve(serving, before=None)
    guest = worker._bench_at(store, room=None).guest
    assert guest.allowed
    await worker._succession.hand_over(store, held=False)
    assert guest.allowed is not ends
    assert not worker._succession.succeeded  # clients of its release may still be connected


class Opened:
    """An app that is open here: what becomes of it."""

    worn = False

    def __init__(self):
        self.tidied, self.closed = 0, 0

    async def tidy(self):
        self.tidied += 1

    async def close(self):
        self.closed += 1


@pytest.mark.parametrize("runtime", [Opened(), None], ids=["its app is open", "its app was never opened"])
async def test_a_worker_whose_successor_is_in_office_leaves_once_nothing_runs_there(monkeypatch, runtime):
    left = asyncio.Event()
    leave = SimpleNamespace(remote=left.set)
    context = SimpleNamespace(current_actor=SimpleNamespace(leave=leave))
    monkeypatch.setattr(module, "ray", SimpleNamespace(get_runtime_context=lambda: context, is_initialized=lambda: False))
    monkeypatch.setattr(module, "DRAIN_CHECK_S", 0.001)
    worker = Worker(SETTINGS)
    worker._store = store = MemoryStore()
    worker._opened = None if runtime is None else (store, runtime)
    await store.succeed("alone-0", 1)
    going = worker._runs.joined("run", left.wait)
    worker._begin_draining()
    async with asyncio.timeout(10):
        while not worker._succession.succeeded:
            await asyncio.sleep(0.001)
        with pytest.raises(Succeeded):
            await worker._tool_run(run_request(1)) if runtime is not None else await worker.prepare()
        assert not left.is_set()
        going.cancel()
        await left.wait()
    if runtime is not None:
        assert runtime.tidied
        assert runtime.closed == 1


def test_litellm_has_a_connection_for_each_model_call_that_goes_on(monkeypatch):
    for name in module.CONNECTIONS:
        monkeypatch.delenv(name, raising=False)

    Worker(limited(model_calls=3000))
    assert [os.environ[name] for name in module.CONNECTIONS] == ["3000"] * 2
    Worker(limited(model_calls=4000))
    assert [os.environ[name] for name in module.CONNECTIONS] == ["3000"] * 2  # who has set them knows why


@pytest.mark.parametrize("kind", ["model", "tool"])
async def test_a_full_worker_refuses_work_that_may_not_wait_and_joins_what_it_has_already(worker, monkeypatch, kind):
    over = asyncio.Event()

    async def run(bench, request, inputs, *, claim, **_):
        claim.made()
        await over.wait()
        return RunFinished(effect_id=request.effect_id, ok=True, content="{}")

    monkeypatch.setattr(tool_run, "run", run)
    if kind == "model":
        await asked(worker, 1)
        ask, request = worker._model_called, model_request
    else:
        ask, request = worker._tool_run, run_request
    first = await ask(request(1))
    claim = claim_of(worker, request(1))
    assert first is Claimed.BEGUN
    assert await ask(replace(request(2), waits=False)) is NoOutcome.FULL
    assert await ask(replace(request(1), waits=False)) is Claimed.BEGUN
    assert claim_of(worker, request(1)) == claim
    assert await ask(request(2)) is Claimed.QUEUED
    claim = claim_of(worker, request(2))
    assert await ask(replace(request(2), waits=False)) is Claimed.QUEUED
    assert claim_of(worker, request(2)) == claim
    worker.gate.set()
    over.set()


async def test_what_a_model_call_used_counts_for_the_key_that_its_conversation_is_charged_to(worker, monkeypatch):
    async def answered(store, request, *, counts, **_):
        counts.whole(0.25)
        return ModelReplied(effect_id=request.effect_id, content="Hi.", input_tokens=7, output_tokens=3)

    monkeypatch.setattr(package, "model", SimpleNamespace(call=answered), raising=False)
    await (await Writer.of(worker.store, "c-1")).do(start())
    await worker.store.charge("c-1", "k1")

    rules = CallRules(FixedRules(Rules()), Rules(), "desk", None)
    await Worker._model(worker, worker.store, worker, model_request(1), DESK, Reading([], 0), rules=rules)

    async with asyncio.timeout(10):
        while len(worker._background):
            await asyncio.sleep(0)
    assert (await worker.store.used(["k1"]))[0].amounts == {TOKENS: 10, COST: NANOS // 4}


async def test_a_model_call_is_made_under_the_overrides_of_its_turns_message_and_says_which_model_answered(worker, monkeypatch):
    asked = []

    async def answered(store, request, *, spec, counts, **_):
        asked.append((spec.model, spec.model_options))
        return ModelReplied(effect_id=request.effect_id, content="Hi.")

    monkeypatch.setattr(package, "model", SimpleNamespace(call=answered), raising=False)
    allowed = Overridable(models=(ModelSpec(model="test/large"),), temperature=(0, 1))
    spec = DESK.model_copy(update={"overridable": allowed})

    async def called(spec, **given):
        reading = Reading([], 0, overrides=Overrides(**given) if given else None)
        rules = CallRules(FixedRules(Rules()), Rules(), "desk", None)
        return await Worker._model(worker, worker.store, worker, model_request(1), spec, reading, rules=rules)

    assert (await called(spec)).model == ""
    assert (await called(spec, temperature=0.5)).model == ""
    assert (await called(spec, model="test/large", temperature=1)).model == "test/large"
    refused = [await called(spec, max_tokens=7), await called(DESK, temperature=0.5), await called(spec, model="test/else")]
    assert [one.reason for one in refused] == [FailureReason.NOT_OVERRIDABLE] * 3
    assert asked == [(DESK.model, "{}"), (DESK.model, '{"temperature":0.5}'), ("test/large", '{"temperature":1.0}')]
