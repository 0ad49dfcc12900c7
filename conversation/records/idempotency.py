"""Idempotency records: receipts, settled suspensions and used call ids, kept by id beside a conversation's log.

They are not part of `State`, which would grow without end. The store writes them in the same append as the events, returns
those that a command names, and keeps them as long as the conversation; those of requests that changed nothing it keeps for a
while only (`Judgement.passing`).
"""

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.record import Record
from holdfast.errors import StaleReason

from .events import SettledBy


class IdempotencyRecord(Record):
    """The store's record of one id: the event that used or settled it, its `seq` and its time (ms UTC).

    `head` is the head of the audit chain after that event, for the receipt; empty if the event is no link.
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
    epoch: int = 0
    messages: tuple[str, ...] = ()
    attempt: int = 0

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
"""The key of the last vote, assignment, comment or escalation on a suspension."""


_COMPARED = {
    "assign": ("suspension_id", "to"),
    "comment": ("suspension_id", "text"),
    "snooze": ("suspension_id", "for_s", "reason"),
    "claim": ("suspension_id", "client", "on_detach"),
    "give_back": ("suspension_id", "client", "began", "reason"),
    "escalate": ("suspension_id", "to", "reason"),
    "withdraw": ("message_seq",),
    "reschedule": ("message_seq", "at", "priority"),
    "revoke": ("grant_id", "reason"),
    "revoke_given": ("by", "proof", "reason"),
}
"""The fields in which two requests of a kind must agree to count as the same; requests of other kinds always do."""


def request_digest(kind: str, about: Record) -> str:
    """The digest by which two requests with the same `request_id` count as the same, from a request or from its event."""
    if kind not in _COMPARED:
        return kind
    return payload_digest(kind, *(str(getattr(about, name) or "") for name in _COMPARED[kind]))
