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

from typing import TYPE_CHECKING, Any

import holdfast

_OF_APPS = (
    *("Agent", "App", "Approvers", "Breaker", "Budget", "ClusterError", "Compact", "Context", "CorruptStore", "Escalate"),
    *("Email", "Fenced", "HomeUnusable", "LeaseHeld", "Limits", "Model", "NewerRecord", "Notice", "NoticeKind", "Notify"),
    *("Report", "Retain", "Rule", "Rules", "Slack", "Stop", "Suspend", "Tool", "ToolContext", "TurnContext", "TurnStats"),
    *("Unattended", "UnattendedCall", "UnsupportedServer", "Webhook", "__version__", "ask_user_questions", "delegate", "tool"),
)
"""Names of `holdfast` that only apps and processes of Holdfast need."""

if TYPE_CHECKING:
    from holdfast import *  # noqa: F403 - `__all__` lists the names
else:
    __all__ = [name for name in holdfast.__all__ if name not in _OF_APPS]

    def __getattr__(name: str) -> Any:
        """A name of `holdfast`, which imports it at its first use."""
        if name not in __all__:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(holdfast, name)
