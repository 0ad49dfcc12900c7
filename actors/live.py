"""Live events: text deltas and progress. They are lossy: published while somebody listens; only the last progress is kept.

A live message is the msgpack array `[kind, effect_id, attempt, at, value]`; `value` is text, for progress JSON text.
"""

import asyncio
import logging
import time
from typing import Any

from holdfast.conversation import StoreError, jsontext
from holdfast.persistence import Store, codec

from .requests import ModelRequest, RunRequest

logger = logging.getLogger("holdfast.worker")

DELTA_EVERY_S = 0.03
KEEP_EVERY_S = 0.5
KEPT_BYTES = 4096
KEPT_TEXT = 500
NUMBER_LENGTH = 400


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

    Each report is published to those who listen. The last one is kept in the store too, for those who look later: at most
    one in `KEEP_EVERY_S`, since what is kept costs a write to the disk.
    """

    def __init__(self, store: Store, request: RunRequest, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._request = request
        self._loop = loop
        self._last: bytes | None = None
        self._keeping: asyncio.Task[None] | None = None

    def __call__(self, value: Any, message: str | None) -> None:
        """Report a JSON value and a text."""
        payload, at = jsontext.dumps({"value": value, "message": message}), _now()
        asyncio.run_coroutine_threadsafe(self._report(payload, at, _short(payload, value, message)), self._loop)

    async def _report(self, text: str, at: int, short: str) -> None:
        head = ["progress", self._request.effect_id, self._request.attempt, at]
        self._last = codec.pack([*head, short])
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())
        await _publish(self._store, self._request.conversation_id, codec.pack([*head, text]))

    async def _keep(self) -> None:
        while self._last is not None:
            payload, self._last = self._last, None
            try:
                kept = await self._store.keep_progress(self._request.conversation_id, self._request.effect_id, payload)
            except StoreError as error:
                logger.debug("progress of %s is not kept: %s", self._request.conversation_id, error)
            else:
                if not kept:  # the run is over
                    return
            await asyncio.sleep(KEEP_EVERY_S)


def _short(text: str, value: Any, message: str | None) -> str:
    """What is kept of a report: all of it, or its message cut off where it is large."""
    if len(text.encode()) <= KEPT_BYTES:
        return text
    plain = value if isinstance(value, bool | int | float) and len(str(value)) < NUMBER_LENGTH else None
    return jsontext.dumps({"value": plain, "message": (message or "")[:KEPT_TEXT], "truncated": True})


async def _publish(store: Store, conversation_id: str, payload: bytes) -> None:
    try:
        await store.publish(conversation_id, payload)
    except StoreError as error:
        logger.debug("a live event of %s is lost: %s", conversation_id, error)


def _now() -> int:
    return time.time_ns() // 1_000_000
