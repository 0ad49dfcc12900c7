"""What an operator asks of a store in memory."""

from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.conversation import Status, SuspensionKind

from .inspection import BrokenApp, Census, Overdue, Silent
from .keys import bucket_of
from .memory_conversation import MemoryConversation
from .payloads import Payloads


class MemoryInspection:
    """The verbs of `Inspection`."""

    _clock: Callable[[], int]
    _conversations: dict[str, MemoryConversation]
    _problems: dict[str, bytes]
    _problems_since: dict[str, int]
    _living: dict[str, int]
    _hosting: dict[str, str]
    payloads: Payloads

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """See `Store.broken_apps`."""
        found = [
            BrokenApp(path, self.payloads.open_text(text, "problem", path), self._problems_since.get(path))
            for path, text in self._problems.items()
        ]
        return sorted(found, key=lambda broken: (broken.since or 0, broken.app))

    async def silent(self, quiet_ms: int) -> Sequence[Silent]:
        """See `Store.silent`."""
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return [Silent(name, at, self._hosting.get(name)) for at, name in sorted(quiet)]

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        """See `Store.overdue`."""
        before = self._clock() - late_ms
        moments = [(found.attention, name) for name, found in self._conversations.items() if found.attention is not None]
        late = sorted((at, name) for at, name in moments if at <= before)
        return Overdue(len(late), tuple((name, at) for at, name in late[:limit]))

    async def census(self, *, since: int) -> Census:
        """See `Store.census`."""
        listed = {name: found for name, found in self._conversations.items() if found.index is not None}
        starts = [found.index.created_at for found in listed.values() if found.index is not None]
        waiting = [entry for found in listed.values() for entry in found.pending.values()]
        return Census(
            conversations=len(listed),
            begun=sum(at >= since for at in starts),
            fullest=max(Counter(map(bucket_of, listed)).values(), default=0),
            pending=len(waiting),
            lost=sum(entry.kind is SuspensionKind.LOST for entry in waiting),
            quarantined=sum(found.status is Status.QUARANTINED for found in listed.values()),
        )
