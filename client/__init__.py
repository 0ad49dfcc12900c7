"""The client: start conversations, resolve what they wait for, list what is pending.

`AsyncClient` and its blocking face `Client`; decisions and errors are exported here too.
"""

from typing import TYPE_CHECKING

from holdfast.conversation import (
    Answer,
    Approve,
    Cancel,
    Cancelled,
    Decision,
    Deny,
    Fail,
    FailureReason,
    Grant,
    Level,
    Principal,
    Proof,
    Question,
    Receipt,
    Redispatch,
    Review,
    ReviewVerdict,
    Scope,
    Status,
    StopReason,
    SuspensionKind,
    Target,
)
from holdfast.conversation.auditing import AuditEntry
from holdfast.conversation.chain import AuditBreak
from holdfast.errors import (
    AgentNotFound,
    AlreadyVoted,
    AppNotFound,
    AppNotPublished,
    BatchRefused,
    CipherFailed,
    CipherMissing,
    ClusterStopped,
    ClusterUnavailable,
    ConfigurationError,
    ConversationEnded,
    ConversationExists,
    ConversationNotFound,
    HoldfastError,
    InvalidConversationId,
    InvalidDecision,
    InvalidInput,
    InvalidMessage,
    InvalidRule,
    MessageNotFound,
    NotPermitted,
    OlderRelease,
    OtherBuild,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    QueueFull,
    ServerRefused,
    ServerUnavailable,
    StaleCall,
    StaleReason,
    StoreError,
    StoreUnavailable,
    TurnNotFound,
    WrongCluster,
    WrongStore,
)
from holdfast.lazy import lazily
from holdfast.persistence import ConversationRow, Pause

from .agents import AgentRow, ToolRow
from .async_client import AsyncClient
from .audit import AuditReport
from .cautions import AppDiffersWarning, DurabilityWarning
from .conversation import Conversation
from .given import Given, GivenVote
from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .log_pages import MessagePage
from .results import AsyncPendingCall, ConversationState, Event, LateResult, Page, PendingCall, RunningCall
from .rule_check import RuleCheck
from .turns import Message, MessageStatus, Turn, TurnStatus, Usage

if TYPE_CHECKING:
    from .blocking import BlockingConversation, Client

__all__ = [
    "AgentNotFound",
    "AgentRow",
    "AlreadyVoted",
    "Answer",
    "AppDiffersWarning",
    "AppNotFound",
    "AppNotPublished",
    "Approve",
    "AsyncClient",
    "AsyncListEvent",
    "AsyncPendingCall",
    "AuditBreak",
    "AuditEntry",
    "AuditReport",
    "BatchRefused",
    "BlockingConversation",
    "Cancel",
    "Cancelled",
    "CipherFailed",
    "CipherMissing",
    "Client",
    "ClusterStopped",
    "ClusterUnavailable",
    "ConfigurationError",
    "Conversation",
    "ConversationEnded",
    "ConversationExists",
    "ConversationNotFound",
    "ConversationRow",
    "ConversationState",
    "Decision",
    "Deny",
    "DurabilityWarning",
    "Event",
    "Fail",
    "FailureReason",
    "Given",
    "GivenVote",
    "Grant",
    "HoldfastError",
    "InvalidConversationId",
    "InvalidDecision",
    "InvalidInput",
    "InvalidMessage",
    "InvalidRule",
    "LateResult",
    "Level",
    "ListEvent",
    "ListEventKind",
    "Message",
    "MessageNotFound",
    "MessagePage",
    "MessageStatus",
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
    "Receipt",
    "Redispatch",
    "Review",
    "ReviewVerdict",
    "RuleCheck",
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
    "SuspensionKind",
    "Target",
    "ToolRow",
    "Turn",
    "TurnNotFound",
    "TurnStatus",
    "Usage",
    "WrongCluster",
    "WrongStore",
]


__getattr__ = lazily(__name__, {"blocking": ("BlockingConversation", "Client")})  # `holdfast pending` counts milliseconds
