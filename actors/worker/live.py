"""Live events: deltas of text, reasoning and arguments, and progress. Only current listeners get them, and some may be lost.

Only the last progress of a run is kept. A live message is the msgpack array `[kind, effect_id, attempt, at, value]`; `at` is
the worker's wall clock, in ms UTC; `value` is text, for arguments and progress JSON text.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.actors.workers import ModelRequest, RunRequest
from holdfast.backoff import wall_ms
from holdfast.conversation.text import jsontext
from holdfast.errors import StoreError
from holdfast.persistence import Runs, codec

from .model_answer import CallPiece

logger = logging.getLogger("holdfast.worker")

DELTA_EVERY_S = 0.03
TEXT_DELTA = "text_delta"
REASONING_DELTA = "reasoning_delta"
ARGUMENTS_DELTA = "arguments_delta"
UNHEARD_S = 1.0
"""Seconds without publishing arguments if the last event had no listener: an answer may have hundreds of calls."""
PROGRESS_WAITING = 64
"""How many reports of one run may wait to be published; beyond that, the oldest are lost."""
PROGRESS_AT_ONCE = 32
PROGRESS_PAUSE_S = 0.1
"""Seconds without publishing after `PROGRESS_AT_ONCE` reports in a row."""
KEEP_EVERY_S = 0.5
KEPT_BYTES = 4096
KEPT_TEXT = 500
NUMBER_LENGTH = 400


class Deltas:
    """Publishes a model's answer as it comes: pieces are joined for up to `DELTA_EVERY_S`. Nothing of it if it is `hidden`."""

    def __init__(self, store: Runs, request: ModelRequest, attempt: int, *, hidden: bool = False) -> None:
        self._hidden = hidden
        self._store = store
        self._request = request
        self._attempt = attempt
        self._pieces: list[str] = []
        self._of: tuple[str, CallPiece | None] = (TEXT_DELTA, None)
        self._published_at = time.monotonic()
        self._heard = True
        self._publishing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None

    async def begin_anew(self) -> None:
        """Publish the pending pieces; further ones belong to the next try."""
        await self.flush()
        self._attempt += 1

    async def add(self, text: str, reasoning: str = "", calls: Sequence[CallPiece] = ()) -> None:
        """Add pieces of text, reasoning and calls; each is published at once or with the next ones of its kind."""
        if self._hidden:
            return
        said: list[tuple[str, CallPiece | None, str]] = [(REASONING_DELTA, None, reasoning), (TEXT_DELTA, None, text)]
        said = [one for one in said if one[2]]
        said += [(ARGUMENTS_DELTA, replace(call, text=""), call.text) for call in calls]
        for kind, call, piece in said:
            if (kind, call) != self._of:
                await self.flush()
                self._of = (kind, call)
            if call is None or self._heard or time.monotonic() - self._published_at > UNHEARD_S:
                self._pieces.append(piece)
        if not self._pieces:
            return
        wait_s = self._published_at + DELTA_EVERY_S - time.monotonic()
        if wait_s <= 0:
            await self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._flush_late)

    async def flush(self) -> None:
        """Publish the pending pieces, after those that are being published."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        async with self._publishing:
            if not self._pieces:
                return
            text = "".join(self._pieces).encode("utf-8", "replace").decode()
            self._pieces.clear()
            kind, call = self._of
            value = text if call is None else jsontext.dumps({"index": call.index, "tool": call.tool, "text": text})
            payload = codec.pack([kind, self._request.effect_id, self._attempt, wall_ms(), value])
            self._heard = await _publish(self._store, self._request.conversation_id, payload)
            self._published_at = time.monotonic()

    def _flush_late(self) -> None:
        self._timer = None
        self._late = asyncio.create_task(self.flush())  # kept, or the collector might end it


def progress_message(effect_id: str, attempt: int, text: str) -> bytes:
    """The live message of a report of progress, given as JSON text."""
    return codec.pack(["progress", effect_id, attempt, wall_ms(), text])


class Progress:
    """The function that `ToolContext.report_progress` calls, from any thread.

    Reports are published one after the other; if a body reports faster than that, its oldest reports are lost. The store also
    keeps the last report for later readers, at most one in `KEEP_EVERY_S`, since each costs a write to the disk.
    """

    def __init__(self, store: Runs, request: RunRequest, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._request = request
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque(maxlen=PROGRESS_WAITING)
        self._publishing = False
        self._last: bytes | None = None
        self._keeping: asyncio.Task[None] | None = None

    def __call__(self, value: Any, message: str | None, **how_far: Any) -> None:
        """Report a JSON value and a text, and how far the body is (`status`, `loaded`, `total`, if known)."""
        text = jsontext.dumps({"value": value, "message": message, **how_far})
        run = self._request.effect_id, self._request.attempt
        last, payload = progress_message(*run, _short(text, value, message, how_far)), progress_message(*run, text)
        with self._lock:
            self._last = last
            self._waiting.append(payload)
            begins, self._publishing = not self._publishing, True
        if begins:
            asyncio.run_coroutine_threadsafe(self._publish(), self._loop)

    async def _publish(self) -> None:
        published = 0
        try:
            while (payload := self._next()) is not None:
                if self._keeping is None or self._keeping.done():
                    self._keeping = asyncio.create_task(self._keep())
                await _publish(self._store, self._request.conversation_id, payload)
                published += 1
                if published % PROGRESS_AT_ONCE == 0:
                    await asyncio.sleep(PROGRESS_PAUSE_S)
        except BaseException:
            self._publishing = False  # the next report starts publishing anew
            raise

    def _next(self) -> bytes | None:
        with self._lock:
            self._publishing = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    def _taken(self) -> bytes | None:
        with self._lock:
            payload, self._last = self._last, None
            return payload

    async def _keep(self) -> None:
        while (payload := self._taken()) is not None:
            try:
                kept = await self._store.keep_progress(self._request.conversation_id, self._request.effect_id, payload)
            except StoreError as error:
                logger.debug("progress of %s is not kept: %s", self._request.conversation_id, error)
            else:
                if not kept:  # the run is over
                    return
            await asyncio.sleep(KEEP_EVERY_S)


def _short(text: str, value: Any, message: str | None, how_far: Mapping[str, Any]) -> str:
    if len(text.encode()) <= KEPT_BYTES:
        return text
    plain = value if isinstance(value, bool | int | float) and len(str(value)) < NUMBER_LENGTH else None
    return jsontext.dumps({"value": plain, "message": (message or "")[:KEPT_TEXT], **how_far, "truncated": True})


async def _publish(store: Runs, conversation_id: str, payload: bytes) -> bool:
    try:
        return await store.publish(conversation_id, payload)
    except StoreError as error:
        logger.debug("a live event of %s is lost: %s", conversation_id, error)
        return False
