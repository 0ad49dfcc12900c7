"""What waits, most urgent first, kept up to date by the feed of the lists."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from holdfast.backoff import Backoff, now_s
from holdfast.cli.hints import granted
from holdfast.cli.session import Reached
from holdfast.cli.watching import Wanted, paced
from holdfast.client.inbox.choices import settled_as
from holdfast.client.inbox.row import urgency
from holdfast.client.list_events import AsyncListEvent, ListEventKind
from holdfast.client.operation import LONGEST_SPAN_S
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import Principal, SettledBy
from holdfast.errors import HoldfastError
from holdfast.redaction import PLAIN

MOST = 1000
"""The most calls in the list: the most urgent ones."""
FIRST, AT_ONCE = 100, 500
"""How many calls are read before the list is shown, and at once after that."""
MOST_SEEN = 10_000
"""How many calls of a filter are read, oldest first, to find the most urgent ones."""
FIRST_S, LONGEST_S = 0.5, 10.0
"""The first and the longest pause, in seconds, before the list is followed anew."""
LOOK_S, REREAD_S = 5.0, 300.0
"""Seconds between looks whether the list has to be read anew, and for which it counts: time alone ends what hides a call."""
STAYS_S = 60.0
"""How long a call that was settled stays in its place, with what settled it."""


@dataclass(slots=True)
class Entry:
    """A call in the list. `ended` says how it was settled, and by whom; empty while it waits."""

    call: AsyncPendingCall
    ended: str = ""
    ended_s: float = 0.0


@dataclass
class Waiting:
    """The list. `changed` is called after each change.

    Attributes:
        entries: The calls by their suspensions, most urgent first.
        more: Whether more calls wait than are listed.
        problem: Why the list is not up to date; empty if it is.
        hidden: Until when (ms UTC) the person does not want to see a call.
    """

    on: Reached
    wanted: Wanted
    changed: Callable[[], None]
    entries: dict[str, Entry] = field(default_factory=dict)
    more: bool = False
    problem: str = "reading the list"
    hidden: dict[str, int] = field(default_factory=dict)
    _read_s: float = 0.0

    async def follow(self) -> None:
        """Keep the list up to date. An error of the connection is said, and the list is followed anew; the first is raised."""
        pauses, begun = Backoff(FIRST_S, LONGEST_S), False
        while True:
            try:
                async with aclosing(paced(self.on.client.events(**self.wanted.told), lambda: LOOK_S)) as events:
                    async for event in events:
                        if event is not None:
                            await self._take(event)
                        elif not self._is_outdated():
                            continue
                        else:
                            await self._read()
                        self.problem, pauses.pause_s, begun = "", FIRST_S, True
                        self.changed()
            except HoldfastError as error:
                if not begun:
                    raise
                self.problem = PLAIN.redacted(str(error))
            else:
                self.problem = "the list has ended"
            self.changed()
            await pauses.sleep()

    def settle(self, suspension_id: str, ended: str) -> None:
        """Say in its place how a call was settled."""
        entry = self.entries.get(suspension_id)
        if entry is not None and (not entry.ended or ended.endswith("by you")):
            entry.ended, entry.ended_s = ended, now_s()

    def hide(self, suspension_id: str, until: int) -> None:
        """Leave a call out until then (ms UTC)."""
        self.hidden[suspension_id] = until
        self.entries.pop(suspension_id, None)

    def tidy(self, kept: str) -> bool:
        """Leave out what was settled a while ago, but for the `kept` suspension; whether anything was."""
        before = now_s() - STAYS_S
        gone = [name for name, one in self.entries.items() if one.ended and one.ended_s < before and name != kept]
        for name in gone:
            del self.entries[name]
        return bool(gone)

    async def _take(self, event: AsyncListEvent) -> None:
        if event.kind in {ListEventKind.FOLLOWING, ListEventKind.MISSED}:
            await self._read()
        elif event.kind is ListEventKind.SETTLED:
            self.settle(event.data["suspension_id"], _ended(event))
        elif event.call is not None:
            name = event.call.suspension_id
            if self.wanted.takes(event.call) and await self._wants_now(event.call):
                self.entries[name] = Entry(event.call)
                self._sort()
            else:
                self.entries.pop(name, None)

    async def _wants_now(self, call: AsyncPendingCall) -> bool:
        who = getattr(self.on.client.gateway, "principal", None)  # over HTTP the server knows the caller
        until = max(self.hidden.get(call.suspension_id, 0), call.snoozed.get(who.mark, 0) if isinstance(who, Principal) else 0)
        return until <= (await self.on.now() if until else 0)

    def _is_outdated(self) -> bool:
        """Whether few are left of many, or the list was read long ago."""
        few = self.more and sum(not one.ended for one in self.entries.values()) < MOST // 2
        return few or now_s() - self._read_s > REREAD_S

    async def _read(self) -> None:
        """Read the list anew. The index by deadline has no filter: with one, the list is read by age, and sorted here."""
        within_s = None if self.wanted.lasting else LONGEST_SPAN_S
        most, begins = MOST_SEEN if within_s is None else MOST, not self.entries
        fresh, after, seen = dict[str, Entry](), None, 0
        self._read_s = now_s()
        while seen < most:
            page = await self.on.client.pending(
                limit=AT_ONCE if seen else FIRST, after=after, expires_within_s=within_s, **self.wanted.lasting
            )
            fresh |= {call.suspension_id: Entry(call) for call in page.items if await self._wants_now(call)}
            after, seen = page.next, seen + max(len(page.items), FIRST)
            if begins or after is None or seen >= most:
                ended = {name: one for name, one in self.entries.items() if one.ended and name not in fresh}
                self.entries, self.more, self.problem = fresh | ended, after is not None, ""
                self._sort()
                self.changed()
            if after is None:
                return

    def _sort(self) -> None:
        found = sorted(self.entries.items(), key=lambda item: urgency(item[1].call))
        self.entries, self.more = dict(found[: 2 * MOST]), self.more or len(found) > 2 * MOST

    def calls(self, names: Sequence[str]) -> list[AsyncPendingCall]:
        """The calls of these suspensions that still wait, in the list's order."""
        return [one.call for name, one in self.entries.items() if name in names and not one.ended]


def _ended(event: AsyncListEvent) -> str:
    said: dict[str, Any] = dict(event.data)
    who = said["principal"]["id"] if said.get("principal") else ""
    by = f"allowed by {granted(said.get('grants') or ())}" if said["by"] == SettledBy.GRANT else settled_as(said["by"])
    return f"{by} by {who}" if who else by
