"""The event classes of a conversation: `Event.body` is an object of one of them.

`Conversation.events()` yields `Event`. A name's module is imported at its first use.
"""

from typing import TYPE_CHECKING

from .lazy import lazily

if TYPE_CHECKING:
    from holdfast.client.results import Event, EventBody
    from holdfast.conversation.records.event_base import FailureReason, StopReason
    from holdfast.conversation.records.events import (
        CallAssigned,
        CallCommented,
        CallHeld,
        CallResolved,
        CallSuspended,
        ConversationStarted,
        Ended,
        GivenRevoked,
        GrantGiven,
        GrantRevoked,
        MessageAccepted,
        ModelAnswered,
        NothingCancelled,
        PendingCancelled,
        RequestedCall,
        RunScheduled,
        SettledBy,
        SuspensionSettled,
        TurnCancelled,
        TurnCompleted,
        TurnFailed,
        TurnStarted,
        VoteCast,
    )
    from holdfast.conversation.records.live import ArgumentsDelta, ProgressReported, ReasoningDelta, TextDelta
    from holdfast.conversation.terms.approvers import ApproverTerms
    from holdfast.conversation.terms.decisions import DecisionKind, SuspensionKind
    from holdfast.conversation.terms.grants import CallTarget, Grant, Level
    from holdfast.conversation.terms.principal import Principal, Proof
    from holdfast.conversation.terms.spec import Approval, Choice, Executor, OnLost, Resume

_HOMES = {
    "client.results": ("Event", "EventBody"),
    "conversation.terms.decisions": ("DecisionKind", "SuspensionKind"),
    "conversation.records.event_base": ("FailureReason", "StopReason"),
    "conversation.terms.approvers": ("ApproverTerms",),
    "conversation.terms.grants": ("CallTarget", "Grant", "Level"),
    "conversation.records.live": ("ArgumentsDelta", "ProgressReported", "ReasoningDelta", "TextDelta"),
    "conversation.terms.principal": ("Principal", "Proof"),
    "conversation.terms.spec": ("Approval", "Choice", "Executor", "OnLost", "Resume"),
}

__all__ = [
    "Approval",
    "ApproverTerms",
    "ArgumentsDelta",
    "CallAssigned",
    "CallCommented",
    "CallHeld",
    "CallResolved",
    "CallSuspended",
    "CallTarget",
    "Choice",
    "ConversationStarted",
    "DecisionKind",
    "Ended",
    "Event",
    "EventBody",
    "Executor",
    "FailureReason",
    "GivenRevoked",
    "Grant",
    "GrantGiven",
    "GrantRevoked",
    "Level",
    "MessageAccepted",
    "ModelAnswered",
    "NothingCancelled",
    "OnLost",
    "PendingCancelled",
    "Principal",
    "ProgressReported",
    "Proof",
    "ReasoningDelta",
    "RequestedCall",
    "Resume",
    "RunScheduled",
    "SettledBy",
    "StopReason",
    "SuspensionKind",
    "SuspensionSettled",
    "TextDelta",
    "TurnCancelled",
    "TurnCompleted",
    "TurnFailed",
    "TurnStarted",
    "VoteCast",
]

__getattr__ = lazily(__name__, _HOMES, package="holdfast", others=("conversation.records.events", __all__))
