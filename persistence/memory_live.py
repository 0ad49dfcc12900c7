"""What the store in memory tells listeners, and what it keeps of it for those who come later."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from holdfast.errors import CorruptStore

from .payloads import Payloads
from .store import PROGRESS_MS, Run, RunStatus


class MemoryLive:
    """The verbs of `Store` that concern live events.

    Args:
        clock: Milliseconds UTC.
        runs: The run records of a conversation.
        payloads: What is kept and told of payloads.
    """

    def __init__(self, clock: Callable[[], int], runs: Callable[[str], Mapping[str, Run]], payloads: Payloads) -> None:
        self._now = clock
        self._runs_of = runs
        self._sealing = payloads
        self._listeners: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._progress: dict[str, dict[str, bytes]] = {}
        self._kept_until: dict[str, int] = {}

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """See `Store.keep_progress`."""
        if not effect_id:
            raise CorruptStore("arguments")
        runs = self._runs_of(conversation_id)
        run = runs.get(effect_id)
        if run is None or run.status is not RunStatus.CLAIMED:
            return False
        sealed = self._sealing.seal(payload, "progress", conversation_id, effect_id)
        kept = self._kept(conversation_id) | {effect_id: sealed}
        self._progress[conversation_id] = {name: one for name, one in kept.items() if name in runs}
        self._kept_until[conversation_id] = self._now() + PROGRESS_MS
        return True

    async def progress(self, conversation_id: str) -> dict[str, bytes]:
        """See `Store.progress`."""
        return {
            effect_id: self._sealing.open_or_leave(sealed, "progress", conversation_id, effect_id)
            for effect_id, sealed in self._kept(conversation_id).items()
        }

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """See `Store.publish`."""
        sealed = self._sealing.seal(payload, "live", conversation_id)
        for queue in self._listeners.get(conversation_id, []):
            queue.put_nowait(sealed)

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """See `Store.listen`."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._listeners.setdefault(conversation_id, []).append(queue)
        try:
            while True:
                yield self._sealing.open_or_leave(await queue.get(), "live", conversation_id)
        finally:
            self._listeners[conversation_id].remove(queue)

    def _kept(self, conversation_id: str) -> dict[str, bytes]:
        if self._kept_until.get(conversation_id, 0) <= self._now():
            self._progress.pop(conversation_id, None)
        return self._progress.get(conversation_id, {})
