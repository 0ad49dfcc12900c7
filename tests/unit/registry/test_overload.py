"""On an overloaded machine: few actors are made at once, callers get those that come free, and what waits is looked at soon."""

import asyncio
import os

import pytest
from writer import Writer, begin, call, start

from holdfast.client.stack_gateway import reply_in
from holdfast.conversation import Wake
from holdfast.errors import OutcomeUnknown
from holdfast.persistence import MemoryStore
from holdfast.registry import sweep as sweeping
from holdfast.registry.pool import ActorUnavailable, Pool
from holdfast.registry.registry import Delivery, Registry
from holdfast.registry.sweep import Sweep
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import Faults, FaultyStore

HOUR_MS = 3_700_000


@pytest.fixture(autouse=True)
def overloaded(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (14.0, 9.0, 5.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("holdfast.registry.pool.SHORT_S", 0.01)


class Slow:
    """A cluster whose actors take for ever to start."""

    def __init__(self):
        self.spawned = []

    async def find(self, name):
        return self

    def ours(self, name):
        return True

    def judges(self, name):
        return True

    def new_name(self):
        return f"actor-{len(self.spawned) + 1}"

    async def spawn(self, name, *, offer):
        self.spawned.append(name)
        await asyncio.Event().wait()


def pool_of(store, actors):
    return Pool(store, actors, timing=Timing(), process_limits=ProcessLimits())


async def test_one_actor_is_made_at_once_and_callers_get_those_that_come_free():
    store, actors = MemoryStore(), Slow()
    pool = pool_of(store, actors)
    async with asyncio.timeout(20):
        tasks = [asyncio.create_task(pool.take()) for _ in range(5)]
        while pool._empty_looks < 20:  # long enough for a second one
            await asyncio.sleep(0.001)
        assert actors.spawned == ["actor-1"]
        for number in range(5):
            await store.offer(f"idle-{number}", 0)
        assert sorted([(await task)[0] for task in tasks]) == [f"idle-{number}" for number in range(5)]
        await pool.close()


async def test_an_actor_that_does_not_come_keeps_nobody_from_another_here_either(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.LATE_S", 0.01)
    actors = Slow()
    pool = pool_of(MemoryStore(), actors)
    task = asyncio.create_task(pool.take())
    async with asyncio.timeout(20):
        while len(actors.spawned) < 3:
            await asyncio.sleep(0.001)
    task.cancel()
    await pool.close()


async def test_an_actor_has_more_time_to_start_and_the_error_says_why_it_did_not(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.WARMING_S", 0.01)
    pool = pool_of(MemoryStore(), Slow())
    with pytest.raises(ActorUnavailable, match=r"longer than 0\.04 s \(the machine is overloaded: load 14 on 2 cores\)"):
        await pool.spawn(offer=True)
    await pool.close()


async def test_a_command_that_found_no_actor_in_time_says_that_the_machine_is_overloaded():
    store, actors = MemoryStore(), Slow()
    registry = Registry(store, actors, pool=pool_of(store, actors), timing=Timing())
    result = await registry.deliver(Delivery("c-1", Wake(), timeout_s=0.1, create=True))
    with pytest.raises(OutcomeUnknown) as raised:
        reply_in(result, what="the start", retry_id="m-1")
    said = "no acknowledgement of the start (the machine is overloaded: load 14 on 2 cores) within the deadline"
    assert str(raised.value) == f"{said}; retry with the same id 'm-1'"
    await registry.close()


async def test_the_sweeper_warms_one_actor_after_the_other():
    actors = Slow()
    sweep = Sweep(MemoryStore(), actors, timing=Timing(), process_limits=ProcessLimits(standby=4))
    for _ in range(10):
        await sweep.tick()
        await asyncio.sleep(0)
    assert actors.spawned == ["actor-1"]
    await sweep._tasks.close()


async def test_a_conversation_for_which_no_actor_was_had_is_in_no_trouble_and_is_looked_at_again_soon(monkeypatch):
    monkeypatch.setattr(sweeping, "WAKE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(sweeping, "OVERLOADED_MS", 10)
    monkeypatch.setattr(sweeping, "UNANSWERED_MS", HOUR_MS)
    monkeypatch.setattr(sweeping, "SHORTEST_DELAY_MS", HOUR_MS)
    store, actors = FaultyStore(MemoryStore(), Faults()), Slow()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask"), now=await store.now() - HOUR_MS)
    await store.release("c-1", writer.token, look_ms=0)
    sweep = Sweep(store, actors, timing=Timing(), process_limits=ProcessLimits(standby=0))

    async with asyncio.timeout(20):
        while store.calls["postpone"] < 3:
            await sweep.tick()
            await asyncio.sleep(0.01)
    assert await store.troubles() == []
    await sweep._tasks.close()


def test_a_wake_whose_actor_does_not_answer_is_tried_again_within_seconds_however_long_that_has_lasted():
    delays = [sweeping._delay_ms(TimeoutError(), since_ms) for since_ms in (0, 3_000, 30_000, 3_000_000)]
    assert all(sweeping.SHORTEST_DELAY_MS <= delay <= sweeping.UNANSWERED_MS * 1.25 for delay in delays)
    assert sweeping._delay_ms(RuntimeError(), 3_000_000) >= sweeping.LONGEST_DELAY_MS
