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

# ruff: noqa: F405 - the door says where each name is from

from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.conversation.terms import decisions

if TYPE_CHECKING:
    from holdfast import *  # noqa: F403 - `__all__` lists those of a client

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


def __getattr__(name: str) -> Any:
    """A name of the door, which imports it at its first use."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(holdfast, name)
