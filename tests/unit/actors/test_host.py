"""One actor without Ray: when it leaves, and what it does while it does."""

import asyncio
import time

import pytest
from hosted import soon
from writer import Writer, start

from holdfast.actors.activation import outstanding as outstanding_module
from holdfast.actors.answers import Failed, Hosted, Occupied, Replied
from holdfast.actors.host import Host
from holdfast.conversation import Wake
from holdfast.errors import CorruptStore
from holdfast.persistence import MemoryStore, TakeoverReason
from holdfast.settings import ProcessLimits, Timing
from holdfast.store_clock import steady_ms
from holdfast.testing import Delay, FailBefore, Faults, FaultyStore


async def test_an_actor_that_leaves_ends_and_is_adopted_by_nobody_also_while_the_store_does_not_hear_of_it():
    inner = MemoryStore()
    left = asyncio.Event()
    host = Host(
        FaultyStore(inner, Faults(deregister=FailBefore())),
        None,
        name="actor-1",
        timing=Timing(tick_ms=10),
        process_limits=ProcessLimits(adoptions=0),  # it is worn from the start
        clock=lambda: 0,
        leave=left.set,
    )
    await host.offer_blank()

    async with asyncio.timeout(10):
        await left.wait()

    assert await host.activate("c-1", "", TakeoverReason.ASKED, create=True) == Occupied()
    assert await inner.offers() == 0
    assert await inner.owner("c-1") is None


async def test_an_actor_that_has_left_a_conversation_takes_it_up_again_for_who_asks_also_during_its_housekeeping():
    inner, over = MemoryStore(), asyncio.Event()
    writer = await Writer.of(inner, "c-1")
    await writer.do(start())
    await writer.release()
    store = FaultyStore(inner, Faults())
    host = Host(
        store, None, name="a-1", timing=Timing(tick_ms=10), process_limits=ProcessLimits(), clock=lambda: 0, leave=lambda: None
    )
    await host.offer_blank()
    store.policy = Faults(offer=Delay(until=over))
    await soon(host._activating.locked)  # it offers itself

    asked = asyncio.create_task(host.ask("c-1", Wake()))
    await asyncio.sleep(0)
    over.set()

    assert isinstance(await asked, Replied)
    host._housekeeping.cancel()


async def test_housekeeping_goes_on_after_what_nobody_foresaw():
    inner = MemoryStore()
    left = asyncio.Event()
    host = Host(
        FaultyStore(inner, Faults(offers={1: FailBefore(ZeroDivisionError()), 2: FailBefore(ZeroDivisionError())})),
        None,
        name="actor-1",
        timing=Timing(tick_ms=10, linger_ms=0),
        process_limits=ProcessLimits(standby=0),
        clock=lambda: 0,
        leave=left.set,
    )
    await host.offer_blank()

    async with asyncio.timeout(10):
        await left.wait()


async def test_what_cannot_be_taken_up_for_a_reason_that_nobody_foresaw_is_refused_with_it_and_its_actor_stays():
    inner = MemoryStore()
    store = FaultyStore(inner, Faults(acquire=FailBefore(ZeroDivisionError("a record of another kind"))))
    host = Host(
        store, None, name="actor-1", timing=Timing(), process_limits=ProcessLimits(), clock=lambda: 0, leave=lambda: None
    )

    answer = await host.activate("c-1", "", TakeoverReason.ASKED, create=True)

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, CorruptStore)
    assert "a record of another kind" in str(answer.error)
    assert await inner.offers() == 1
    assert await inner.hosted("actor-1") is None


def test_an_actor_keeps_time_by_a_clock_that_nobody_sets(monkeypatch):
    before = steady_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= steady_ms() < before + 3_600_000


async def test_what_cannot_be_begun_leaves_nothing_at_work(monkeypatch):
    inner = MemoryStore()
    writer = await Writer.of(inner, "c-1", lease_ms=1)
    await writer.do(start())

    def broken(state):
        monkeypatch.undo()  # once: what is left at work would not find out by itself
        raise ZeroDivisionError

    monkeypatch.setattr(outstanding_module, "outstanding", broken)
    before = asyncio.all_tasks()
    host = Host(
        inner,
        None,
        name="actor-1",
        timing=Timing(lease_ms=30),
        process_limits=ProcessLimits(),
        clock=lambda: 0,
        leave=lambda: None,
    )

    answer = await host.activate("c-1", writer.token, TakeoverReason.DIED, create=False)

    assert isinstance(answer.error, CorruptStore)
    async with asyncio.timeout(10):
        while asyncio.all_tasks() - before - {host._housekeeping}:
            await asyncio.sleep(0.005)


async def test_a_worn_actor_that_could_not_take_a_conversation_up_is_not_said_to_host_it():
    store = MemoryStore()
    process_limits = ProcessLimits(adoptions=1)  # it is worn by the first
    host = Host(
        store, None, name="actor-1", timing=Timing(), process_limits=process_limits, clock=lambda: 0, leave=lambda: None
    )

    answer = await host.activate("c-1", "", TakeoverReason.ASKED, create=False)

    assert isinstance(answer, Failed)
    assert await store.hosted("actor-1") is None
    assert await store.offers() == 0


@pytest.mark.parametrize(
    ("idle_ms", "others", "leaves"),
    [(9_999, 5, False), (10_000, 1, False), (10_000, 2, True)],
    ids=["not idle for long enough", "as many as are kept warm", "one more"],
)
async def test_a_blank_actor_leaves_once_it_was_idle_for_long_and_others_are_enough(idle_ms, others, leaves):
    store, now, left = MemoryStore(), [5_000], asyncio.Event()
    timing, process_limits = Timing(linger_ms=10_000, tick_ms=60_000), ProcessLimits(standby=2)
    host = Host(store, None, name="actor-1", timing=timing, process_limits=process_limits, clock=lambda: now[0], leave=left.set)
    await host.offer_blank()
    for number in range(others):
        await store.offer(f"other-{number}", 0)

    now[0] += idle_ms
    await host._tidy()

    assert left.is_set() == leaves
    assert await store.offers() == others + (not leaves)


async def test_an_idle_actor_says_nothing_between_its_heartbeats():
    store = FaultyStore(MemoryStore(), Faults())
    host = Host(
        store,
        None,
        name="actor-1",
        timing=Timing(tick_ms=1, lease_ms=30_000),
        process_limits=ProcessLimits(),
        clock=lambda: 0,
        leave=lambda: None,
    )
    await host.offer_blank()
    await asyncio.sleep(0.1)
    assert 1 <= store.calls["offer"] <= 2
    assert store.calls["heartbeat"] == 0


async def test_an_actor_that_lingered_for_nothing_leaves_at_once_where_enough_others_are_on_offer():
    now, left = 0, asyncio.Event()
    store = MemoryStore()
    await store.offer("actor-2", 0)
    host = Host(
        store,
        None,
        name="actor-1",
        timing=Timing(tick_ms=5, linger_ms=60_000),
        process_limits=ProcessLimits(standby=1),
        clock=lambda: now,
        leave=left.set,
    )
    assert await host.activate("c-1", "", TakeoverReason.ASKED, create=True) == Hosted()
    now = 60_000
    async with asyncio.timeout(10):
        await left.wait()
    assert await store.owner("c-1") is None


async def test_what_an_actor_is_about_to_host_is_noted_before_it_is_read():
    noted = asyncio.Event()
    store = FaultyStore(MemoryStore(), Faults(hosts={1: Delay(until=noted)}))
    host = Host(
        store, None, name="actor-1", timing=Timing(), process_limits=ProcessLimits(), clock=lambda: 0, leave=lambda: None
    )
    activating = asyncio.create_task(host.activate("c-1", "", TakeoverReason.ASKED, create=True))
    async with asyncio.timeout(10):
        while not store.calls["hosts"]:
            await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert store.calls["acquire"] == 0
    noted.set()
    assert await activating == Hosted()


async def test_an_actor_stays_on_offer_while_commands_leave_its_conversation_at_rest_and_offers_itself_again_once_taken(
    monkeypatch,
):
    store = FaultyStore(MemoryStore(), Faults())
    timing = Timing(tick_ms=60_000, lease_ms=600_000, linger_ms=60_000)
    clock, process_limits = steady_ms, ProcessLimits()
    host = Host(store, None, name="actor-1", timing=timing, process_limits=process_limits, clock=clock, leave=lambda: None)
    assert await host.activate("c-1", "", TakeoverReason.ASKED, create=True) == Hosted()
    await soon(lambda: store.calls["offer"] == 1)
    rested_since = host._activation.rest.since

    for _ in range(5):
        await host.ask("c-1", Wake())
        await asyncio.sleep(0.01)
    assert host._activation.rest.since > rested_since
    assert store.calls["offer"] == 2  # once for all of them, from a later time on
    assert await store.take() == []

    async def stays():
        return False

    monkeypatch.setattr(host._activation, "passivate", stays)
    assert await host.activate("c-2", "", TakeoverReason.ASKED, create=True) == Occupied()
    await soon(lambda: store.calls["offer"] == 3)
