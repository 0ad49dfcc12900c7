"""A worker that nobody asks for anything ends, and never between being asked and beginning."""

import asyncio
import dataclasses
import time

import pytest
from given_worker import ACTORS, SETTINGS, GivenWorker, carried_out
from writer import APP, DESK, Writer, begin, cancel, reply, start

from holdfast.actors.worker import worker as module
from holdfast.actors.worker.refusals import Succeeded
from holdfast.actors.worker.succession import Succession, under_way
from holdfast.actors.worker.transcripts import Reading
from holdfast.actors.workers import ModelRequest, NoOutcome
from holdfast.conversation import Breaker, ModelFailed
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.settings import ProcessLimits


class Left:
    """What Ray is told: this process may end."""

    def __init__(self):
        self.at = asyncio.Event()
        self.current_actor = self.leave = self

    def get_runtime_context(self):
        return self

    def is_initialized(self):
        return False

    def remote(self):
        self.at.set()


class Unused(GivenWorker):
    """Its store is one that lives here, what it reads and calls waits for a gate."""

    def __init__(self, store, idle_s):
        super().__init__(store)
        self._settings = dataclasses.replace(
            SETTINGS, app=APP.app, actors=dataclasses.replace(ACTORS, process_limits=ProcessLimits(worker_idle_s=idle_s))
        )
        self._succession = Succession(self._settings)
        self.reading_gate, self.gate = asyncio.Event(), asyncio.Event()
        self.reading_gate.set()
        self._transcripts = self

    async def _connected(self):
        return self._given

    async def _open(self):
        self._succession.asked_at = time.monotonic()
        return await super()._open()

    async def reading(self, store, request):
        await self.reading_gate.wait()
        return Reading([], 0)

    async def _model(self, store, runtime, request, spec, messages, *, rules):
        await self.gate.wait()
        return ModelFailed(effect_id=request.effect_id, error="no")


REQUEST = ModelRequest(
    code="k", conversation_id="c-1", agent="desk", spec_digest=DESK.digest, effect_id="t1.m1", upto_seq=2, attempt=1
)
RECORD = APP.model_copy(update={"code": "k"})


@pytest.fixture
def left(monkeypatch):
    found = Left()
    monkeypatch.setattr(module, "ray", found)
    monkeypatch.setattr(module, "DRAIN_CHECK_S", 0.01)
    return found


async def until(condition):
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.005)


async def succeeded(store):
    async def looked():
        return await store.generation("worker-0") == 1

    await until(looked)


async def stored(record=RECORD):
    store = MemoryStore()
    await store.put_app(record, [DESK])
    return store


async def calling(store):
    """The writer of a conversation whose model call is outstanding; `REQUEST` is for it."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    return writer


async def test_a_worker_that_nobody_asks_for_anything_has_a_successor_put_in_office_and_ends(left):
    store = await stored()
    worker = Unused(store, idle_s=0.05)
    await worker.process()
    await succeeded(store)
    async with asyncio.timeout(20):
        await left.at.wait()
    with pytest.raises(Succeeded):
        await worker._model_called(REQUEST)


async def test_with_no_bound_it_stays(left):
    store = await stored()
    worker = Unused(store, idle_s=0)
    await worker.process()
    looks = []

    async def looked():
        looks.append(store)
        return len(looks) > 20

    await until(looked)
    assert await store.generation("worker-0") == 0
    assert not left.at.is_set()


async def test_where_holdfast_was_stopped_it_ends_once_nothing_runs_here(left):
    store = await stored()
    await calling(store)
    worker = Unused(store, idle_s=0)
    await worker.process()
    call = asyncio.create_task(carried_out(worker, REQUEST))
    await asyncio.sleep(0.05)
    await store.withhold(EVERYWHERE)
    await succeeded(store)
    await asyncio.sleep(0.2)
    assert not left.at.is_set()
    worker.gate.set()
    assert (await call).effect_id == "t1.m1"
    async with asyncio.timeout(20):
        await left.at.wait()
    with pytest.raises(Succeeded):
        await worker._model_called(REQUEST)


async def test_where_one_node_is_drained_a_worker_elsewhere_stays(left):
    store = await stored()
    await store.withhold("node-1")
    worker = Unused(store, idle_s=0)
    await worker.process()
    await asyncio.sleep(0.2)
    assert (await store.generation("worker-0"), left.at.is_set()) == (0, False)


async def test_while_a_turn_of_its_app_is_under_way_it_stays_although_nobody_asks_it(left):
    store = await stored()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    worker = Unused(store, idle_s=0.05)
    assert await under_way(store, RECORD)
    await worker._succession.end_unless_used(store, RECORD, 0.0, worker._working)
    assert await store.generation("worker-0") == 0
    before = worker._succession.asked_at
    assert before <= time.monotonic()
    await writer.do(reply())
    await worker._succession.end_unless_used(store, RECORD, before, worker._working)
    assert await store.generation("worker-0") == 0  # it is looked at again after as long
    await worker.process()
    await succeeded(store)
    del left


async def test_work_keeps_it_and_counts_as_use_from_its_end(left):
    store = await stored()
    writer = await calling(store)
    worker = Unused(store, idle_s=0.05)
    await worker.process()
    call = asyncio.create_task(carried_out(worker, REQUEST))
    await asyncio.sleep(0.1)
    await writer.do(cancel())  # no turn of the app is under way by now, and the worker has not heard that nobody waits for it
    await asyncio.sleep(0.2)
    assert not call.done()
    assert await store.generation("worker-0") == 0
    worker.gate.set()
    assert await call is NoOutcome.NOT_MINE
    await succeeded(store)
    async with asyncio.timeout(20):
        await left.at.wait()


async def test_who_asked_before_it_gave_way_and_has_not_begun_is_told_so_and_nothing_begins(left):
    store = await stored()
    worker = Unused(store, idle_s=0.05)
    worker.reading_gate.clear()
    call = asyncio.create_task(worker._model_called(REQUEST))  # it reads, and has begun nothing
    await worker.process()
    await succeeded(store)
    assert not call.done()
    worker.reading_gate.set()
    async with asyncio.timeout(20):
        with pytest.raises(Succeeded):
            await call
        await left.at.wait()


async def test_who_asks_while_the_store_is_asked_keeps_it(left):
    store = await stored()
    worker = Unused(store, idle_s=0.01)
    used_at = worker._succession.asked_at
    await asyncio.sleep(0.05)
    asked = store.conversations

    async def conversations(**wanted):
        await worker.prepare()
        return await asked(**wanted)

    store.conversations = conversations
    await worker._succession.end_unless_used(store, RECORD, used_at, worker._working)
    assert await store.generation("worker-0") == 0
    del left


async def test_a_worker_tells_the_store_of_its_open_breakers_until_it_ends(left):
    store = await stored()
    worker = Unused(store, idle_s=0)
    worker._breakers.enter(("openai/a", ""), Breaker(failures=1)).ended(failed=True)
    await worker.process()
    await until(store.open_breakers)
    (one,) = await store.open_breakers()
    assert (one.worker, one.model, one.state, one.count) == ("worker-0", "openai/a", "open", 1)
    await store.withhold(EVERYWHERE)
    async with asyncio.timeout(20):
        await left.at.wait()
    assert await store.open_breakers() == []
