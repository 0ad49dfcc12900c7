"""Live events: deltas of text and of reasoning, and progress. They are lossy: published while somebody listens, kept nowhere.

A live message is the msgpack array `[kind, effect_id, attempt, at, value]`; `value` is text, for progress JSON text.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from holdfast.conversation import StoreError, jsontext
from holdfast.persistence import Store, codec

from .requests import ModelRequest, RunRequest

logger = logging.getLogger("holdfast.worker")

DELTA_EVERY_S = 0.03
TEXT_DELTA = "text_delta"
REASONING_DELTA = "reasoning_delta"


class Deltas:
    """Publishes a model's text and reasoning as they come, several pieces at a time."""

    def __init__(self, store: Store, request: ModelRequest, attempt: int) -> None:
        self._store = store
        self._request = request
        self._attempt = attempt
        self._pieces: list[str] = []
        self._kind = TEXT_DELTA
        self._published_at = 0.0

    async def add(self, text: str, reasoning: str = "") -> None:
        """Add pieces; they are published at once or with those of their kind that follow."""
        for kind, piece in ((REASONING_DELTA, reasoning), (TEXT_DELTA, text)):
            if not piece:
                continue
            if kind != self._kind:
                await self.flush()
                self._kind = kind
            self._pieces.append(piece)
        if self._pieces and time.monotonic() - self._published_at >= DELTA_EVERY_S:
            await self.flush()

    async def flush(self) -> None:
        """Publish what is left."""
        if not self._pieces:
            return
        text = "".join(self._pieces).encode("utf-8", "replace").decode()
        self._pieces.clear()
        self._published_at = time.monotonic()
        payload = codec.pack([self._kind, self._request.effect_id, self._attempt, _now(), text])
        await _publish(self._store, self._request.conversation_id, payload)


def progress(store: Store, request: RunRequest, loop: asyncio.AbstractEventLoop) -> Callable[[Any, str | None], None]:
    """What `ToolContext.report_progress` calls, from whatever thread the body runs in."""

    def report(value: Any, message: str | None) -> None:
        text = jsontext.dumps({"value": value, "message": message})
        payload = codec.pack(["progress", request.effect_id, request.attempt, _now(), text])
        asyncio.run_coroutine_threadsafe(_publish(store, request.conversation_id, payload), loop)

    return report


async def _publish(store: Store, conversation_id: str, payload: bytes) -> None:
    try:
        await store.publish(conversation_id, payload)
    except StoreError as error:
        logger.debug("a live event of %s is lost: %s", conversation_id, error)


def _now() -> int:
    return time.time_ns() // 1_000_000
