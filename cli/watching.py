"""`holdfast pending --watch`: the wanted calls, and their changes as they come."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from holdfast.client.filters import CALLS, EVENTS
from holdfast.client.list_events import AsyncListEvent, ListEvent, ListEventKind
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import SettledBy

from .display import clean, console, shorten, to_json
from .hints import granted, lines_of
from .listed import PROMPT_LENGTH, draw
from .session import Reached

AT_ONCE = 200
RECHECK_S = 5.0
"""Seconds between looks at calls that an option on time does not want yet."""


class Wanted:
    """The filters of a watched list of pending calls, by the names of `client.pending`.

    Attributes:
        told: Those that the store itself applies to changes.
        lasting: Those whose answer does not change with time.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._filters = [(one, one.check(given[one.name])) for one in CALLS if one.check is not None and one.name in given]
        self.told = {one.name: given[one.name] for one in EVENTS if one.name in given}
        self.lasting = {one.name: given[one.name] for one, _ in self._filters if one.at is None}

    @property
    def by_row(self) -> bool:
        """Whether calls must be looked at, since changes of other calls are told, too."""
        return len(self.told) < len(self._filters)

    def takes(self, call: AsyncPendingCall) -> bool:
        """Whether a call is wanted, now or later."""
        return all(one.wants(call, value) for one, value in self._filters if one.at is None)

    def is_due(self, call: AsyncPendingCall, now: int) -> bool:
        """Whether a wanted call is old enough, and near enough to its deadline; `now` is in ms UTC."""
        return all(one.wants(call, value, now) for one, value in self._filters if one.at is not None)


async def paced(
    events: AsyncGenerator[AsyncListEvent, None], every_s: Callable[[], float | None]
) -> AsyncGenerator[AsyncListEvent | None, None]:
    """The events, and None whenever so many seconds (None: any number) have passed without one. It closes `events`."""
    async with aclosing(events):
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                await asyncio.wait([coming], timeout=every_s())
                if not coming.done():
                    yield None
                    continue
                event = coming.result()
                if event is None:
                    return
                coming = asyncio.ensure_future(anext(events, None))
                yield event
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def run(on: Reached, *, wanted: Mapping[str, Any], as_json: bool) -> None:
    """Print the wanted calls and their changes, until the command is interrupted."""
    watch = _Watch(on, Wanted(wanted), as_json=as_json)
    events = paced(on.client.events(**watch.wanted.told), lambda: RECHECK_S if watch.later else None)
    async with aclosing(events):
        async for event in events:
            if event is not None:
                await watch.tell(event)
            await watch.show(watch.later.values())
            sys.stdout.flush()


class _Watch:
    """What was printed, and the calls that are wanted `later`, by their suspensions."""

    def __init__(self, on: Reached, wanted: Wanted, *, as_json: bool) -> None:
        self._on = on
        self.wanted = wanted
        self._as_json = as_json
        self._shown: set[str] = set()
        self.later: dict[str, AsyncPendingCall] = {}

    async def tell(self, event: AsyncListEvent) -> None:
        """Print a change, if it is wanted."""
        call = event.call
        if event.kind is ListEventKind.SETTLED:
            name = event.data["suspension_id"]
            self.later.pop(name, None)
            if name in self._shown or not self.wanted.by_row:
                self._settled(event)
            self._shown.discard(name)
        elif event.kind is ListEventKind.NOTED and call is not None and self._knows(call):
            await self._noted(event, call)
        elif call is not None:
            if self.wanted.takes(call):
                await self.show([call], event)
        elif self._as_json and not (self.wanted.by_row and event.kind is ListEventKind.STATUS):
            _write(event)
        if event.kind in {ListEventKind.FOLLOWING, ListEventKind.MISSED}:
            await self._list()

    def _knows(self, call: AsyncPendingCall) -> bool:
        return call.suspension_id in self._shown or not self.wanted.by_row

    async def show(self, calls: Iterable[AsyncPendingCall], event: AsyncListEvent | None = None) -> None:
        """Print calls, which this event told if any did; those whose time has not come are kept for later."""
        calls = list(calls)
        now = await self._on.now() if calls else 0
        due = [call for call in calls if self.wanted.is_due(call, now)]
        self.later |= {call.suspension_id: call for call in calls}
        for call in due:
            del self.later[call.suspension_id]
            self._shown.add(call.suspension_id)
            if self._as_json:
                names = (call.conversation_id, call.agent)
                _write(event or ListEvent(ListEventKind.PENDING, call.created_at, *names, data=call.to_dict()))
        if due and not self._as_json:
            draw(due, now, self._on.where)

    async def _list(self) -> None:
        after: str | None = None
        while True:
            page = await self._on.client.pending(limit=AT_ONCE, after=after, **self.wanted.lasting)
            await self.show(page.items)
            if (after := page.next) is None:
                return

    async def _noted(self, event: AsyncListEvent, call: AsyncPendingCall) -> None:
        if self._as_json:
            _write(event)
            return
        lines = lines_of(call, await self._on.now(), comments=1)
        said = "; ".join(shorten(one, PROMPT_LENGTH) for one in lines) or "it is given back, or shown again"
        console().print(clean(f"noted: {call.suspension_id} of {event.conversation_id}: {said}"), soft_wrap=True)

    def _settled(self, event: AsyncListEvent) -> None:
        if self._as_json:
            _write(event)
            return
        who = event.data["principal"]["id"] if event.data.get("principal") else "no person"
        by = granted(event.data.get("grants") or ()) if event.data["by"] == SettledBy.GRANT else event.data["by"]
        by = by or "something that cannot be read"
        said = f"settled: {event.data['suspension_id']} of {event.conversation_id} by {by} ({who})"
        console().print(clean(said), style="green", soft_wrap=True)


def _write(event: AsyncListEvent) -> None:
    names = ("kind", "at", "conversation_id", "agent", "seq", "data", "cursor")
    sys.stdout.write(to_json({name: getattr(event, name) for name in names}) + "\n")
