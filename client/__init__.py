"""The client: start conversations, resolve what they wait for, list what is pending.

`AsyncClient` and its blocking face `Client`; decisions and errors are exported here too. A method's "Raises" lists only its
special errors. Besides these,

- every method raises `InvalidInput` if an argument cannot be used, or if an idempotency key was used for something else;
- every read raises `StoreUnavailable` (Redis does not answer in time, or refuses), `WrongStore`, `CorruptStore`, `NewerRecord`
  and `ConfigurationError` (the store cannot be opened as configured);
- every read of one conversation also raises `ConversationNotFound`, `CipherMissing` and `CipherFailed`;
- every command raises all of these, and `ConversationEnded`, `OutcomeUnknown` (no acknowledgement came in time: repeat it with
  the same id), `Overloaded` (nothing was done: repeat it after `retry_after_ms`, with the same id), `Quarantined` (see
  `Conversation.retry`), `ClusterUnavailable`, `ClusterStopped`, `WrongCluster`, `OlderRelease` and `OtherBuild`;
- over HTTP, `ServerUnavailable` and `ServerRefused` replace the errors of the store and the cluster.
"""

# ruff: noqa: F405 - the errors are listed once, in `__all__`

from typing import TYPE_CHECKING

from holdfast.conversation import (
    Cancelled,
    FailureReason,
    Grant,
    Level,
    Principal,
    Proof,
    Question,
    Receipt,
    Scope,
    Status,
    StopReason,
    Target,
)
from holdfast.conversation.log.auditing import AuditEntry
from holdfast.conversation.log.chain import AuditBreak
from holdfast.conversation.terms import decisions
from holdfast.conversation.terms.decisions import *  # noqa: F403 - its `__all__` lists the decisions
from holdfast.errors import *  # noqa: F403 - `__all__` lists those of a client
from holdfast.lazy import lazily
from holdfast.persistence import ConversationRow, Pause

from .agents import AgentRow, ToolRow
from .async_client import AsyncClient
from .audit import AuditReport
from .cautions import AppDiffersWarning, DurabilityWarning
from .conversation import AsyncConversation
from .given import Given, GivenVote
from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .log_pages import MessagePage
from .results import AsyncPendingCall, ConversationState, Event, LateResult, Page, PendingCall, RunningCall
from .rule_check import RuleCheck
from .turns import Message, MessageStatus, Turn, TurnStatus, Usage

if TYPE_CHECKING:
    from .blocking import Client, Conversation

__all__ = [
    "AgentNotFound",
    "AgentRow",
    "AlreadyVoted",
    "AppDiffersWarning",
    "AppNotFound",
    "AppNotPublished",
    "AsyncClient",
    "AsyncConversation",
    "AsyncListEvent",
    "AsyncPendingCall",
    "AuditBreak",
    "AuditEntry",
    "AuditReport",
    "BatchRefused",
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
    "DurabilityWarning",
    "Event",
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
    "QuotaUsedUp",
    "Receipt",
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
    "Target",
    "ToolRow",
    "Turn",
    "TurnNotFound",
    "TurnStatus",
    "Usage",
    "WrongCluster",
    "WrongStore",
]

__all__ += decisions.__all__


__getattr__ = lazily(__name__, {"blocking": ("Client", "Conversation")})  # `holdfast pending` counts milliseconds
