"""The thread of the app's code: what never returns takes nothing away from what comes after."""

import asyncio
import threading

import pytest

from holdfast.actors import app_loop
from holdfast.actors.app_loop import AppLoop
from holdfast.agent import App


async def test_callbacks_that_never_return_do_not_use_up_the_threads(monkeypatch):
    monkeypatch.setattr(app_loop, "THREADS", 2)
    monkeypatch.setattr(app_loop, "LEFT", 2)
    over, loop = threading.Event(), await AppLoop.open(App(agents=[]))
    try:
        for _ in range(4):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await loop.run(asyncio.to_thread(over.wait, 30))
        async with asyncio.timeout(10):
            assert await loop.run(asyncio.to_thread(lambda: "done")) == "done"
        assert loop.left == 4
    finally:
        over.set()


async def test_a_work_that_cancels_itself_is_not_left():
    async def work():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    loop = await AppLoop.open(App(agents=[]))
    with pytest.raises(asyncio.CancelledError):
        await loop.run(work())
    assert loop.left == 0
