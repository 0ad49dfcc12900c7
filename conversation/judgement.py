"""The judgement that `decide` returns, the replies that it can hold, and the draft on which it is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .auditing import Audited, linked
from .events import Event
from .fold import evolve
from .idempotency import IdempotencyRecord
from .record import Record
from .state import State


class Receipt(Record):
    """The durable acknowledgement of a start, message, decision or end.

    `seq` is the place in the log of the event that records the request, `accepted_at` the time of that event (integer
    milliseconds UTC); `duplicate` says whether the request was recorded before under the same id. Where several people have to
    agree to a call, `votes` of the `needed` have, this decision included, and `settled` says whether the call is decided; where
    one is enough, `needed` is 0. `audit_head` is the head of the audit chain with what was sent or decided; empty for an
    assignment and a comment.
    """

    conversation_id: str
    seq: int
    accepted_at: int
    duplicate: bool = False
    settled: bool = True
    votes: int = 0
    needed: int = 0
    audit_head: str = ""


class Cancelled(Record):
    """The calls that a cancellation really cancelled, and their turn; `turn_id` is None where there was nothing to cancel.

    `duplicate` says whether the cancellation was recorded before under the same id. `running` are those of the calls whose
    bodies still went on when this was returned: `Conversation.cancel(wait_s=)` waits for their ends. `audit_head` is the head
    of the audit chain with the cancellation; empty where there was nothing to cancel.
    """

    conversation_id: str
    turn_id: str | None = None
    calls: tuple[str, ...] = ()
    duplicate: bool = False
    running: tuple[str, ...] = ()
    audit_head: str = ""


class Receipts(Record):
    """The durable acknowledgement of several decisions, one receipt for each, in their order."""

    receipts: tuple[Receipt, ...]


Reply: TypeAlias = Receipt | Receipts | Cancelled | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The events that a command leads to, in order, and the reply that its caller gets once the events are durable.

    `ignored` names the reason where the command was ignored on purpose; `state` is the state after the events, None if there
    are none. A request that changes nothing leads to no event: `passing` is its idempotency record by key, which the store
    forgets after a while.
    """

    events: tuple[Event, ...] = ()
    reply: Reply = None
    ignored: str | None = None
    state: State | None = None
    passing: Mapping[str, IdempotencyRecord] = field(default_factory=dict)

    def then(self, later: "Judgement") -> "Judgement":
        """This judgement and one of a command of the machine's own, made on the state after this one: for one write."""
        return Judgement((*self.events, *later.events), self.reply, state=later.state or self.state)


@dataclass(slots=True)
class Draft:
    """A judgement in the making: each event is folded at once, so that the next one is judged on the state after it.

    `salt` is the command's random text for the salts of the audit chain. `trace` is the trace context of the turn's span that
    the events belong to; None where there is none.
    """

    state: State
    now: int
    trace: str | None = None
    events: list[Event] = field(default_factory=list)
    salt: str = field(kw_only=True)

    def emit(self, event: Event) -> int:
        """Add an event, as a link of the audit chain if it is one, and return its place in the log."""
        event = linked(self.state, event, self.salt)
        self.events.append(event)
        self.state = evolve(self.state, event)
        return self.state.seq

    def head_at(self, seq: int) -> str:
        """The head of the audit chain with the event of this draft at a place in the log; empty if that is no link."""
        event = self.events[seq - self.state.seq - 1]
        return event.head if isinstance(event, Audited) else ""

    @property
    def batch_id(self) -> str:
        """The id of the batch that the calls of the turn's last answer are; empty between turns."""
        return "" if self.state.turn is None else self.state.turn.batch_id

    def done(self, reply: Reply = None) -> Judgement:
        """The judgement with all events emitted so far."""
        return Judgement(tuple(self.events), reply, state=self.state)
