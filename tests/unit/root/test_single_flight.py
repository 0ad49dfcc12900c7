"""Work that many wait for and that is done once, and starting a Redis again, which is such work."""

import asyncio
import threading

import pytest

from holdfast.embedded.revival import Revival
from holdfast.single_flight import SingleFlight


class Work:
    """Counts how often it is begun; goes on until its gate is open."""

    def __init__(self):
        self.begun, self.ended, self.gate = 0, 0, asyncio.Event()

    async def __call__(self):
        self.begun += 1
        try:
            await self.gate.wait()
            return self.begun
        finally:
            self.ended += 1


async def ready():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_it_is_done_once_for_all_who_wait_and_anew_for_who_comes_after():
    work = Work()
    shared = SingleFlight(work)
    waiting = [asyncio.create_task(shared.result()) for _ in range(3)]
    await ready()
    assert shared.under_way
    waiting[0].cancel()
    await ready()
    work.gate.set()
    assert await asyncio.gather(*waiting[1:]) == [1, 1]
    assert not shared.under_way
    assert await shared.result() == 2


async def test_who_closes_it_gives_it_up_and_what_never_began_has_nothing_to_give_up():
    work = Work()
    shared = SingleFlight(work)
    await shared.close()
    waiting = asyncio.create_task(shared.result())
    await ready()
    await shared.close()
    assert (work.begun, work.ended, shared.under_way) == (1, 1, False)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_leaves_does_not_wait_for_a_redis_that_is_being_started():
    begun, gate = threading.Event(), threading.Event()

    def home():
        begun.set()
        gate.wait(30)
        raise ZeroDivisionError

    revival = Revival(home, deadline_s=30)
    waiting = asyncio.create_task(revival())
    try:
        await asyncio.to_thread(begun.wait, 30)
        await revival.close()
        await ready()
        assert waiting.cancelled()
    finally:
        gate.set()
