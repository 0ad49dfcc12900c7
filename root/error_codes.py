"""Errors over HTTP: the status and code of each, and the error of a problem document (RFC 9457).

The server writes problem documents by this table, and the HTTP client reads them by it, so both name the same errors.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .errors import BatchRefused, HoldfastError

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def code_of(error: type[HoldfastError]) -> str:
    """The code of an error: its class's name in small letters (`stale_call`)."""
    return _WORD.sub("_", error.__name__).lower()


def error_of(problem: Mapping[str, Any]) -> HoldfastError | None:
    """The error of a problem document, with its fields; None if this release does not know the code or the fields."""
    kind = _kinds().get(str(problem.get("code")))
    if kind is None:
        return None
    if kind is BatchRefused:
        return _batch_refused(problem)
    if not kind.arguments:
        return kind(str(problem.get("detail", "")))
    try:
        return kind(*(TypeAdapter(taken).validate_python(problem.get(name)) for name, taken in kind.arguments.items()))
    except ValidationError:
        return None


def _batch_refused(problem: Mapping[str, Any]) -> BatchRefused | None:
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
    found, kinds = [HoldfastError], dict[str, type[HoldfastError]]()
    for kind in found:  # the list grows meanwhile
        if kind.__module__ == HoldfastError.__module__:
            kinds[code_of(kind)] = kind
        found += kind.__subclasses__()
    return kinds
