"""The client: start conversations, resolve what they wait for, list what is pending.

`AsyncClient` and its blocking face `Client`; decisions and errors are exported here too.
"""

from typing import TYPE_CHECKING, Any

from holdfast.conversation import (
    AgentNotFound,
    Answer,
    AppNotFound,
    AppNotPublished,
    Approve,
    Cancelled,
    CipherFailed,
    CipherMissing,
    ClusterStopped,
    ClusterUnavailable,
    ConfigurationError,
    ConversationEnded,
    ConversationExists,
    ConversationNotFound,
    Decision,
    Deny,
    Fail,
    FailureReason,
    HoldfastError,
    InvalidConversationId,
    InvalidDecision,
    InvalidInput,
    InvalidMessage,
    OlderRelease,
    OtherBuild,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    QueueFull,
    Receipt,
    Redispatch,
    StaleCall,
    StaleReason,
    Status,
    StopReason,
    StoreError,
    StoreUnavailable,
    SuspensionKind,
    WrongCluster,
    WrongStore,
)
from holdfast.persistence import Pause

from .async_client import AsyncClient
from .conversation import Conversation
from .records import AsyncPendingCall, ConversationRow, ConversationState, Event, Page, PendingCall, RunningCall
from .stack import AppDiffersWarning, DurabilityWarning

if TYPE_CHECKING:
    from .blocking import BlockingConversation, Client

__all__ = [
    "AgentNotFound",
    "Answer",
    "AppDiffersWarning",
    "AppNotFound",
    "AppNotPublished",
    "Approve",
    "AsyncClient",
    "AsyncPendingCall",
    "BlockingConversation",
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
    "HoldfastError",
    "InvalidConversationId",
    "InvalidDecision",
    "InvalidInput",
    "InvalidMessage",
    "OlderRelease",
    "OtherBuild",
    "OutcomeUnknown",
    "Overloaded",
    "Page",
    "Pause",
    "PendingCall",
    "Quarantined",
    "QueueFull",
    "Receipt",
    "Redispatch",
    "RunningCall",
    "StaleCall",
    "StaleReason",
    "Status",
    "StopReason",
    "StoreError",
    "StoreUnavailable",
    "SuspensionKind",
    "WrongCluster",
    "WrongStore",
]


def __getattr__(name: str) -> Any:
    if name in ("BlockingConversation", "Client"):  # imported when they are used: `holdfast pending` counts milliseconds
        from . import blocking  # noqa: PLC0415 - see above

        return getattr(blocking, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
