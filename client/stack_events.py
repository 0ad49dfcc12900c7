"""A conversation followed in the store: its events, recorded ones from the log and live ones, and its state once it rests."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from functools import cache, partial
from typing import Annotated

from pydantic import Field, TypeAdapter

from holdfast.conversation import Event as LogEvent
from holdfast.conversation import Receipt, State, evolve
from holdfast.conversation.records.events import CallSuspended, Ended, ModelAnswered, RunScheduled, TurnCompleted
from holdfast.conversation.records.live import LiveEvent
from holdfast.conversation.text import jsontext
from holdfast.errors import StoreUnavailable
from holdfast.persistence import Conversations, Quarantine, codec

from .results import ConversationState, Event, rests
from .stack import Reads
from .stack_state import shown, shown_arguments

BLOCK_MS = 5_000
"""How long a reader of news waits, before it looks whether its conversation is in quarantine, and its embedded Ray alive."""
LONGEST_BLOCK_MS = 60_000
AT_ONCE = 500
"""How many waits of a process look so often: of thousands, each looks more seldom, since looking takes the time of all."""
READ_AT_ONCE = 500
AHEAD = 16
"""How many events are read ahead of a follower that takes them one by one: each may be as large as a message."""
LISTEN_AGAIN_S = 0.5

logger = logging.getLogger("holdfast.client")


async def events_of(on: Reads, *, conversation_id: str, after: int, live: bool) -> AsyncGenerator[Event, None]:
    """See `AsyncConversation.events`."""
    state = await on.read(lambda store: store.load(conversation_id))
    if state.ended and after >= state.seq:
        return
    queue: asyncio.Queue[Event | BaseException] = asyncio.Queue(maxsize=AHEAD)
    tasks = [asyncio.create_task(_relayed(queue, durable_events(on, conversation_id, after)))]
    if live:
        tasks.append(asyncio.create_task(_relayed(queue, live_events(on, conversation_id))))
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
    on: Reads, conversation_id: str, after: int, block_ms: int, *, limit: int = READ_AT_ONCE
) -> Sequence[tuple[int, LogEvent]]:
    """The events after a place in the log, awaited for `block_ms`; if none comes, a dead embedded Ray is restarted."""
    entries = await on.read(
        lambda store: store.read(conversation_id, after=after, limit=limit, block_ms=block_ms), block_ms=block_ms
    )
    if not entries:
        await on.stack.see_to_ray()
    return entries


async def resting(
    on: Reads, *, conversation_id: str, after: int | None, timeout_s: float | None
) -> ConversationState[Awaitable[Receipt]]:
    """See `AsyncConversation.wait`."""
    loop = asyncio.get_running_loop()
    give_up = None if timeout_s is None else loop.time() + timeout_s

    async def found(store: Conversations) -> tuple[State, Quarantine | None]:
        return await asyncio.gather(store.load(conversation_id), store.quarantine(conversation_id))  # in one round trip

    begun = on.stack.begun.pop(conversation_id, None)
    followed: dict[int, LogEvent] = {}
    if begun is None or timeout_s == 0 or rests(begun, after):  # another process may have gone on since it rested
        state, quarantine = await on.read(found)
        runs = True
    else:  # what was written since comes with the first news, all of it in the first turn
        state, quarantine, runs = begun, None, begun.last is not None
    full = False
    on.stack.waits += 1
    try:
        while quarantine is None and (full or not rests(state, after)):
            block_ms = min(BLOCK_MS * max(1, on.stack.waits // AT_ONCE), LONGEST_BLOCK_MS)
            left_ms = block_ms if give_up is None else min(block_ms, int((give_up - loop.time()) * 1000))
            if left_ms <= 0:
                break
            entries = await news(on, conversation_id, state.seq, left_ms)
            full = len(entries) == READ_AT_ONCE
            for seq, event in entries:
                state = evolve(state, event)
                runs = runs or isinstance(event, RunScheduled)
                if isinstance(event, ModelAnswered):
                    followed.clear()  # of earlier ones nothing is shown any more
                if isinstance(event, ModelAnswered | CallSuspended | TurnCompleted):
                    followed[seq] = event
            if not rests(state, after):
                quarantine = await on.read(lambda store: store.quarantine(conversation_id))
    finally:
        on.stack.waits -= 1
    return await on.read(lambda store: shown(store, state, on.resolve, followed=followed, runs=runs))


async def durable_events(on: Reads, conversation_id: str, after: int) -> AsyncIterator[Event]:
    """The recorded events after a place in the log, until the conversation has ended."""
    while True:
        for seq, event in await news(on, conversation_id, after, BLOCK_MS, limit=AHEAD):
            after = seq
            arguments = None
            if isinstance(event, CallSuspended):
                arguments = await on.read(partial(shown_arguments, conversation_id=conversation_id, suspended=event))
            yield Event.recorded(seq, event, arguments=arguments)
            if isinstance(event, Ended):
                return


async def live_events(on: Reads, conversation_id: str) -> AsyncIterator[Event]:
    """The live events, as they come."""
    store = await on.store()
    while True:
        try:
            async for payload in store.listen(conversation_id):
                event = _live_event(payload)
                if event is not None:
                    yield event
        except StoreUnavailable as error:  # live events are lossy; the durable stream says whether the store is gone
            logger.debug("live events of %s are interrupted: %s", conversation_id, error)
            await asyncio.sleep(LISTEN_AGAIN_S)


@cache
def _adapter() -> TypeAdapter[LiveEvent]:
    return TypeAdapter(Annotated[LiveEvent, Field(discriminator="kind")])


def _live_event(payload: bytes) -> Event | None:
    """The live event in a payload; None if another release wrote it and this one cannot read it."""
    try:
        kind, effect_id, attempt, at, value = codec.unpack(payload)
        told = {"text": value} if kind in {"text_delta", "reasoning_delta"} else jsontext.loads(value)
        fields = {**told, "kind": kind, "effect_id": effect_id, "attempt": attempt, "at": at}
        return Event.live(_adapter().validate_python(fields))
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
