"""The thread of the app's code: what never returns takes nothing away from what comes after."""

import asyncio
import sys
import threading

import pytest

from holdfast.actors.worker import app_loop, asking
from holdfast.actors.worker.app_loop import LEFT, RULES, THREADS, AppLoop
from holdfast.actors.worker.threads import NoThread, RuleThreads
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
            assert await loop.asked("desk", "prompt=", lambda: "judged", None) == "judged"
            assert await loop.run(asyncio.to_thread(lambda: "own")) == "own"
    finally:
        over.set()
    async with asyncio.timeout(10):
        assert all(await asyncio.gather(*bodies))


# -- an app's functions about calls ------------------------------------------------------------------------------------------


@pytest.fixture
def over():
    """Ends the functions that hang in a test."""
    event = threading.Event()
    yield event
    event.set()


def hanging(loop, over, agent, number):
    """So many functions of an agent that hang, each asked for."""
    return [asyncio.create_task(loop.asked(agent, "approval=", lambda: over.wait(30), None)) for _ in range(number)]


async def soon(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_slow_functions_of_one_agent_leave_threads_for_every_other(loop, over):
    slow = hanging(loop, over, "slow", 2 * RULES)
    await asyncio.sleep(0.01)

    async with asyncio.timeout(20):
        for agent in ("desk", "shop"):
            assert await loop.asked(agent, "prompt=", lambda: "shown", None) == "shown"

    over.set()
    async with asyncio.timeout(20):
        assert all(await asyncio.gather(*slow))


async def test_a_lone_agent_has_most_of_the_threads_and_as_many_agents_as_may_be_have_one(loop, over):
    alone = hanging(loop, over, "slow", 2 * RULES)
    await soon(lambda: loop._rules._waited_for["slow"] == RULES * 3 // 4)
    others = [task for number in range(7) for task in hanging(loop, over, f"agent-{number}", 1)]
    await soon(lambda: loop._rules._waited_for.total() == RULES * 3 // 4 + 7)

    over.set()
    async with asyncio.timeout(20):
        assert all(await asyncio.gather(*alone, *others))


async def test_the_time_of_a_function_begins_when_it_does(loop, over, monkeypatch):
    monkeypatch.setattr(app_loop, "RULES", 1)
    monkeypatch.setattr(asking, "FUNCTION_S", 5.0)
    loop._rules = RuleThreads(1, 0)
    first = hanging(loop, over, "desk", 1)
    await asyncio.sleep(0)
    second = asyncio.create_task(loop.asked("desk", "prompt=", lambda: "shown", None))
    await asyncio.sleep(0)
    monkeypatch.setattr(asking, "FUNCTION_S", 0.5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):  # twice its bound
            await asyncio.shield(second)
    over.set()
    async with asyncio.timeout(20):
        assert await second == "shown"
        await asyncio.gather(*first)


async def test_a_function_that_finds_no_thread_is_not_asked_and_one_that_hangs_or_fails_counts_as_silent(
    loop, over, monkeypatch
):
    monkeypatch.setattr(asking, "FUNCTION_S", 0.05)
    monkeypatch.setattr(app_loop, "FUNCTION_S", 0.05)
    loop._rules = RuleThreads(1, 1)
    called = []

    async with asyncio.timeout(20):
        assert await loop.asked("desk", "approval=", lambda: over.wait(30), "asks") == "asks"
        assert await loop.asked("desk", "approval=", lambda: sys.exit(3), "asks") == "asks"
        loop._rules = RuleThreads(0, 1)
        assert await loop.asked("desk", "approval=", lambda: called.append("it"), "asks") == "asks"
    assert (called, loop._rules._line) == ([], {})


async def test_a_thread_that_hangs_counts_against_its_agent_until_it_returns_and_against_no_other(loop, over, monkeypatch):
    monkeypatch.setattr(asking, "FUNCTION_S", 0.05)
    async with asyncio.timeout(20):
        assert set(await asyncio.gather(*hanging(loop, over, "slow", RULES))) == {None}
    assert (loop.held, loop.left, loop.idle) == (RULES, RULES, False)
    assert (loop._rules._holds("slow"), loop._rules._holds("desk"), loop._rules._waited_for.total()) == (RULES, 0, 0)

    over.set()
    await soon(lambda: not loop.held)
    assert (loop._rules._holds("slow"), loop.left, loop.idle) == (0, RULES, True)


async def test_who_stops_waiting_for_a_thread_takes_none(loop, over):
    slow = hanging(loop, over, "slow", RULES)
    await asyncio.sleep(0)
    for task in slow[-2:]:
        task.cancel()
    await asyncio.wait(slow[-2:])
    assert loop.left == 0
    over.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*slow[:-2])
    assert (loop._rules._waited_for, loop._rules._line, loop.held) == ({}, {}, 0)


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


async def test_functions_that_hang_beyond_the_spare_threads_leave_no_promise_of_one():
    threads, over = RuleThreads(2, 1), threading.Event()
    try:
        for agent in "abc":
            with pytest.raises(TimeoutError):
                await threads.run(agent, over.wait, lambda: -1.0, wait_s=60)
        with pytest.raises(NoThread):
            await asyncio.gather(*(threads.run(agent, over.wait, lambda: 60.0, wait_s=0) for agent in "de"))
    finally:
        over.set()
        threads.shutdown()
