"""The public API of Holdfast: every name that users import, and every error.

A name's module is imported at its first use, so `import holdfast` is cheap. This folder also holds the modules that all
packages share (errors, settings, redaction, the place of a cipher); it imports none of the packages.
"""

# ruff: noqa: F405 - the errors are listed once, in `__all__`
from importlib import metadata
from typing import TYPE_CHECKING, Any

from .lazy import lazily

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent
    from holdfast.agent.app import App
    from holdfast.agent.approving import TurnContext
    from holdfast.agent.context import Report, ToolContext
    from holdfast.agent.questions import ask_user_questions
    from holdfast.agent.rule import Rule
    from holdfast.agent.rules import Rules
    from holdfast.agent.suspend import Suspend
    from holdfast.agent.tool import Tool, tool
    from holdfast.agent.unattended import Unattended, UnattendedCall
    from holdfast.client.agents import AgentRow, ToolRow
    from holdfast.client.async_client import AsyncClient
    from holdfast.client.audit import AuditReport
    from holdfast.client.blocking import Client, Conversation
    from holdfast.client.cautions import AppDiffersWarning, DurabilityWarning
    from holdfast.client.conversation import AsyncConversation
    from holdfast.client.given import Given, GivenVote
    from holdfast.client.list_events import AsyncListEvent, ListEvent, ListEventKind
    from holdfast.client.log_pages import MessagePage
    from holdfast.client.results import AsyncPendingCall, ConversationState, Event, LateResult, Page, PendingCall, RunningCall
    from holdfast.client.rule_check import RuleCheck
    from holdfast.client.turns import Message, MessageStatus, Turn, TurnStatus, Usage
    from holdfast.conversation.judging.judgement import Cancelled, Receipt
    from holdfast.conversation.log.auditing import AuditEntry
    from holdfast.conversation.log.chain import AuditBreak
    from holdfast.conversation.records.event_base import FailureReason, StopReason
    from holdfast.conversation.records.state import Status
    from holdfast.conversation.terms.approvers import Approvers
    from holdfast.conversation.terms.decisions import (
        Answer,
        Approve,
        Cancel,
        Decision,
        Deny,
        Fail,
        Redispatch,
        Review,
        ReviewVerdict,
        SuspensionKind,
    )
    from holdfast.conversation.terms.grants import Grant, Level, Scope, Target
    from holdfast.conversation.terms.principal import Principal, Proof
    from holdfast.conversation.terms.questions import Question
    from holdfast.conversation.terms.spec import Limits
    from holdfast.persistence import ConversationRow, Pause

    from .errors import *  # noqa: F403 - `__all__` lists those of the door

_HOMES = {
    "agent.agent": ("Agent",),
    "agent.app": ("App",),
    "agent.approving": ("TurnContext",),
    "agent.context": ("Report", "ToolContext"),
    "agent.questions": ("ask_user_questions",),
    "agent.rule": ("Rule",),
    "agent.rules": ("Rules",),
    "agent.suspend": ("Suspend",),
    "agent.tool": ("Tool", "tool"),
    "agent.unattended": ("Unattended", "UnattendedCall"),
    "client.agents": ("AgentRow", "ToolRow"),
    "client.async_client": ("AsyncClient",),
    "client.audit": ("AuditReport",),
    "client.blocking": ("Client", "Conversation"),
    "client.cautions": ("AppDiffersWarning", "DurabilityWarning"),
    "client.conversation": ("AsyncConversation",),
    "client.given": ("Given", "GivenVote"),
    "client.list_events": ("AsyncListEvent", "ListEvent", "ListEventKind"),
    "client.log_pages": ("MessagePage",),
    "client.results": ("AsyncPendingCall", "ConversationState", "Event", "LateResult", "Page", "PendingCall", "RunningCall"),
    "client.rule_check": ("RuleCheck",),
    "client.turns": ("Message", "MessageStatus", "Turn", "TurnStatus", "Usage"),
    "conversation.terms.approvers": ("Approvers",),
    "conversation.log.auditing": ("AuditEntry",),
    "conversation.log.chain": ("AuditBreak",),
    "conversation.terms.decisions": (
        "Answer",
        "Approve",
        "Cancel",
        "Decision",
        "Deny",
        "Fail",
        "Redispatch",
        "Review",
        "ReviewVerdict",
        "SuspensionKind",
    ),
    "conversation.records.event_base": ("FailureReason", "StopReason"),
    "conversation.terms.grants": ("Grant", "Level", "Scope", "Target"),
    "conversation.judging.judgement": ("Cancelled", "Receipt"),
    "conversation.terms.principal": ("Principal", "Proof"),
    "conversation.terms.questions": ("Question",),
    "conversation.terms.spec": ("Limits",),
    "conversation.records.state": ("Status",),
    "persistence": ("ConversationRow", "Pause"),
}

__all__ = [
    "Agent",
    "AgentNotFound",
    "AgentRow",
    "AlreadyVoted",
    "Answer",
    "App",
    "AppDiffersWarning",
    "AppNotFound",
    "AppNotPublished",
    "Approve",
    "Approvers",
    "AsyncClient",
    "AsyncConversation",
    "AsyncListEvent",
    "AsyncPendingCall",
    "AuditBreak",
    "AuditEntry",
    "AuditReport",
    "BatchRefused",
    "Cancel",
    "Cancelled",
    "CipherFailed",
    "CipherMissing",
    "Client",
    "ClusterError",
    "ClusterStopped",
    "ClusterUnavailable",
    "ConfigurationError",
    "Conversation",
    "ConversationEnded",
    "ConversationExists",
    "ConversationNotFound",
    "ConversationRow",
    "ConversationState",
    "CorruptStore",
    "Decision",
    "Deny",
    "DurabilityWarning",
    "Event",
    "Fail",
    "FailureReason",
    "Fenced",
    "Given",
    "GivenVote",
    "Grant",
    "HoldfastError",
    "HomeUnusable",
    "InvalidConversationId",
    "InvalidDecision",
    "InvalidInput",
    "InvalidMessage",
    "InvalidRule",
    "LateResult",
    "LeaseHeld",
    "Level",
    "Limits",
    "ListEvent",
    "ListEventKind",
    "Message",
    "MessageNotFound",
    "MessagePage",
    "MessageStatus",
    "NewerRecord",
    "NotPermitted",
    "OlderRelease",
    "OtherBuild",
    "OutcomeUnknown",
    "Overloaded",
    "Page",
    "Pause",
    "PendingCall",
    "Principal",
    "Proof",
    "Quarantined",
    "Question",
    "QueueFull",
    "QuotaUsedUp",
    "Receipt",
    "Redispatch",
    "Report",
    "Review",
    "ReviewVerdict",
    "Rule",
    "RuleCheck",
    "Rules",
    "RunningCall",
    "Scope",
    "ServerRefused",
    "ServerUnavailable",
    "StaleCall",
    "StaleReason",
    "Status",
    "StopReason",
    "StoreError",
    "StoreUnavailable",
    "Suspend",
    "SuspensionKind",
    "Target",
    "Tool",
    "ToolContext",
    "ToolRow",
    "Turn",
    "TurnContext",
    "TurnNotFound",
    "TurnStatus",
    "Unattended",
    "UnattendedCall",
    "UnsupportedServer",
    "Usage",
    "WrongCluster",
    "WrongStore",
    "__version__",
    "ask_user_questions",
    "tool",
]

_imported = lazily(__name__, _HOMES, others=("errors", __all__))


def __getattr__(name: str) -> Any:
    return metadata.version("holdfast") if name == "__version__" else _imported(name)
