"""A body sees that nobody waits for it any more: from threads, and from whichever event loop it runs on."""

import asyncio
import threading

from holdfast.agent import ToolContext
from holdfast.agent.cancellation import Cancellation


def context(cancellation=None):
    return ToolContext(conversation_id="c-1", turn_id="t1", tool_call_id="call_1", cancellation=cancellation or Cancellation())


async def test_a_body_sees_it_and_who_awaits_it_is_woken_on_each_loop():
    cancellation = Cancellation()
    shown = context(cancellation)
    elsewhere = threading.Thread(target=lambda: asyncio.run(shown.wait_cancelled()), daemon=True)
    elsewhere.start()
    here = [asyncio.create_task(shown.wait_cancelled()) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert not shown.cancelled
    assert not any(task.done() for task in here)

    threading.Thread(target=cancellation.set).start()

    async with asyncio.timeout(10):
        await asyncio.gather(*here)
        await shown.wait_cancelled()  # it is over already
    await asyncio.to_thread(elsewhere.join, 10)
    assert not elsewhere.is_alive()
    assert shown.cancelled


async def test_who_stops_waiting_and_a_loop_that_is_closed_are_no_trouble():
    cancellation = Cancellation()
    waiting = asyncio.create_task(cancellation.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    loop = asyncio.new_event_loop()
    cancellation._waiting.add(loop.create_future())  # as of a body whose loop was closed under it
    loop.close()
    cancellation.set()
    cancellation.set()
    assert cancellation.is_set


def test_a_context_of_a_test_is_never_cancelled():
    assert not ToolContext(conversation_id="c-1", turn_id="t1", tool_call_id="call_1").cancelled
