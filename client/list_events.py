"""Events of the lists over all conversations: calls begin to wait or are settled, and statuses change."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from holdfast.conversation import Receipt
from holdfast.persistence.changes import CURSOR

from .results import PendingCall

LIST_CURSOR = CURSOR

R = TypeVar("R")


class ListEventKind(StrEnum):
    """What an event of the lists tells."""

    FOLLOWING = "following"  # from here on everything is told: read the lists now, and then go on with these events
    PENDING = "pending"  # a call waits for a decision
    NOTED = "noted"  # somebody voted or commented on a waiting call, took it on or hid it (or undid this), or others decide it
    # from now on: look at `approvers` and `expires_at`
    SETTLED = "settled"  # a call does not wait any more
    STATUS = "status"  # a conversation's status, or how many of its calls wait; the last event of one change
    PASSED = "passed"  # nothing that this listener wants has changed: the event brings a new cursor, and nothing else
    MISSED = "missed"  # more happened than was kept for this listener: read the lists anew


@dataclass(frozen=True, slots=True)
class ListEvent(Generic[R]):
    """A change of the lists. After a resumption an event may come again, with the same `conversation_id` and `seq`.

    Attributes:
        kind: What it tells.
        at: When it was, in integer milliseconds UTC; None for `following`, `passed` and `missed`.
        conversation_id: The conversation's id; empty for `following`, `passed` and `missed`.
        agent: The name of the conversation's agent.
        seq: The place in the conversation's log that the lists now reflect.
        data: The fields of the kind, as plain JSON values. `pending` and `noted`: those of a `PendingCall`. `settled`:
            `suspension_id`, `suspension_kind`, `tool_call_id`, `by` (what ended it: a `SettledBy`), `decision` (a
            `DecisionKind` or None), `principal` (who decided, or None) and `grants` (the ids of the grants that ended it); all
            but the first two are None if the log cannot be read. `status`: `status` and `pending`, the number of waiting calls.
        call: For `pending` and `noted` the call, whose `resolve` decides it; else None.
        cursor: Pass it as `after` to go on after this event; None if more events of the same moment follow.
    """

    kind: ListEventKind
    at: int | None = None
    conversation_id: str = ""
    agent: str = ""
    seq: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    call: PendingCall[R] | None = None
    cursor: str | None = None


AsyncListEvent = ListEvent[Awaitable[Receipt]]
BlockingListEvent = ListEvent[Receipt]
