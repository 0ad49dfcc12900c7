"""The events of a conversation, followed in the store: recorded ones from the log, live ones as they are told."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter

from holdfast.conversation import Event as LogEvent
from holdfast.conversation.records.events import CallSuspended, Ended
from holdfast.conversation.records.live import LiveEvent
from holdfast.conversation.text import jsontext
from holdfast.errors import StoreUnavailable
from holdfast.persistence import codec

from .connection import Connection
from .results import Event
from .running import shown_arguments

BLOCK_MS = 5_000
READ_AT_ONCE = 500
AHEAD = 16
"""How many events are read ahead of a follower that takes them one by one: each may be as large as a message."""
LISTEN_AGAIN_S = 0.5

logger = logging.getLogger("holdfast.client")
_LIVE: TypeAdapter[LiveEvent] = TypeAdapter(Annotated[LiveEvent, Field(discriminator="kind")])


async def events_of(connection: Connection, *, conversation_id: str, after: int, live: bool) -> AsyncGenerator[Event, None]:
    """See `AsyncConversation.events`."""
    state = await connection.read(lambda store: store.load(conversation_id))
    if state.ended and after >= state.seq:
        return
    queue: asyncio.Queue[Event | BaseException] = asyncio.Queue(maxsize=AHEAD)
    tasks = [asyncio.create_task(_relayed(queue, _durable(connection, conversation_id, after)))]
    if live:
        tasks.append(asyncio.create_task(_relayed(queue, _live(connection, conversation_id))))
    try:
        while True:
            event = await queue.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if event.kind == "conversation_ended":
                return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def news(
    connection: Connection, conversation_id: str, after: int, block_ms: int, *, limit: int = READ_AT_ONCE
) -> Sequence[tuple[int, LogEvent]]:
    """The events after a place in the log, awaited for `block_ms`; if none comes, a dead embedded Ray is restarted."""
    entries = await connection.read(
        lambda store: store.read(conversation_id, after=after, limit=limit, block_ms=block_ms), block_ms=block_ms
    )
    if not entries:
        await connection.stack.see_to_ray()
    return entries


async def _durable(connection: Connection, conversation_id: str, after: int) -> AsyncIterator[Event]:
    while True:
        for seq, event in await news(connection, conversation_id, after, BLOCK_MS, limit=AHEAD):
            after = seq
            arguments = await _arguments(connection, conversation_id, event) if isinstance(event, CallSuspended) else None
            yield Event.recorded(seq, event, arguments=arguments)
            if isinstance(event, Ended):
                return


async def _arguments(connection: Connection, conversation_id: str, event: CallSuspended) -> dict[str, object] | None:
    return await connection.read(lambda store: shown_arguments(store, conversation_id, event))


async def _live(connection: Connection, conversation_id: str) -> AsyncIterator[Event]:
    store = await connection.store()
    while True:
        try:
            async for payload in store.listen(conversation_id):
                event = _live_event(payload)
                if event is not None:
                    yield event
        except StoreUnavailable as error:  # live events are lossy; the durable stream says whether the store is gone
            logger.debug("live events of %s are interrupted: %s", conversation_id, error)
            await asyncio.sleep(LISTEN_AGAIN_S)


def _live_event(payload: bytes) -> Event | None:
    """The live event in a payload; None if another release wrote it and this one cannot read it."""
    try:
        kind, effect_id, attempt, at, value = codec.unpack(payload)
        told = {"text": value} if kind in {"text_delta", "reasoning_delta"} else jsontext.loads(value)
        fields = {**told, "kind": kind, "effect_id": effect_id, "attempt": attempt, "at": at}
        return Event.live(_LIVE.validate_python(fields))
    except (ValueError, TypeError) as error:
        logger.debug("a live event cannot be read: %s", error)
        return None


async def _relayed(queue: "asyncio.Queue[Event | BaseException]", source: AsyncIterator[Event]) -> None:
    try:
        async for event in source:
            await queue.put(event)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again where the events are read
        await queue.put(error)
