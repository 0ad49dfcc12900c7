"""The events of a conversation and of those below it, in one stream that one cursor resumes."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from dataclasses import replace

from holdfast.conversation import State
from holdfast.conversation.ids import child_id
from holdfast.conversation.records.events import CallSuspended, ConversationStarted, Ended, SuspensionSettled
from holdfast.conversation.terms.delegation import Parent
from holdfast.errors import ConversationNotFound, HoldfastError, InvalidInput, StoreError, StoreUnavailable
from holdfast.persistence import Store

from .results import Event
from .stack import Reads
from .stack_events import AHEAD, durable_events, live_events
from .tree_cursor import MOST_FOLLOWED, cursor_of

logger = logging.getLogger("holdfast.client")

LOOK_S = 10.0
"""Seconds after which an ended root's stream asks whether those below that are silent were set aside."""


async def events_below(
    on: Reads, *, conversation_id: str, after: Mapping[str, int], live: bool, agents: Collection[str] | None = None
) -> AsyncGenerator[Event, None]:
    """See `AsyncConversation.events`, with `descendants`. `agents` are those whose conversations are followed; None: all."""
    state = await on.read(lambda store: store.load(conversation_id))
    tree = _Tree(on, conversation_id, live, agents)
    tree.ended = state.ended and after[""] >= state.seq
    try:
        tree.follow(conversation_id, after[""])
        for name, seq in after.items():
            if name:
                await tree.resume(name, seq)
        while not tree.over:
            try:
                async with asyncio.timeout(LOOK_S if tree.ended else None):
                    name, event = await tree.queue.get()
            except TimeoutError:
                await tree.look()
                continue
            if name not in tree.places:
                continue
            if isinstance(event, BaseException):
                tree.failed(name, event)
            elif event.seq is None or await tree.take(name, event.seq, event.body):
                yield replace(event, conversation_id=name, cursor=None if event.seq is None else tree.cursor)
    finally:
        await tree.close()


class _Tree:
    """The conversations that are followed, with the place that each has come to."""

    def __init__(self, on: Reads, root: str, live: bool, agents: Collection[str] | None) -> None:  # noqa: FBT001 - private
        self.queue: asyncio.Queue[tuple[str, Event | BaseException]] = asyncio.Queue(maxsize=AHEAD)
        self.places: dict[str, int] = {}
        self.ended = False
        self._on, self._root, self._live, self._agents = on, root, live, agents
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._last: dict[str, int] = {}  # of conversations in quarantine that nobody waits for: the last event to tell

    @property
    def cursor(self) -> str:
        """The cursor after what was taken."""
        return cursor_of({"" if name == self._root else name: seq for name, seq in self.places.items()})

    @property
    def over(self) -> bool:
        """Whether nothing follows: the root has ended, and all that was followed below it."""
        return self.ended and len(self.places) == 1

    def follow(self, name: str, seq: int) -> None:
        """Follow a conversation from a place on. What it does live is told once it is known to be of this tree."""
        self.places[name] = seq
        self._tasks[name] = [asyncio.create_task(self._relayed(name, durable_events(self._on, name, seq)))]
        if seq or name == self._root:
            self._listen(name)

    async def resume(self, name: str, seq: int) -> None:
        """Follow a conversation that a cursor names, unless it is over; `InvalidInput` if it is not of this tree."""
        try:
            state, quarantined = await self._on.read(lambda store: _standing(store, name))
        except ConversationNotFound:
            if not seq:
                self.follow(name, 0)
            return
        except StoreUnavailable:
            raise
        except StoreError as error:
            logger.warning("%s is not followed any more: %s", name, error)
            return
        if not self._is_ours(name, state.parent, state.agent):
            raise InvalidInput("after", f"{name} is not below {self._root}", "pass the `cursor` of an event of this stream")
        if not ((state.ended or quarantined) and seq >= state.seq):
            self.follow(name, seq)
            if quarantined:
                self._last[name] = state.seq

    async def take(self, name: str, seq: int, event: object) -> bool:
        """Note a recorded event, and follow whom it delegates to; false if it is of a conversation of another tree."""
        if isinstance(event, ConversationStarted) and name != self._root:
            if not self._is_ours(name, event.parent, event.agent):
                self._leave(name)
                return False
            self._listen(name)
        self.places[name] = seq
        match event:
            case CallSuspended(source=child, delegation=asked) if asked is not None:
                room = len(self.places) < MOST_FOLLOWED and child not in self.places
                if room and (self._agents is None or asked.agent in self._agents):
                    self.follow(child, 0)
            case SuspensionSettled(suspension_id=wait, source_ended=False):
                await self._given_up(child_id(wait))
            case Ended() if name == self._root:
                self.ended = True
            case Ended():
                self._last[name] = seq
            case _:
                pass
        if seq >= self._last.get(name, seq + 1):
            self._leave(name)
        return True

    def failed(self, name: str, error: BaseException) -> None:
        """Go on without a conversation below that cannot be read; every other error is raised."""
        if name == self._root or not isinstance(error, StoreError) or isinstance(error, StoreUnavailable):
            raise error
        logger.warning("%s is not followed any more: %s", name, error)
        self._leave(name)

    async def look(self) -> None:
        """Leave those below the ended root that were set aside meanwhile: they never end."""
        for name in [*self.places]:
            if name != self._root:
                await self._given_up(name)

    async def close(self) -> None:
        """Follow nothing any more."""
        tasks = [task for some in self._tasks.values() for task in some]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _given_up(self, name: str) -> None:
        """Leave a conversation that its parent waits for no longer: if it never began, or where it stands if in quarantine."""
        if name not in self.places:
            return
        try:
            state, quarantined = await self._on.read(lambda store: _standing(store, name))
        except ConversationNotFound:
            self._leave(name)
        except StoreUnavailable:
            raise
        except StoreError:  # met again, and judged, where it is followed
            pass
        else:
            if quarantined:
                self._last[name] = state.seq
            if quarantined and self.places[name] >= state.seq:
                self._leave(name)

    def _is_ours(self, name: str, parent: Parent | None, agent: str) -> bool:
        if parent is None or child_id(parent.suspension_id) != name:
            return False
        below = any(one.conversation_id == self._root for one in parent.path)
        return below and (self._agents is None or agent in self._agents)

    def _listen(self, name: str) -> None:
        if self._live:
            self._tasks[name].append(asyncio.create_task(self._relayed(name, live_events(self._on, name))))

    def _leave(self, name: str) -> None:
        del self.places[name]
        for task in self._tasks[name]:
            task.cancel()

    async def _relayed(self, name: str, source: AsyncIterator[Event]) -> None:
        try:
            async for event in source:
                await self.queue.put((name, event))
        except HoldfastError as error:
            await self.queue.put((name, error))


async def _standing(store: Store, name: str) -> tuple[State, bool]:
    """The state of a conversation, and whether it is in quarantine."""
    state, quarantine = await asyncio.gather(store.load(name), store.quarantine(name))
    return state, quarantine is not None
