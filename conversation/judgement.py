"""What `decide` returns, and the draft on which judges write it."""

from dataclasses import dataclass, field
from typing import TypeAlias

from .events import Event
from .fold import evolve
from .record import Record
from .state import State


class Receipt(Record):
    """The durable acknowledgement of a start, message or decision.

    `seq` is the place in the log of the event that records it, `accepted_at` its moment (integer milliseconds UTC),
    `duplicate` whether it was recorded before under the same id.
    """

    conversation_id: str
    seq: int
    accepted_at: int
    duplicate: bool = False


class Cancelled(Record):
    """What a cancellation really cancelled; `turn_id` is None where no turn was going on.

    `duplicate` says whether it was recorded before under the same id.
    """

    conversation_id: str
    turn_id: str | None = None
    calls: tuple[str, ...] = ()
    duplicate: bool = False


Reply: TypeAlias = Receipt | Cancelled | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The events a command leads to, in order, and what its caller is told once they are durable.

    `ignored` names the reason where the command was ignored on purpose; `state` is what the events lead to, None if there are
    none.
    """

    events: tuple[Event, ...] = ()
    reply: Reply = None
    ignored: str | None = None
    state: State | None = None


@dataclass(slots=True)
class Draft:
    """Events in the making: each is folded at once, so that the next is judged on the state it leads to."""

    state: State
    now: int
    events: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> int:
        """Add an event; its place in the log."""
        self.events.append(event)
        self.state = evolve(self.state, event)
        return self.state.seq

    def done(self, reply: Reply = None) -> Judgement:
        """The judgement with everything emitted."""
        return Judgement(tuple(self.events), reply, state=self.state)
