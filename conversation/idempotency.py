"""Idempotency records: receipts, settled suspensions and used call ids, kept beside the log of a conversation by id.

The records are never part of `State` (which would grow without end). The store keeps them as long as the conversation, writes
them in the same append as the events, and hands back the records of the ids that a command names.
"""

from collections.abc import Sequence

from holdfast.errors import StaleReason

from .events import (
    CallResolved,
    Ended,
    Event,
    MessageAccepted,
    ModelAnswered,
    NothingCancelled,
    PendingCancelled,
    SettledBy,
    SuspensionSettled,
    TurnCancelled,
)
from .record import Record


class IdempotencyRecord(Record):
    """What the store knows of one id: the event that used or settled it, its place in the log and its time (ms UTC)."""

    seq: int
    at: int
    digest: str = ""
    by: SettledBy | None = None
    tool_call_id: str | None = None
    turn_id: str | None = None
    calls: tuple[str, ...] = ()

    @property
    def reason(self) -> StaleReason:
        """Why a decision for this call or suspension is stale."""
        match self.by:
            case None:
                return StaleReason.UNKNOWN
            case SettledBy.EXPIRY:
                return StaleReason.EXPIRED
            case SettledBy.CANCELLATION:
                return StaleReason.CANCELLED
            case _:
                return StaleReason.ALREADY_RESOLVED


def message_key(message_id: str) -> str:
    """The key of a message's receipt."""
    return f"m:{message_id}"


def decision_key(decision_id: str) -> str:
    """The key of a decision's receipt."""
    return f"d:{decision_id}"


def request_key(request_id: str) -> str:
    """The key of a cancellation's or an end's receipt."""
    return f"x:{request_id}"


def call_key(tool_call_id: str) -> str:
    """The key of a used call id; its record says what settled the call's last suspension."""
    return f"c:{tool_call_id}"


def result_key(tool_call_id: str) -> str:
    """The key of a call's result."""
    return f"r:{tool_call_id}"


def suspension_key(suspension_id: str) -> str:
    """The key of a settled suspension."""
    return f"s:{suspension_id}"


def facts(events: Sequence[Event], first_seq: int) -> dict[str, IdempotencyRecord]:
    """The idempotency records, by key, that follow from events of which the first stands at `first_seq` in the log."""
    known: dict[str, IdempotencyRecord] = {}
    for seq, event in enumerate(events, first_seq):
        match event:
            case MessageAccepted():
                known[message_key(event.message_id)] = IdempotencyRecord(seq=seq, at=event.at, digest=event.digest)
            case ModelAnswered():
                for call in event.calls:
                    known[call_key(call.tool_call_id)] = IdempotencyRecord(seq=seq, at=event.at)
            case SuspensionSettled():
                settled = IdempotencyRecord(seq=seq, at=event.at, by=event.by, tool_call_id=event.tool_call_id)
                known[suspension_key(event.suspension_id)] = known[call_key(event.tool_call_id)] = settled
                if event.decision_id is not None:
                    known[decision_key(event.decision_id)] = IdempotencyRecord(seq=seq, at=event.at, digest=event.digest)
            case CallResolved():
                known[result_key(event.tool_call_id)] = IdempotencyRecord(seq=seq, at=event.at, by=event.by)
            case TurnCancelled(request_id=str() as request_id):
                known[request_key(request_id)] = IdempotencyRecord(
                    seq=seq, at=event.at, turn_id=event.turn_id, calls=event.calls, digest="cancel"
                )
            case PendingCancelled():
                known[request_key(event.request_id)] = IdempotencyRecord(
                    seq=seq, at=event.at, turn_id=event.turn_id, calls=event.calls, digest="cancel_pending"
                )
            case NothingCancelled():
                known[request_key(event.request_id)] = IdempotencyRecord(seq=seq, at=event.at, digest=event.what)
            case Ended(request_id=str() as request_id):
                known[request_key(request_id)] = IdempotencyRecord(seq=seq, at=event.at, digest="end")
            case _:
                pass
    return known
