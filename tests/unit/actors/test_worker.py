"""A worker for work that is done alone, without Ray: nothing shares its process with what may take it down."""

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.actors import AppBroken, StoreAddress, Worker, WorkerSettings, memory
from holdfast.actors.work_requests import ModelRequest, RunRequest
from holdfast.actors.worker import succession, tool_run
from holdfast.actors.worker import worker as module
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.app_runtime import AppRuntime
from holdfast.actors.worker.refusals import Dropped, Restarted, Succeeded
from holdfast.actors.worker.transcripts import Reading
from holdfast.agent import App
from holdfast.conversation import ModelFailed, RunFinished
from holdfast.persistence import MemoryStore
from holdfast.testing.writer import DESK

SETTINGS = WorkerSettings(
    StoreAddress("redis://x", "holdfast", "store-1"), "alone-0", "shop:app", "c", alone=True, base="alone-0"
)


def run_request(number: int) -> RunRequest:
    return RunRequest(
        conversation_id=f"c-{number}",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id="call_1#2",
        turn_id="t1",
        tool_call_id="call_1",
        tool="lookup",
        attempt=2,
        arguments_at=3,
        alone=True,
    )


def model_request(number: int) -> ModelRequest:
    return ModelRequest(f"c-{number}", "desk", DESK.digest, "t1.m1", upto_seq=2, attempt=1, alone=True)


class Given(Worker):
    """Its store and its app are given; what it calls a model is a wait for the gate."""

    def __init__(self, loop: AppLoop) -> None:
        super().__init__(SETTINGS)
        self.store, self.gate = MemoryStore(), asyncio.Event()
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
    def left(self):
        return self._loop.left

    async def _spec(self, store, digest):
        return DESK

    async def _model(self, store, runtime, request, messages):
        await self.gate.wait()
        return ModelFailed(effect_id=request.effect_id, error="no")


@pytest.fixture
async def worker():
    return Given(await AppLoop.open(App(agents=[])))


async def test_who_comes_after_a_body_that_goes_on_beyond_its_bound_has_another_process(worker, monkeypatch):
    over = threading.Event()

    async def run(store, request, inputs, *, carried, **_):
        try:
            async with asyncio.timeout(0.05):
                await carried(asyncio.to_thread(over.wait, 30))
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


async def test_model_calls_that_come_without_their_turn_are_sent_away_but_one(worker):
    calls = [asyncio.create_task(worker._model_called(model_request(number))) for number in range(3)]
    async with asyncio.timeout(10):
        while sum(call.done() for call in calls) < 2:
            await asyncio.sleep(0)
        worker.gate.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ModelFailed, Dropped, Dropped]


async def test_who_waits_for_a_turn_gets_it_in_order_and_keeps_it_for_the_call(worker):
    made = []

    async def asked(number):
        await worker.turn(f"c-{number}", "t1.m1")
        made.append(number)
        return await worker._model_called(model_request(number))

    calls = [asyncio.create_task(asked(number)) for number in range(4)]
    worker.gate.set()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*calls)
    assert made == [0, 1, 2, 3]
    assert [type(outcome) for outcome in outcomes] == [ModelFailed] * 4


async def test_a_turn_that_nobody_takes_is_given_to_the_next(worker, monkeypatch):
    monkeypatch.setattr(module, "RESERVED_S", 0.01)
    await worker.turn("c-1", "t1.m1")
    async with asyncio.timeout(10):
        await worker.turn("c-2", "t1.m1")
        await worker.drop("c-2", "t1.m1")
        await worker.turn("c-3", "t1.m1")


async def test_who_has_waited_for_its_turn_for_long_is_sent_away_and_keeps_its_place(worker, monkeypatch):
    monkeypatch.setattr(module, "TURN_S", 0.01)
    first = asyncio.create_task(worker._model_called(model_request(1)))
    async with asyncio.timeout(10):
        while not worker._succession.effects:
            await asyncio.sleep(0)
    with pytest.raises(Dropped, match="its turn"):
        await worker.turn("c-2", "t1.m1")
    monkeypatch.setattr(module, "TURN_S", 30)
    third = asyncio.create_task(worker.turn("c-3", "t1.m1"))
    await asyncio.sleep(0)
    second = asyncio.create_task(worker.turn("c-2", "t1.m1"))
    await asyncio.sleep(0)
    worker.gate.set()
    async with asyncio.timeout(10):
        await asyncio.gather(first, second)
    assert not third.done()
    third.cancel()


async def test_a_call_that_is_meant_for_a_process_that_has_died_is_refused(worker):
    with pytest.raises(Restarted):
        await worker.call_model(b"", "another process")


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
        return AppRuntime(App(agents=[]), await AppLoop.open(App(agents=[])))

    monkeypatch.setattr(module.AppRuntime, "open", opened)
    worker = Worker(replace(SETTINGS, memory_mb=200))
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
    monkeypatch.setattr(module, "ray", SimpleNamespace(get_runtime_context=lambda: context))
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
