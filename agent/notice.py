"""A notice: what a notification target of an app is told of one event of a conversation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.spec import NoticeKind
from holdfast.errors import SettledBy


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One event of a conversation, as a notification target is told of it.

    A notice comes at least once: a repetition has the same `id`. The notices of one conversation come in their order.

    Attributes:
        id: The message's id.
        kind: The event.
        conversation_id: The conversation.
        agent: The name of the conversation's agent.
        at: When it happened, in integer milliseconds UTC.
        seq: The place of its entry in the conversation's log.
        call: The call that waits, or was settled, with its arguments; None if the event is about no call.
        by: What settled the call; None if the event settles none.
        decision: The kind of the decision that settled it; None if no decision did.
        principal: Who decided, cancelled, escalated or ended it; None if nobody did, or if unknown.
        reason: The reason of the decision, the escalation or the quarantine; empty without one.
        reply: The answer of the completed turn.
        error: The error of the failed turn.
        links: The links by which the target's `decider` decides the call, by the decision; empty without one, once the call
            waits no longer, and where nobody makes links.
    """

    id: str
    kind: NoticeKind
    conversation_id: str
    agent: str
    at: int
    seq: int
    call: PendingView | None = None
    by: SettledBy | None = None
    decision: DecisionKind | None = None
    principal: Principal | None = None
    reason: str = ""
    reply: str | None = None
    error: str | None = None
    links: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
