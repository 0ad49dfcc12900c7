"""The events about messages that wait: they become due, join a turn, or are moved, withdrawn or superseded."""

from enum import StrEnum
from typing import Literal

from holdfast.conversation.terms.principal import Principal

from .event_base import ChainLink, EventBase, OfTurn


class Origin(StrEnum):
    """Where a message comes from, as its sender says: it is shown and logged, and nothing is decided by it."""

    USER = "user"  # a person
    AGENT = "agent"  # another agent
    SCHEDULE = "schedule"  # a timer
    WEBHOOK = "webhook"  # an event of another system
    A2A = "a2a"  # an agent of another system, by the A2A protocol


class InputDue(EventBase):
    """Delayed messages are queued, since their time has come.

    Attributes:
        message_seqs: The `seq` of each, in the order of their times.
    """

    kind: Literal["input_due"] = "input_due"
    message_seqs: tuple[int, ...]


class InputJoined(OfTurn):
    """Steered messages join the turn: its next model call reads them, at this place of the transcript.

    Attributes:
        message_seqs: The `seq` of each, in the order in which the model reads them.
    """

    kind: Literal["input_joined"] = "input_joined"
    message_seqs: tuple[int, ...]


class InputSuperseded(ChainLink):
    """The conversation was interrupted: its turn was cancelled, and what waited for a turn is never answered.

    Attributes:
        message_seqs: The `seq` of each superseded message.
        message_ids: Their idempotency keys, in the same order.
        by_seq: The `seq` of the message with which the conversation goes on; 0: there is none.
        epoch: How often the conversation has been interrupted, this time included.
        turn_id: The turn that was cancelled; None if there was none.
        calls: The ids of the calls that were open, and have an error result now.
        request_id: The interruption's idempotency key, and that of its message.
        digest: The digest that a repetition with the same id is compared with.
        principal: Who interrupted it, and how that was proven; None if unknown.
    """

    kind: Literal["input_superseded"] = "input_superseded"
    message_seqs: tuple[int, ...]
    message_ids: tuple[str, ...]
    by_seq: int = 0
    epoch: int
    turn_id: str | None = None
    calls: tuple[str, ...] = ()
    request_id: str
    digest: str
    principal: Principal | None = None


class InputWithdrawn(ChainLink):
    """A message was withdrawn before its turn began; it is never answered.

    Attributes:
        message_seq: The `seq` of the message.
        request_id: The withdrawal's idempotency key.
        principal: Who withdrew it, and how that was proven; None if unknown.
    """

    kind: Literal["input_withdrawn"] = "input_withdrawn"
    message_seq: int
    request_id: str
    principal: Principal | None = None


class InputRescheduled(ChainLink):
    """A message that waits for its turn has another time or priority.

    Attributes:
        message_seq: The `seq` of the message.
        due_at: When it is queued, in integer milliseconds UTC; 0: it is queued now.
        priority: Its priority, from 0 (first) to 255 (last).
        request_id: The request's idempotency key.
        digest: The digest that a repetition with the same id is compared with.
        principal: Who asked for it, and how that was proven; None if unknown.
    """

    kind: Literal["input_rescheduled"] = "input_rescheduled"
    message_seq: int
    due_at: int
    priority: int
    request_id: str
    digest: str
    principal: Principal | None = None
