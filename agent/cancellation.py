"""The cancellation of a call, as its body sees it: a flag that threads may read and coroutines may await."""

import asyncio
import contextlib
import threading


class Cancellation:
    """A flag that is set once, from any thread; a body may wait for it on any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._set

    def set(self) -> None:
        """Set the flag, and wake its waiters."""
        with self._lock:
            self._set, waiting, self._waiting = True, self._waiting, set()
        for future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                future.get_loop().call_soon_threadsafe(_wake, future)

    async def wait(self) -> None:
        """Return once the flag is set."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._set:
                return
            self._waiting.add(future)
        try:
            await future
        finally:
            with self._lock:
                self._waiting.discard(future)


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
