"""Blocking work in a daemon thread: the caller may stop waiting, and neither the event loop nor the interpreter joins it.

`asyncio.to_thread` uses a pool that the loop and the interpreter join at their end, so one hanging thread would block both.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def in_daemon(work: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """The result of the work, or its exception. The work runs on if the caller is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def carry_out() -> None:
        result, failed = None, None
        try:
            result = context.run(work, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is raised where the work is waited for
            failed = RuntimeError(str(error)) if isinstance(error, StopIteration) else error  # a future takes no StopIteration
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=carry_out, name=f"holdfast-{getattr(work, '__name__', 'work')}", daemon=True).start()
    return await future
