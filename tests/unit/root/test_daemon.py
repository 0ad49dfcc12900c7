"""Blocking work in a daemon thread: its result and whatever it raises reach the caller, who may stop waiting."""

import asyncio
import threading

import pytest

from holdfast.daemon import in_daemon


async def test_a_result_and_an_error_reach_the_caller():
    assert await in_daemon(lambda x, *, y: x + y, 1, y=2) == 3
    with pytest.raises(ZeroDivisionError):
        await in_daemon(lambda: 1 / 0)


async def test_an_error_that_no_future_takes_ends_the_wait_too():
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="the last"):
            await in_daemon(next, iter_that_stops())


def iter_that_stops():
    class Stops:
        def __next__(self):
            raise StopIteration("the last")

    return Stops()


async def test_work_whose_caller_stops_waiting_runs_on_and_keeps_no_process_from_ending():
    gate, ended, threads = threading.Event(), threading.Event(), []

    def work():
        threads.append(threading.current_thread())
        gate.wait(20)
        ended.set()

    waiting = asyncio.create_task(in_daemon(work))
    while not threads:
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    assert await asyncio.to_thread(ended.wait, 20)
    assert threads[0].daemon
