"""The problem document (RFC 9457) of each error, and the response with it; `holdfast.error_codes` has the table of statuses."""

import math
import time
from typing import Any

from starlette.responses import Response

from holdfast import errors
from holdfast.error_codes import code_of
from holdfast.errors import HoldfastError
from holdfast.redaction import PLAIN

from .refusal import Refusal
from .rendering import as_json

MEDIA_TYPE = "application/problem+json"

RETRY_S = 1
"""Seconds to wait after a temporary error that names no time."""
GONE = frozenset({errors.LinkProblem.EXPIRED, errors.LinkProblem.USED, errors.LinkProblem.SETTLED})
"""The problems of links that no other link of the same call repairs."""
SAFE_TO_REPEAT = "It is safe to repeat the request with the same Idempotency-Key"


def problem_of(error: HoldfastError) -> dict[str, Any]:
    """The problem document of an error, without secrets."""
    if isinstance(error, Refusal):
        return {**_problem(error.code, error.code, error.status, str(error)), **error.fields}
    fields = {name: PLAIN.within(value) for name, value in vars(error).items() if not name.startswith("_")}
    if isinstance(error, errors.BatchRefused):
        fields["errors"] = [{"suspension_id": name, **problem_of(one)} for name, one in error.errors.items()]
    detail = PLAIN.redacted(str(error))
    if isinstance(error, errors.OutcomeUnknown):
        detail = f"{detail}. {SAFE_TO_REPEAT} ({PLAIN.redacted(error.retry_id)})"
    gone = isinstance(error, errors.InvalidLink) and error.reason in GONE
    return {**fields, **_problem(code_of(type(error)), type(error).__name__, 410 if gone else error.http_code, detail)}


def unexpected() -> dict[str, Any]:
    """The problem document of a bug in the server; it reveals nothing, the log does."""
    return _problem("internal", "InternalError", 500, "the server failed; its log says how")


def response_of(error: HoldfastError) -> Response:
    """The response for an error."""
    headers = error.headers if isinstance(error, Refusal) else headers_of(error)
    problem = problem_of(error)
    return Response(as_json(problem), status_code=problem["status"], media_type=MEDIA_TYPE, headers=headers)


def headers_of(error: HoldfastError) -> dict[str, str]:
    """The response headers for an error of Holdfast: when to retry."""
    if isinstance(error, errors.Overloaded | errors.LeaseHeld):
        return {"Retry-After": str(max(math.ceil(error.retry_after_ms / 1000), 1))}
    if isinstance(error, errors.QuotaUsedUp):
        return {"Retry-After": str(max(math.ceil(error.until / 1000 - time.time()), 1))}
    of_store, of_cluster = errors.Fenced | errors.StoreUnavailable, errors.ClusterUnavailable | errors.ClusterStopped
    passing = of_store | of_cluster | errors.QueueFull | errors.TooManyClients | errors.OutcomeUnknown
    return {"Retry-After": str(RETRY_S)} if isinstance(error, passing) else {}


def _problem(code: str, title: str, status: int, detail: str) -> dict[str, Any]:
    return {"type": f"urn:holdfast:error:{code}", "code": code, "title": title, "status": status, "detail": detail}
