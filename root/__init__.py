"""The door of Holdfast: everything that a user of it imports, and every error.

A name is imported from its package when it is first used, so that `import holdfast` costs nothing. This folder also holds the
modules that all packages share, and imports none of the packages: errors, settings, redaction, the place of a cipher.
"""

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
    from holdfast.client.async_client import AsyncClient
    from holdfast.client.blocking import Client, Conversation
    from holdfast.client.conversation import AsyncConversation
    from holdfast.client.results import AsyncPendingCall, ConversationState, PendingCall
    from holdfast.conversation.approvers import Approvers
    from holdfast.conversation.calls import SuspensionKind
    from holdfast.conversation.decisions import Answer, Approve, Cancel, Decision, Deny, Fail, Redispatch, Review, ReviewVerdict
    from holdfast.conversation.endings import FailureReason, StopReason
    from holdfast.conversation.grants import Grant, Level, Scope, Target
    from holdfast.conversation.judgement import Receipt
    from holdfast.conversation.principal import Principal, Proof
    from holdfast.conversation.questions import Question
    from holdfast.conversation.spec import Limits
    from holdfast.conversation.state import Status

    from .errors import (
        AgentNotFound,
        AlreadyVoted,
        AppNotFound,
        AppNotPublished,
        BatchRefused,
        CipherFailed,
        CipherMissing,
        ClusterError,
        ClusterStopped,
        ClusterUnavailable,
        ConfigurationError,
        ConversationEnded,
        ConversationExists,
        ConversationNotFound,
        CorruptStore,
        Fenced,
        HoldfastError,
        HomeUnusable,
        InvalidConversationId,
        InvalidDecision,
        InvalidInput,
        InvalidMessage,
        InvalidRule,
        LeaseHeld,
        MessageNotFound,
        NewerRecord,
        NotPermitted,
        OlderRelease,
        OtherBuild,
        OutcomeUnknown,
        Overloaded,
        Quarantined,
        QueueFull,
        QuotaUsedUp,
        ServerRefused,
        ServerUnavailable,
        StaleCall,
        StaleReason,
        StoreError,
        StoreUnavailable,
        TurnNotFound,
        UnsupportedServer,
        WrongCluster,
        WrongStore,
    )

_HOMES = {
    "agent.agent": ("Agent",),
    "agent.app": ("App",),
    "agent.approving": ("TurnContext",),
    "agent.context": (
        "Report",
        "ToolContext",
    ),
    "agent.questions": ("ask_user_questions",),
    "agent.rule": ("Rule",),
    "agent.rules": ("Rules",),
    "agent.suspend": ("Suspend",),
    "agent.tool": (
        "Tool",
        "tool",
    ),
    "agent.unattended": ("Unattended", "UnattendedCall"),
    "client.async_client": ("AsyncClient",),
    "client.blocking": ("Client", "Conversation"),
    "client.conversation": ("AsyncConversation",),
    "client.results": (
        "AsyncPendingCall",
        "ConversationState",
        "PendingCall",
    ),
    "conversation.approvers": ("Approvers",),
    "conversation.calls": ("SuspensionKind",),
    "conversation.decisions": (
        "Answer",
        "Approve",
        "Cancel",
        "Decision",
        "Deny",
        "Fail",
        "Redispatch",
        "Review",
        "ReviewVerdict",
    ),
    "conversation.endings": (
        "FailureReason",
        "StopReason",
    ),
    "conversation.grants": ("Grant", "Level", "Scope", "Target"),
    "conversation.judgement": ("Receipt",),
    "conversation.principal": ("Principal", "Proof"),
    "conversation.questions": ("Question",),
    "conversation.spec": ("Limits",),
    "conversation.state": ("Status",),
    "errors": (
        "AgentNotFound",
        "AlreadyVoted",
        "AppNotFound",
        "AppNotPublished",
        "BatchRefused",
        "CipherFailed",
        "CipherMissing",
        "ClusterError",
        "ClusterStopped",
        "ClusterUnavailable",
        "ConfigurationError",
        "ConversationEnded",
        "ConversationExists",
        "ConversationNotFound",
        "CorruptStore",
        "Fenced",
        "HoldfastError",
        "HomeUnusable",
        "InvalidConversationId",
        "InvalidDecision",
        "InvalidInput",
        "InvalidMessage",
        "InvalidRule",
        "LeaseHeld",
        "MessageNotFound",
        "NewerRecord",
        "NotPermitted",
        "OlderRelease",
        "OtherBuild",
        "OutcomeUnknown",
        "Overloaded",
        "Quarantined",
        "QueueFull",
        "QuotaUsedUp",
        "ServerRefused",
        "ServerUnavailable",
        "StaleCall",
        "StaleReason",
        "StoreError",
        "StoreUnavailable",
        "TurnNotFound",
        "UnsupportedServer",
        "WrongCluster",
        "WrongStore",
    ),
}

__all__ = [
    "Agent",
    "AgentNotFound",
    "AlreadyVoted",
    "Answer",
    "App",
    "AppNotFound",
    "AppNotPublished",
    "Approve",
    "Approvers",
    "AsyncClient",
    "AsyncConversation",
    "AsyncPendingCall",
    "BatchRefused",
    "Cancel",
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
    "ConversationState",
    "CorruptStore",
    "Decision",
    "Deny",
    "Fail",
    "FailureReason",
    "Fenced",
    "Grant",
    "HoldfastError",
    "HomeUnusable",
    "InvalidConversationId",
    "InvalidDecision",
    "InvalidInput",
    "InvalidMessage",
    "InvalidRule",
    "LeaseHeld",
    "Level",
    "Limits",
    "MessageNotFound",
    "NewerRecord",
    "NotPermitted",
    "OlderRelease",
    "OtherBuild",
    "OutcomeUnknown",
    "Overloaded",
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
    "Rules",
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
    "TurnContext",
    "TurnNotFound",
    "Unattended",
    "UnattendedCall",
    "UnsupportedServer",
    "WrongCluster",
    "WrongStore",
    "__version__",
    "ask_user_questions",
    "tool",
]

_imported = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return metadata.version("holdfast") if name == "__version__" else _imported(name)
