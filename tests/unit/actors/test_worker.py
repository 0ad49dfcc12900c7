"""A worker for work that is done alone, without Ray: nothing shares its process with what may take it down."""

import asyncio
import threading

import pytest

from holdfast.actors import StoreAddress, Worker, WorkerSettings, tool_run
from holdfast.actors.app_loop import AppLoop
from holdfast.actors.requests import ModelRequest, RunRequest
from holdfast.actors.worker import Dropped, Succeeded
from holdfast.agent import App
from holdfast.conversation import ModelFailed, RunFinished
from holdfast.persistence import MemoryStore
from holdfast.testing.activation import DESK

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

    async def _open(self):
        return self.store, self

    async def loop(self):
        return self._loop

    @property
    def left(self):
        return self._loop.left

    async def _spec(self, store, digest):
        return DESK

    async def _model(self, store, runtime, request):
        await self.gate.wait()
        return ModelFailed(effect_id=request.effect_id, error="no")


@pytest.fixture
async def worker():
    return Given(await AppLoop.open(App(agents=[])))


async def test_who_comes_after_a_body_that_goes_on_beyond_its_bound_has_another_process(worker, monkeypatch):
    over = threading.Event()

    async def run(store, request, *, carried, **_):
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


async def test_of_model_calls_that_arrive_together_one_is_made_and_the_others_are_sent_away(worker):
    calls = [asyncio.create_task(worker._model_called(model_request(number))) for number in range(3)]
    await asyncio.sleep(0)
    worker.gate.set()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ModelFailed, Dropped, Dropped]
