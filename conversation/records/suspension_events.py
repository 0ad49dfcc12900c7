"""What happens to a suspension while a call waits, and at its end."""

from typing import Literal

from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.presence import OnDetach, client_name
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import SettledBy

from .event_base import ChainLink, Note, OnSuspension


class SuspensionSettled(OnSuspension, ChainLink):
    """A suspension ended: by a decision, its deadline or a cancellation.

    Attributes:
        by: What ended it.
        body: The JSON text of the decision's body: edited arguments, a value, a denial's reason, an error, or an object with a
            review's `verdict` and `notes`; None if it has none.
        reason: The reason of the decision; a denial's reason and a review's notes are in the body.
        decision_id: The decision's idempotency key; None if no decision ended it.
        digest: The digest that a repetition with the same `decision_id` is compared with; empty if no decision ended it.
        decision: The kind of the decision; None if no decision ended it.
        principal: Who decided or cancelled it, and how that was proven; None if nobody did, or if unknown.
        traceparent: The trace context of the span with which the turn goes on; None if it goes on with the same one.
        grants: The grants that cover the call, if they ended it.
        votes: How many people had agreed with this decision; 0 if one is enough.
        needed: How many must agree; 0 if one is enough.
        shown: The digest of what the suspension showed; empty if an older release suspended the call.
        source_ended: Whether the machine that the call waited for has ended it by its word, and does no more.
    """

    kind: Literal["suspension_settled"] = "suspension_settled"
    by: SettledBy
    body: JsonText | None = None
    decision_id: str | None = None
    digest: str = ""
    decision: DecisionKind | None = None
    principal: Principal | None = None
    traceparent: str | None = None
    reason: str = ""
    grants: tuple[str, ...] = ()
    votes: int = 0
    needed: int = 0
    shown: str = ""
    source_ended: bool = False


class VoteCast(OnSuspension, ChainLink):
    """A person agreed to a call that several must approve; it still waits.

    Attributes:
        decision: The kind of the decision.
        body: The JSON text of the decision's body; None if it has none.
        decision_id: The decision's idempotency key.
        digest: The digest that a repetition with the same `decision_id` is compared with.
        principal: Who agreed, and how that was proven.
        on: A short digest of the decision: only votes with the same digest count together.
        reason: The reason of the decision.
        votes: How many people have agreed by now.
        needed: How many must agree.
        noted: The `seq` of earlier votes, assignments and comments on the suspension.
        shown: The digest of what the suspension showed.
    """

    kind: Literal["vote_cast"] = "vote_cast"
    decision: DecisionKind
    body: JsonText | None = None
    decision_id: str
    digest: str
    principal: Principal
    on: str
    reason: str = ""
    votes: int
    needed: int
    noted: tuple[int, ...] = ()
    shown: str = ""


class CallAssigned(Note):
    """A suspended call was assigned to somebody, or to nobody any more: its approvers see that, and it still waits.

    Attributes:
        to: Who is to decide it; empty for nobody.
    """

    kind: Literal["call_assigned"] = "call_assigned"
    to: str


class CallCommented(Note):
    """Somebody commented on a suspended call for its other approvers; the model does not read it, and the call still waits.

    Attributes:
        text: The comment.
    """

    kind: Literal["call_commented"] = "call_commented"
    text: str


class CallSnoozed(Note):
    """Somebody does not want to see a suspended call for a while: it is hidden from the lists of that person alone.

    Attributes:
        until: Until when, in integer milliseconds UTC.
        for_s: For how many seconds, as it was asked for; 0 shows the call again.
        reason: The reason of the request.
    """

    kind: Literal["call_snoozed"] = "call_snoozed"
    until: int
    for_s: float
    reason: str = ""


class CallReminded(OnSuspension):
    """The approvers of a suspended call are reminded of it.

    Attributes:
        remind_at: When they are reminded again, in integer milliseconds UTC; 0: not before the deadline.
    """

    kind: Literal["call_reminded"] = "call_reminded"
    remind_at: int = 0


class CallEscalated(OnSuspension, ChainLink):
    """Others decide a suspended call from now on. Votes so far are void, and the suspension keeps its id.

    Attributes:
        approvers: Who decides from now on.
        stage: How many escalations by its deadline the suspension has had by now.
        expires_at: The new deadline, in integer milliseconds UTC.
        remind_at: When these approvers are reminded, in integer milliseconds UTC; 0: never.
        to: A digest of the approvers that the request named; empty if the deadline passed.
        request_id: The idempotency key of the request; None if the deadline passed.
        principal: Who asked for it, and how that was proven; None if nobody did, or if unknown.
        reason: The reason of the request.
        noted: The `seq` of earlier votes, assignments, comments and escalations on the suspension.
    """

    kind: Literal["call_escalated"] = "call_escalated"
    approvers: ApproverTerms
    stage: int
    expires_at: int
    remind_at: int = 0
    to: str = ""
    request_id: str | None = None
    principal: Principal | None = None
    reason: str = ""
    noted: tuple[int, ...] = ()


class CallClaimed(Note):
    """A client executes the call from now on: no other one may, and the suspension keeps its id.

    Attributes:
        client_id: The client, an id in the name space of its principal.
        on_detach: What happens to the call if the client leaves.
        expires_at: The new deadline, in integer milliseconds UTC.
        look_at: When to look whether the client is still attached, in integer milliseconds UTC.
        attempt: How often clients have claimed the call, this time included.
    """

    kind: Literal["call_claimed"] = "call_claimed"
    client_id: str
    on_detach: OnDetach = OnDetach.KEEP
    expires_at: int
    look_at: int
    attempt: int

    @property
    def client(self) -> str:
        """The client's name in the conversation."""
        return client_name(self.client_id, self.principal)


class CallGivenBack(OnSuspension):
    """A client executes the call no more. It waits for other clients, unless another event of the same append settles it.

    Attributes:
        client_id: The client, an id in the name space of its principal.
        principal: Who gave it back, and how that was proven; None if the client was gone, or unknown.
        by: Whether the client gave it back, or was gone.
        began: Whether the call may have taken effect.
        expires_at: The new deadline, in integer milliseconds UTC.
        look_at: When to look whether a client is attached for it, in integer milliseconds UTC; 0: never.
        attempt: How often clients have claimed the call.
        request_id: The idempotency key of the request; None if the client was gone.
        reason: The reason of the request.
        noted: The `seq` of earlier votes, assignments and comments on the suspension.
    """

    kind: Literal["call_given_back"] = "call_given_back"
    client_id: str
    principal: Principal | None = None
    by: Literal["client", "loss"]
    began: bool = True
    expires_at: int
    look_at: int = 0
    attempt: int
    request_id: str | None = None
    reason: str = ""
    noted: tuple[int, ...] = ()

    @property
    def client(self) -> str:
        """The client's name in the conversation."""
        return client_name(self.client_id, self.principal)
