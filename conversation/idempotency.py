"""Idempotency records: receipts, settled suspensions and used call ids, kept beside the log of a conversation by id.

The records are never part of `State` (which would grow without end). The store keeps them as long as the conversation, but for
those of requests that changed nothing, which it forgets (`Judgement.passing`). It writes them in the same append as the events,
and hands back the records of the ids that a command names.
"""

from collections.abc import Sequence

from holdfast.errors import StaleReason

from .events import (
    CallAssigned,
    CallCommented,
    CallResolved,
    Ended,
    Event,
    GivenRevoked,
    GrantRevoked,
    MessageAccepted,
    ModelAnswered,
    NothingCancelled,
    PendingCancelled,
    SettledBy,
    SuspensionSettled,
    TurnCancelled,
    VoteCast,
)
from .ids import payload_digest
from .record import Record


class IdempotencyRecord(Record):
    """What the store knows of one id: the event that used or settled it, its place in the log and its time (ms UTC).

    `head` is the head of the audit chain with that event, for the receipt; empty where the event is no link.
    """

    seq: int
    at: int
    digest: str = ""
    by: SettledBy | None = None
    tool_call_id: str | None = None
    turn_id: str | None = None
    calls: tuple[str, ...] = ()
    votes: int = 0
    needed: int = 0
    settled: bool = True
    head: str = ""

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
            case SettledBy.EDIT:
                return StaleReason.SUPERSEDED
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


def notes_key(suspension_id: str) -> str:
    """The key of the last vote, assignment or comment on a suspension."""
    return f"n:{suspension_id}"


def facts(events: Sequence[Event], first_seq: int) -> dict[str, IdempotencyRecord]:
    """The idempotency records, by key, that follow from events of which the first stands at `first_seq` in the log."""
    known: dict[str, IdempotencyRecord] = {}
    for seq, event in enumerate(events, first_seq):
        match event:
            case MessageAccepted():
                known[message_key(event.message_id)] = IdempotencyRecord(
                    seq=seq, at=event.at, digest=event.digest, head=event.head
                )
            case ModelAnswered():
                for call in event.calls:
                    known[call_key(call.tool_call_id)] = IdempotencyRecord(seq=seq, at=event.at)
            case SuspensionSettled() | VoteCast() | CallAssigned() | CallCommented():
                known |= _of_suspension(event, seq)
            case CallResolved():
                known[result_key(event.tool_call_id)] = IdempotencyRecord(seq=seq, at=event.at, by=event.by)
            case TurnCancelled(request_id=str() as request_id):
                known[request_key(request_id)] = IdempotencyRecord(
                    seq=seq, at=event.at, turn_id=event.turn_id, calls=event.calls, digest="cancel", head=event.head
                )
            case PendingCancelled():
                known[request_key(event.request_id)] = IdempotencyRecord(
                    seq=seq, at=event.at, turn_id=event.turn_id, calls=event.calls, digest="cancel_pending", head=event.head
                )
            case NothingCancelled():
                known[request_key(event.request_id)] = IdempotencyRecord(seq=seq, at=event.at, digest=event.what)
            case GrantRevoked():
                known[request_key(event.request_id)] = IdempotencyRecord(
                    seq=seq, at=event.at, digest=payload_digest("revoke", event.grant_id, event.reason), head=event.head
                )
            case GivenRevoked():
                known |= {notes_key(vote.suspension_id): IdempotencyRecord(seq=seq, at=event.at) for vote in event.votes}
                if event.request_id is not None:
                    digest = payload_digest("revoke_given", event.by, event.proof or "", event.reason)
                    known[request_key(event.request_id)] = IdempotencyRecord(
                        seq=seq, at=event.at, digest=digest, head=event.head
                    )
            case Ended(request_id=str() as request_id):
                known[request_key(request_id)] = IdempotencyRecord(seq=seq, at=event.at, digest="end", head=event.head)
            case _:
                pass
    return known


def _of_suspension(
    event: SuspensionSettled | VoteCast | CallAssigned | CallCommented, seq: int
) -> dict[str, IdempotencyRecord]:
    at = event.at
    noted = {notes_key(event.suspension_id): IdempotencyRecord(seq=seq, at=at)}
    match event:
        case SuspensionSettled():
            settled = IdempotencyRecord(seq=seq, at=at, by=event.by, tool_call_id=event.tool_call_id)
            found = {suspension_key(event.suspension_id): settled, call_key(event.tool_call_id): settled}
            if event.decision_id is None:
                return found
            decided = IdempotencyRecord(
                seq=seq, at=at, digest=event.digest, votes=event.votes, needed=event.needed, head=event.head
            )
            return found | {decision_key(event.decision_id): decided}
        case VoteCast():
            voted = IdempotencyRecord(
                seq=seq,
                at=at,
                digest=event.digest,
                votes=event.votes,
                needed=event.needed,
                settled=False,
                head=event.head,
            )
            return noted | {decision_key(event.decision_id): voted}
        case CallAssigned():
            digest = payload_digest("assign", event.suspension_id, event.to)
        case CallCommented():
            digest = payload_digest("comment", event.suspension_id, event.text)
    return noted | {request_key(event.request_id): IdempotencyRecord(seq=seq, at=at, digest=digest)}
