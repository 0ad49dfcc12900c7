"""Idempotency records: receipts, settled suspensions and used call ids, kept beside the log of a conversation by id.

They are never part of `State`, which would grow without end. The store keeps them as long as the conversation, except those of
requests that changed nothing, which it forgets (`Judgement.passing`). It writes them in the same append as the events, and
returns the records of the ids that a command names.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.record import Record
from holdfast.errors import StaleReason

from . import events
from .event_base import ChainLink, Note
from .events import Event, SettledBy


class IdempotencyRecord(Record):
    """The store's record of one id: the event that used or settled it, its `seq` and its time (ms UTC).

    `head` is the head of the audit chain with that event, for the receipt; empty if the event is no link.
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
        return _REASONS.get(self.by, StaleReason.ALREADY_RESOLVED)


_REASONS = {
    None: StaleReason.UNKNOWN,
    SettledBy.EXPIRY: StaleReason.EXPIRED,
    SettledBy.CANCELLATION: StaleReason.CANCELLED,
    SettledBy.EDIT: StaleReason.SUPERSEDED,
}


message_key = "m:{}".format
"""The key of a message's receipt."""
decision_key = "d:{}".format
"""The key of a decision's receipt."""
request_key = "x:{}".format
"""The key of any other request's receipt."""
call_key = "c:{}".format
"""The key of a used call id; its record says what settled the call's last suspension."""
result_key = "r:{}".format
"""The key of a call's result."""
suspension_key = "s:{}".format
"""The key of a settled suspension."""
notes_key = "n:{}".format
"""The key of the last vote, assignment or comment on a suspension."""


def facts(log: Sequence[Event], first_seq: int) -> dict[str, IdempotencyRecord]:
    """The idempotency records, by key, of events of which the first has `first_seq`."""
    return {key: known for seq, event in enumerate(log, first_seq) for key, known in _of(event, seq)}


def _of(event: Event, seq: int) -> Iterator[tuple[str, IdempotencyRecord]]:
    head = event.head if isinstance(event, ChainLink) else ""
    record = partial(IdempotencyRecord, seq=seq, at=event.at)
    if isinstance(event, Note | events.VoteCast):
        yield notes_key(event.suspension_id), record()
    match event:
        case events.MessageAccepted():
            yield message_key(event.message_id), record(digest=event.digest, head=head)
        case events.ModelAnswered():
            yield from ((call_key(call.tool_call_id), record()) for call in event.calls)
        case events.SuspensionSettled():
            settled = record(by=event.by, tool_call_id=event.tool_call_id)
            yield from ((suspension_key(event.suspension_id), settled), (call_key(event.tool_call_id), settled))
            if event.decision_id is not None:
                decided = record(digest=event.digest, votes=event.votes, needed=event.needed, head=head)
                yield decision_key(event.decision_id), decided
        case events.VoteCast():
            voted = record(digest=event.digest, votes=event.votes, needed=event.needed, settled=False, head=head)
            yield decision_key(event.decision_id), voted
        case events.CallResolved():
            yield result_key(event.tool_call_id), record(by=event.by)
        case events.GivenRevoked():
            yield from ((notes_key(vote.suspension_id), record()) for vote in event.votes)
    request_id = getattr(event, "request_id", None)
    if request_id is not None:
        yield request_key(request_id), record(head=head, **_request(event))


def _request(event: Event) -> dict[str, Any]:
    """The record's fields about the request, above all the digest that a repetition is compared with."""
    match event:
        case events.CallAssigned():
            return {"digest": payload_digest("assign", event.suspension_id, event.to)}
        case events.CallCommented():
            return {"digest": payload_digest("comment", event.suspension_id, event.text)}
        case events.TurnCancelled() | events.PendingCancelled():
            what = "cancel" if isinstance(event, events.TurnCancelled) else "cancel_pending"
            return {"digest": what, "turn_id": event.turn_id, "calls": event.calls}
        case events.NothingCancelled():
            return {"digest": event.what}
        case events.GrantRevoked():
            return {"digest": payload_digest("revoke", event.grant_id, event.reason)}
        case events.GivenRevoked():
            return {"digest": payload_digest("revoke_given", event.by, event.proof or "", event.reason)}
        case _:
            return {"digest": "end"}
