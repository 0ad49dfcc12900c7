"""The transcripts that a worker keeps, so that a model call reads only new log entries.

A log can be restored and continue differently, so a sequence number does not identify the events before it. A transcript is
continued only if it is known to be a prefix of the call's log: its last entries, times included, are in the log at that place.

Of a conversation that was summarised only what stands behind the boundary is read and kept, and by their places what is sent of
what stands before it.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.actors.memory import footprint
from holdfast.actors.workers import ModelRequest
from holdfast.conversation import AgentSpec, Event
from holdfast.conversation.log.transcript import Compaction, Transcript, taken_up
from holdfast.conversation.records.events import Compacted, MessageAccepted
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.window import Reported, Walk, Window, closing
from holdfast.errors import CorruptStore
from holdfast.persistence import Conversations

MOST_BYTES = 128 << 20
"""About how many bytes of memory these transcripts may take together."""
OWN_BYTES = 4096
"""About how many bytes a transcript takes besides its events."""
PAGE = 500
OVERLAP = 8
"""How many known entries a page begins with; they show whether the log is still the same."""
TRIES = 3
"""How often a transcript is read again because the log changed meanwhile."""


@dataclass(slots=True)
class _Walked:
    """The walk over the settled messages of a transcript for the agent that last called its model: each is passed once."""

    digest: str = ""
    walk: Walk | None = None

    def begin(self, spec: AgentSpec, settled: int, compacted: Compaction | None) -> Walk:
        """A walk behind the summary that has passed no more than so many messages."""
        walk = self.walk
        if walk is None or self.digest != spec.digest or walk.length > settled or walk.behind != compacted:
            self.digest, self.walk = spec.digest, (walk := Walk(spec, compacted))
        return walk


@dataclass(frozen=True, slots=True)
class Reading:
    """The messages of a conversation as a model call begins, and the last log entry behind them with its place.

    `settled` messages never change; `walked` is the walk over the first of them. `reported` is what providers said of requests,
    as `window` takes it; `overrides` are those of the turn's message; `compacted`, `failed`, `refused` and `origins`
    are those of `Transcript`. `mark` identifies the log that was read: readings of different logs of equal length differ.
    """

    messages: list[dict[str, Any]]
    mark: int
    last: tuple[int, Event] | None = None
    settled: int = 0
    first: int = 0
    walked: _Walked = field(default_factory=_Walked, compare=False)
    reported: Reported = field(default_factory=dict)
    overrides: Overrides | None = None
    compacted: Compaction | None = None
    failed: Collection[int] = ()
    refused: Mapping[int, bool] = field(default_factory=dict)
    origins: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def window(self, spec: AgentSpec, stopped: str = "", *, too_long: bool = False, by_hand: bool = False) -> Window:
        """What an agent's request has of the messages; `stopped` and `by_hand` as `window` takes them.

        `too_long`: this very request was refused for its length.
        """
        if spec.context is None and self.compacted is None:
            return Window([*self.messages, *closing(stopped)], tokens=0)
        walk = self.walked.begin(spec, self.settled, self.compacted)
        settled = self.messages[walk.length - self.first : self.settled - self.first]
        walk.extend(settled, self.reported, self.failed, self.refused)
        walk = walk.copied()
        refused = {**self.refused, self.first + len(self.messages): True} if too_long else self.refused
        walk.extend(self.messages[self.settled - self.first :], self.reported, self.failed, refused)
        return walk.window(stopped, by_hand=by_hand)


@dataclass(slots=True)
class _Kept:
    transcript: Transcript = field(default_factory=Transcript)
    tail: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=OVERLAP))
    mark: int = 0
    size_bytes: int = OWN_BYTES
    walked: _Walked = field(default_factory=_Walked)
    begun: int = 0
    sizes: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def seq(self) -> int:
        return self.transcript.seq

    async def add(self, store: Conversations, conversation_id: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Fold entries, with the messages that they take up from where nothing was read."""
        missing = [one for _, event in entries for one in taken_up(event) if one <= self.begun and not self.transcript.has(one)]
        for seq, message in zip(missing, await store.at(conversation_id, missing) if missing else (), strict=True):
            if not isinstance(message, MessageAccepted):
                raise CorruptStore(f"conversation {conversation_id!r}: a turn names entry {seq}, which is no message")
            self.transcript.add(seq, message)
        for seq, event in entries:
            self._add(seq, event)

    def _add(self, seq: int, event: Event) -> None:
        self.transcript.add(seq, event)
        self.tail.append((seq, event))
        self.sizes.append((seq, size := footprint(event)))
        self.size_bytes += size
        if not isinstance(event, Compacted):
            self.mark = hash((self.mark, seq, event))
            return
        self.mark = hash((seq, event))  # also where nothing was read in front of its boundary
        self.transcript.forget()
        while self.sizes[0][0] <= event.boundary:
            self.size_bytes -= self.sizes.popleft()[1]


class Transcripts:
    """The transcripts of the conversations that last called a model."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self.size_bytes = 0
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def reading(self, store: Conversations, request: ModelRequest) -> Reading:
        """The messages up to the request's place in the log; RuntimeError if the log ends before it, or keeps changing."""
        kept = self._taken(request.conversation_id)
        if kept is not None and kept.seq > request.upto_seq:
            kept = None
        kept = await _continued(kept, store, request)
        await kept.add(store, request.conversation_id, list(enumerate(_after(kept.seq, request), kept.seq + 1)))
        self._keep(request.conversation_id, kept)
        fold, last = kept.transcript, kept.tail[-1] if kept.tail else None
        return Reading(
            fold.messages(),
            kept.mark,
            last,
            fold.settled,
            fold.first,
            kept.walked,
            reported=fold.reported,
            overrides=fold.overrides,
            compacted=fold.compacted,
            failed=fold.failed,
            refused=fold.refused,
            origins=fold.origins,
        )

    def _taken(self, conversation_id: str) -> _Kept | None:
        kept = self._kept.pop(conversation_id, None)
        if kept is not None:
            self.size_bytes -= kept.size_bytes
        return kept

    def _keep(self, conversation_id: str, kept: _Kept) -> None:
        self._taken(conversation_id)
        self._kept[conversation_id] = kept
        self.size_bytes += kept.size_bytes
        while self.size_bytes > self._most_bytes:
            self._taken(next(iter(self._kept)))


async def _begun(store: Conversations, request: ModelRequest) -> _Kept:
    """A transcript to begin with: behind the boundary of the last summary, if there is one, else of the whole log."""
    kept, conversation_id = _Kept(), request.conversation_id
    if not request.boundary:
        return kept
    (event,) = await store.at(conversation_id, [request.compacted_at])
    if not isinstance(event, Compacted) or event.boundary != request.boundary:  # the log was set back
        return kept
    asked, message = [
        (await store.at(conversation_id, [seq]))[0] if 0 < seq <= event.boundary else None
        for seq in (event.asked_at, request.message_seq)
    ]
    if event.asked_at and not isinstance(asked, MessageAccepted):
        return kept
    overrides = message.overrides if isinstance(message, MessageAccepted) else None
    kept.transcript.begin_behind(event, asked if isinstance(asked, MessageAccepted) else None, overrides)
    kept.begun = event.boundary
    return kept


async def _continued(kept: _Kept | None, store: Conversations, request: ModelRequest) -> _Kept:
    """The transcript up to the request's own events. Each page begins with the entries that were read last."""
    known_from = request.upto_seq - len(request.log_tail)
    certain = kept is None
    kept = kept or await _begun(store, request)
    anew = 0
    while kept.seq < known_from or not certain:
        known = list(kept.tail)
        limit = len(known) + max(0, min(PAGE, known_from - kept.seq))
        entries = list(await store.read(request.conversation_id, after=kept.seq - len(known), limit=limit, whole=True))
        if entries[: len(known)] != known:
            kept, certain, anew = await _begun(store, request), True, anew + 1
            if anew > TRIES:
                raise RuntimeError(f"the log of {request.conversation_id!r} changes while it is read")
            continue
        certain = True
        new = entries[len(known) :]
        if not new and kept.seq < known_from:
            raise RuntimeError(f"the log of {request.conversation_id!r} ends at {kept.seq}, not {known_from}")
        await kept.add(store, request.conversation_id, new)
    return kept


def _after(seq: int, request: ModelRequest) -> Sequence[Event]:
    return request.log_tail[seq - (request.upto_seq - len(request.log_tail)) :]
