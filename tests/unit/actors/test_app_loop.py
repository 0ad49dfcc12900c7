"""The thread of the app's code: what never returns takes nothing away from what comes after."""

import asyncio
import threading

import pytest

from holdfast.actors.worker import app_loop
from holdfast.actors.worker.app_loop import LEFT, RULES, THREADS, AppLoop
from holdfast.agent import App


@pytest.fixture
async def loop():
    opened = await AppLoop.open(App(agents=[]))
    yield opened
    await opened.close()


async def bounded(work):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await work


async def test_a_thread_is_held_as_long_as_the_body_goes_on_and_not_longer(loop):
    over, begun = threading.Event(), threading.Semaphore(0)

    def body():
        begun.release()
        over.wait(30)

    try:
        for _ in range(4):
            waiting = asyncio.create_task(loop.run(loop.in_thread(body)))
            await asyncio.to_thread(begun.acquire)
            waiting.cancel()
        async with asyncio.timeout(10):
            await asyncio.wait({waiting})
            while loop._going:  # the coroutine of each has heeded; what it waited for has not
                await asyncio.sleep(0.001)
        assert (loop.left, loop.held, loop.idle) == (4, 4, False)
    finally:
        over.set()
    async with asyncio.timeout(10):
        while loop.held:
            await asyncio.sleep(0.001)
    assert (loop.left, loop.idle) == (4, True)


async def test_a_work_that_heeds_its_cancellation_holds_nothing(loop):
    await bounded(loop.run(asyncio.sleep(30)))
    async with asyncio.timeout(10):
        while loop.held:
            await asyncio.sleep(0.001)
    assert loop.left == 1


async def test_bodies_that_fill_their_threads_take_none_from_rules_nor_from_async_bodies(loop):
    over = threading.Event()
    bodies = [asyncio.create_task(loop.run(loop.in_thread(over.wait, 30))) for _ in range(THREADS + LEFT + 10)]
    try:
        async with asyncio.timeout(10):
            assert await loop.ruled(lambda: "judged", 5) == "judged"
            assert await loop.run(asyncio.to_thread(lambda: "own")) == "own"
    finally:
        over.set()
    async with asyncio.timeout(10):
        assert all(await asyncio.gather(*bodies))


async def test_the_bound_of_a_rule_begins_when_it_does(loop, monkeypatch):
    over, begun = threading.Event(), []
    slow = [asyncio.create_task(loop.ruled(lambda: over.wait(30), 30)) for _ in range(RULES)]
    await asyncio.sleep(0)

    async def late():
        begun.append("asked")
        return await loop.ruled(lambda: "judged", 0.5)

    asked = asyncio.create_task(late())
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):  # twice its bound
                await asyncio.shield(asked)
    finally:
        over.set()
    async with asyncio.timeout(10):
        assert await asked == "judged"
        await asyncio.gather(*slow)


async def test_a_lifespan_that_does_not_open_is_given_up(monkeypatch):
    monkeypatch.setattr(app_loop, "OPENING_S", 0.05)

    async def lifespan():
        await asyncio.Event().wait()
        yield

    with pytest.raises(TimeoutError, match=r"lifespan did not open within 0\.05 s"):
        await AppLoop.open(App(agents=[], lifespan=lifespan))


async def test_a_work_that_cancels_itself_is_not_left():
    async def work():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    loop = await AppLoop.open(App(agents=[]))
    with pytest.raises(asyncio.CancelledError):
        await loop.run(work())
    assert loop.left == 0
