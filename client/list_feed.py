"""The feed of the lists: the changes of a store, read once for all followers in this process.

A follower first reads what is new since its cursor, then receives what the feed reads. A follower that falls behind reads by
itself again: a slow follower costs the others nothing, and nothing is lost as long as the store keeps it.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from holdfast.conversation import Receipt, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import SuspensionSettled
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.persistence import Change, ChangePage, Place, Store

from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .results import PendingCall
from .stack import Reads

BLOCK_MS = 10_000
"""How long one read of the feed waits for changes, in milliseconds."""
AHEAD = 100
"""How many pages wait for a follower; with more to come, it reads by itself."""
AT_ONCE = 16
"""How many logs are read at once for settlements."""
PASSED_S = 30.0
"""Seconds between cursors sent to a follower whose filter matches no change."""
TOLD_AT_ONCE = 50

_SAID = {"tool_call_id", "by", "decision", "principal", "grants"}

logger = logging.getLogger("holdfast.client")


@dataclass(frozen=True, slots=True)
class Told:
    """A change, with the suspensions that it opened or noted something on, as people are shown them.

    `settled` has the settling event of each suspension that it closed, by the suspension's id, as far as it can be read.
    """

    change: Change
    opened: tuple[PendingView, ...] = ()
    noted: tuple[PendingView, ...] = ()
    settled: Mapping[str, SuspensionSettled] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some changes, the cursor after them, and whether changes before them were dropped unread."""

    told: Sequence[Told]
    cursor: str
    missed: bool = False


class _Follower:
    def __init__(self) -> None:
        self.pages: deque[Sequence[Told]] = deque()
        self.woken = asyncio.Event()
        self.behind = False
        self.error: HoldfastError | None = None

    def tell(self, told: Sequence[Told]) -> None:
        if len(self.pages) >= AHEAD:
            self.pages.clear()
            self.behind = True
        if not self.behind:
            self.pages.append(told)
        self.woken.set()


async def list_events(
    on: Reads, feed: "ListFeed", *, after: str | None, agent: Collection[str] | None, kind: SuspensionKind | None
) -> AsyncGenerator[AsyncListEvent, None]:
    """See `AsyncClient.events`; without a cursor, events from now on."""
    place = None if after is None else Place.of(after)
    now = await on.read(lambda store: store.changes())
    if place is None:
        place = now.place
        yield ListEvent(ListEventKind.FOLLOWING, cursor=place.cursor)
    elif place.at > now.place.at:  # another store, or its clock was set back
        place = now.place
        yield ListEvent(ListEventKind.MISSED, cursor=place.cursor)

    def wants(change: Change) -> bool:
        suspensions = (*change.opened, *change.closed, *change.noted)
        return (agent is None or change.agent in agent) and (kind is None or any(one.kind is kind for one in suspensions))

    clock = asyncio.get_running_loop().time
    told_at = clock()
    async with contextlib.aclosing(feed.follow(on, place, wants)) as chunks:
        async for chunk in chunks:
            if chunk.missed:
                yield ListEvent(ListEventKind.MISSED)
            wanted = [one for one in chunk.told if wants(one.change)]
            for one in wanted:
                for event in _events_of(one, kind, on.resolve):
                    yield event
            if wanted:
                told_at = clock()
            elif not chunk.missed and clock() - told_at > PASSED_S:
                told_at = clock()
                yield ListEvent(ListEventKind.PASSED, cursor=chunk.cursor)


def _events_of(told: Told, kind: SuspensionKind | None, resolve: Callable[..., Awaitable[Receipt]]) -> list[AsyncListEvent]:
    change, found = told.change, []
    common: dict[str, Any] = {name: getattr(change, name) for name in ("at", "conversation_id", "agent", "seq")}
    for closed in change.closed:
        if kind in {None, closed.kind}:
            name = closed.place.suspension_id
            end = told.settled.get(name)
            said = end.model_dump(mode="json", include=_SAID) if end is not None else dict.fromkeys(_SAID)
            data = {"suspension_id": name, "suspension_kind": closed.kind.value, **said}
            found.append(ListEvent(ListEventKind.SETTLED, data=data, **common))
    waiting = [(ListEventKind.PENDING, *one) for one in zip(change.opened, told.opened, strict=True)]
    waiting += [(ListEventKind.NOTED, *one) for one in zip(change.noted, told.noted, strict=True)]
    for what, one, view in waiting:
        if kind in {None, one.kind}:
            call = PendingCall.of(view, resolve)
            found.append(ListEvent(what, data=view.model_dump(mode="json"), call=call, **common))
    if kind is None:
        data = {"status": change.status.value, "pending": change.pending}
        found.append(ListEvent(ListEventKind.STATUS, data=data, **common))
    return [*found[:-1], *(replace(last, cursor=change.cursor) for last in found[-1:])]


class ListFeed:
    """The changes of the lists, for all followers over one stack."""

    def __init__(self) -> None:
        self._followers: set[_Follower] = set()
        self._reading: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None] | None = None

    async def follow(self, on: Reads, place: Place, wants: Callable[[Change], bool]) -> AsyncGenerator[Chunk, None]:
        """The changes after a place, a few at a time; changes that the follower does not want may be among them."""
        follower = _Follower()
        await self._joined(follower, on)
        try:
            while True:
                follower.behind = False  # pages from the feed queue from now on
                page = await _page(on, place)
                while page.items or page.missed:
                    place = page.place
                    if page.missed:
                        yield Chunk((), place.cursor, missed=True)
                    async for told in _told(on, [one for one in page.items if wants(one)]):
                        yield Chunk(told, told[-1].change.cursor)
                    yield Chunk((), place.cursor)
                    page = await _page(on, place)
                while not follower.behind:
                    follower.woken.clear()  # before the pages are read: a page that comes while the caller is away wakes it
                    while follower.pages:
                        fresh = [one for one in follower.pages.popleft() if place.before(one.change)]
                        for one in fresh:
                            place = place.past(one.change)
                        if fresh:
                            yield Chunk(fresh, fresh[-1].change.cursor)
                    if follower.error is not None:
                        raise follower.error.with_traceback(None)  # it is raised in all of them
                    await follower.woken.wait()
        finally:
            self._left(follower)

    async def close(self) -> None:
        """Read no more."""
        reading = self._reading
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._end(reading, self._begun, StoreUnavailable("the client was closed"))

    def _end(self, reading: "asyncio.Task[None] | None", begun: "asyncio.Future[None] | None", error: HoldfastError) -> None:
        if begun is not None and not begun.done():
            begun.set_exception(error)
            begun.exception()  # marks it as retrieved, even if nobody waits any more
        for follower in self._followers if self._reading is reading else ():
            follower.error = error
            follower.woken.set()

    def _left(self, follower: _Follower) -> None:
        self._followers.discard(follower)
        if not self._followers and self._reading is not None:
            self._reading.cancel()

    async def _joined(self, follower: _Follower, on: Reads) -> None:
        if self._reading is not None and self._reading.get_loop() is not asyncio.get_running_loop():
            self._reading, self._followers = None, set()  # the parent's of a fork, or those of a loop that is over
        if self._reading is None or self._reading.done() or self._reading.cancelling():
            begun = self._begun = asyncio.get_running_loop().create_future()
            self._reading = asyncio.create_task(self._read(on, begun))
        self._followers.add(follower)
        try:
            await asyncio.shield(self._begun)  # type: ignore[arg-type] # it is set where a task is
        except BaseException:
            self._left(follower)
            raise

    async def _read(self, on: Reads, begun: "asyncio.Future[None]") -> None:
        me = asyncio.current_task()
        try:
            place = (await on.read(lambda store: store.changes())).place
            begun.set_result(None)
            while True:
                page = await _page(on, place, BLOCK_MS)
                place = page.place
                if page.missed:  # each follower reads the rest by itself, and learns that some is missing
                    for follower in self._followers:
                        follower.pages.clear()
                        follower.behind = True
                        follower.woken.set()
                async for told in _told(on, page.items):
                    for follower in self._followers:
                        follower.tell(told)
        except HoldfastError as error:
            self._end(me, begun, error)
        except Exception as error:  # a bug here: no follower may wait for ever
            logger.exception("the changes of the lists are not read any more")
            self._end(me, begun, StoreUnavailable(type(error).__name__))
        except BaseException:
            self._end(me, begun, StoreUnavailable("the client was closed"))
            raise


async def _page(on: Reads, place: Place, block_ms: int = 0) -> ChangePage:
    return await on.read(lambda store: store.changes(place, block_ms=block_ms), block_ms=block_ms)


async def _told(on: Reads, found: Sequence[Change]) -> AsyncGenerator[Sequence[Told], None]:
    """Changes, a few at a time, with what the lists and logs say of them."""
    changes = [change for change in found if change.conversation_id]
    for start in range(0, len(changes), TOLD_AT_ONCE):
        yield await _looked_up(on, changes[start : start + TOLD_AT_ONCE])


async def _looked_up(on: Reads, changes: Sequence[Change]) -> list[Told]:
    """Changes with what the lists and logs say of them; one that cannot be read hides no other."""
    places = [one.place for change in changes for one in (*change.opened, *change.noted)]
    views = iter(await on.read(lambda store: store.pending_at(places)) if places else ())
    room = asyncio.Semaphore(AT_ONCE)

    async def settled(change: Change) -> dict[str, SuspensionSettled]:
        if not change.closed:
            return {}
        try:
            async with room:
                return await on.read(lambda store: _settlements(store, change))
        except StoreUnavailable:
            raise
        except HoldfastError:  # the conversation is encrypted or broken
            return {}

    ends = await asyncio.gather(*(settled(change) for change in changes))
    return [
        Told(change, tuple(islice(views, len(change.opened))), tuple(islice(views, len(change.noted))), end)
        for change, end in zip(changes, ends, strict=True)
    ]


async def _settlements(store: Store, change: Change) -> dict[str, SuspensionSettled]:
    """The events of a change that settle suspensions, by the suspension's id."""
    found, after = dict[str, SuspensionSettled](), change.first - 1
    while after < change.seq:
        page = await store.read(change.conversation_id, after=after, limit=change.seq - after)
        found |= {event.suspension_id: event for _, event in page if isinstance(event, SuspensionSettled)}
        after = page[-1][0] if page else change.seq
    return found
