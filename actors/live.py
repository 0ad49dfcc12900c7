"""Live events: text deltas and progress. They are lossy: published while somebody listens, kept nowhere.

A live message is the msgpack array `[kind, effect_id, attempt, at, value]`; `value` is text, for progress JSON text.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from typing import Any

from holdfast.conversation import StoreError, jsontext
from holdfast.persistence import Store, codec

from .requests import ModelRequest, RunRequest

logger = logging.getLogger("holdfast.worker")

DELTA_EVERY_S = 0.03
PROGRESS_WAITING = 64
"""How many reports of one run wait to be published; of more, the oldest are lost."""
PROGRESS_AT_ONCE = 32
PROGRESS_PAUSE_S = 0.1
"""For how long a run that has reported so much at once publishes nothing."""


class Deltas:
    """Publishes a model's text as it comes, several pieces at a time."""

    def __init__(self, store: Store, request: ModelRequest, attempt: int) -> None:
        self._store = store
        self._request = request
        self._attempt = attempt
        self._pieces: list[str] = []
        self._published_at = 0.0

    async def add(self, text: str) -> None:
        """Add a piece; it is published at once or with the pieces that follow."""
        self._pieces.append(text)
        if time.monotonic() - self._published_at >= DELTA_EVERY_S:
            await self.flush()

    async def flush(self) -> None:
        """Publish what is left."""
        if not self._pieces:
            return
        text = "".join(self._pieces).encode("utf-8", "replace").decode()
        self._pieces.clear()
        self._published_at = time.monotonic()
        payload = codec.pack(["text_delta", self._request.effect_id, self._attempt, _now(), text])
        await _publish(self._store, self._request.conversation_id, payload)


class Progress:
    """What `ToolContext.report_progress` calls, from whatever thread the body runs in.

    Reports are published one after the other: a body that reports faster than that loses what is oldest.
    """

    def __init__(self, store: Store, request: RunRequest, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._request = request
        self._loop = loop
        self._waiting: deque[tuple[str, int]] = deque(maxlen=PROGRESS_WAITING)
        self._lock = threading.Lock()
        self._publishing = False

    def __call__(self, value: Any, message: str | None) -> None:
        """Report a JSON value and a text."""
        text, at = jsontext.dumps({"value": value, "message": message}), _now()
        with self._lock:
            self._waiting.append((text, at))
            begins, self._publishing = not self._publishing, True
        if begins:
            asyncio.run_coroutine_threadsafe(self._publish(), self._loop)

    async def _publish(self) -> None:
        published = 0
        try:
            while (waiting := self._next()) is not None:
                await self._report(*waiting)
                published += 1
                if published % PROGRESS_AT_ONCE == 0:
                    await asyncio.sleep(PROGRESS_PAUSE_S)
        except BaseException:
            self._publishing = False  # the next report begins anew
            raise

    def _next(self) -> tuple[str, int] | None:
        with self._lock:
            self._publishing = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    async def _report(self, text: str, at: int) -> None:
        payload = codec.pack(["progress", self._request.effect_id, self._request.attempt, at, text])
        await _publish(self._store, self._request.conversation_id, payload)


async def _publish(store: Store, conversation_id: str, payload: bytes) -> None:
    try:
        await store.publish(conversation_id, payload)
    except StoreError as error:
        logger.debug("a live event of %s is lost: %s", conversation_id, error)


def _now() -> int:
    return time.time_ns() // 1_000_000
