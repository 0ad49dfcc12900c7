"""Errors as HTTP says them: the status and code of each, and the error that a problem document (RFC 9457) stands for.

The server writes problem documents by this table and the client over HTTP reads them by it, so that both name the same errors.
"""

import inspect
import re
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

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
    StoreError,
    StoreUnavailable,
    TurnNotFound,
    UnsupportedServer,
    WrongCluster,
    WrongStore,
)

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

STATUSES: Mapping[type[HoldfastError], int] = {
    # what the caller can correct
    InvalidInput: 422,
    InvalidConversationId: 422,
    InvalidMessage: 422,
    InvalidDecision: 422,
    AgentNotFound: 422,
    ConversationNotFound: 404,
    TurnNotFound: 404,
    MessageNotFound: 404,
    ConversationExists: 409,
    ConversationEnded: 409,
    StaleCall: 409,
    AlreadyVoted: 409,
    NotPermitted: 403,
    BatchRefused: 409,
    Quarantined: 409,
    # what goes through later
    QueueFull: 429,
    QuotaUsedUp: 429,
    Overloaded: 429,
    LeaseHeld: 503,
    Fenced: 503,
    OutcomeUnknown: 504,
    StoreUnavailable: 503,
    ServerUnavailable: 503,
    ClusterUnavailable: 503,
    ClusterStopped: 503,
    # what an operator has to see to
    AppNotPublished: 503,
    OlderRelease: 503,
    OtherBuild: 503,
    WrongStore: 503,
    WrongCluster: 503,
    NewerRecord: 503,
    CipherMissing: 503,
    CipherFailed: 503,
    StoreError: 503,
    ClusterError: 503,
    ConfigurationError: 500,
    AppNotFound: 500,
    HomeUnusable: 500,
    InvalidRule: 500,
    UnsupportedServer: 500,
    CorruptStore: 500,
    ServerRefused: 502,
    HoldfastError: 500,
}
"""The status of each error. Every exported error stands here by its own name; one that a caller defines has its base's."""


def code_of(error: type[HoldfastError]) -> str:
    """The code of an error: its class's name in small letters (`stale_call`)."""
    return _WORD.sub("_", error.__name__).lower()


def status_of(error: HoldfastError) -> int:
    """The status of an error, by its own class or the nearest base in the table."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def error_of(problem: Mapping[str, Any]) -> HoldfastError | None:
    """The error that a problem document stands for, with its fields; None if this release knows no such code or fields."""
    kind = _kinds().get(str(problem.get("code")))
    if kind is None:
        return None
    if kind is BatchRefused:
        return _batch_refused(problem)
    fields = _fields(kind)
    if not fields:
        return kind(str(problem.get("detail", "")))
    try:
        return kind(*(taken.validate_python(problem.get(name)) for name, taken in fields.items()))
    except ValidationError:
        return None


def _batch_refused(problem: Mapping[str, Any]) -> BatchRefused | None:
    """The refusal of several decisions: `errors` lists the problem of each, with the suspension that it was meant for."""
    conversation_id, listed = problem.get("conversation_id"), problem.get("errors")
    if not isinstance(conversation_id, str) or not isinstance(listed, list):
        return None
    errors: dict[str, HoldfastError] = {}
    for one in listed:
        if not isinstance(one, Mapping) or not isinstance(one.get("suspension_id"), str):
            return None
        error = error_of(one) if one.get("code") != code_of(BatchRefused) else None
        if error is None:
            return None
        errors[one["suspension_id"]] = error
    return BatchRefused(conversation_id, errors)


@cache
def _kinds() -> dict[str, type[HoldfastError]]:
    return {code_of(kind): kind for kind in STATUSES}


def _fields(kind: type[HoldfastError]) -> dict[str, TypeAdapter[Any]]:
    """What an error is made of, in the order of its constructor; nothing for an error that takes a text alone."""
    if kind.__init__ is HoldfastError.__init__:
        return {}
    hints = typing.get_type_hints(kind.__init__)
    return {name: TypeAdapter(hints[name]) for name in inspect.signature(kind).parameters}
