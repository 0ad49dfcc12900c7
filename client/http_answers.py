"""What a server's answer says: a value, or the error of its problem document."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.conversation.text import jsontext
from holdfast.error_codes import error_of
from holdfast.errors import HoldfastError, InvalidInput, ServerRefused

JSON = "application/json"
PROBLEM = "application/problem+json"
NO_CONTENT = 204
UNREADABLE = "unreadable"
LATER = frozenset({429, 503})
"""Statuses of a temporary refusal by Holdfast, which did nothing. With `Retry-After`, the request may succeed later."""
ENVELOPE = 10
"""How many levels of a reply enclose the JSON of users, which has its own bound."""
MAX_VALUES = 8 * jsontext.MAX_VALUES
"""The most values in a reply, which may hold several JSON values of users, each with its own bound."""
OF_GATEWAYS = frozenset({429, 502, 503, 504})
"""Status codes of a proxy that cannot reach the server."""
INPUTS = frozenset({"invalid_request", "not_json", "body_too_large", "query_too_long", "unsupported_media_type"})
"""Codes of requests that the server could not read."""
LONGEST_PAUSE_S = 3600
WHY_LENGTH = 500
TEXT_LENGTH, MOST_ITEMS = 2_000, 1_000
"""The most characters of a text, and values of a list (as many as a request may decide), that an error takes from a problem."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read whole; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The media type of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after_s(self) -> float:
        """After how many seconds the server asks for the next try; 0 if it does not say, or names a date."""
        said = self.headers.get("retry-after", "").strip()
        return min(int(said), LONGEST_PAUSE_S) if said.isdecimal() and said.isascii() and len(said) < 10 else 0.0  # noqa: PLR2004

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        if self.media_type == PROBLEM:
            return self.status in LATER and "retry-after" in self.headers and error_of(problem_in(self)) is None
        return self.status in OF_GATEWAYS

    def value(self) -> Any:
        """The JSON value of the answer; None if it has no content.

        Raises:
            HoldfastError: The error that the server raised.
            ServerRefused: The server refused the request for a reason of its own, or the answer is not from Holdfast.
        """
        if self.status == NO_CONTENT:
            return None
        if not 200 <= self.status < 300:  # noqa: PLR2004 - the class of these statuses
            raise self.error()
        if self.media_type != JSON:
            raise self._unreadable(f"it is {jsontext.clean(self.media_type)[:80] or 'of no media type'}")
        try:
            return loads(self.body.decode("utf-8"))
        except (UnicodeDecodeError, jsontext.NotJson) as error:
            raise self._unreadable(str(error)) from error

    def error(self) -> HoldfastError:
        """The error that the answer stands for."""
        if self.media_type == PROBLEM:
            return told(problem_in(self), self.status)
        if 300 <= self.status < 400:  # noqa: PLR2004 - the class of these statuses
            return ServerRefused(self.status, "redirected", "redirects are not followed: give the url of the server itself")
        return self._unreadable("it is no problem document")

    def _unreadable(self, why: str) -> ServerRefused:
        said = f"the answer is not from a Holdfast of this release ({why}): look at the url"
        return ServerRefused(self.status, UNREADABLE, jsontext.clean(said)[:WHY_LENGTH])


def loads(text: str) -> Any:
    """The value of a reply's JSON text, whose content the server checked when it took it in.

    Raises:
        NotJson: The text is no JSON, is nested too deeply, or holds too many values.
    """
    if jsontext.depth(text) > jsontext.MAX_DEPTH + ENVELOPE:
        raise jsontext.NotJson("it is nested too deeply")
    if text.count("[") + text.count("{") + text.count(",") > MAX_VALUES:
        raise jsontext.NotJson("it holds too many values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise jsontext.NotJson(f"{error!s:.200}") from error


def problem_in(answer: Answer) -> Mapping[str, Any]:
    """The problem document of an answer; empty if it cannot be read."""
    try:
        found = loads(answer.body.decode("utf-8"))
    except (UnicodeDecodeError, jsontext.NotJson):
        return {}
    return found if isinstance(found, dict) else {}


def told(problem: Mapping[str, Any], status: int) -> HoldfastError:
    """The error that a problem document stands for; `ServerRefused` if this release knows none."""
    problem = {name: _short(value) for name, value in problem.items()}
    known = error_of(problem)
    if known is not None:
        return known
    code, detail = str(problem.get("code", UNREADABLE)), jsontext.clean(str(problem.get("detail", "")))[:WHY_LENGTH]
    if code in INPUTS:
        errors = problem.get("errors")
        first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
        field, why = str(first.get("field") or "request"), str(first.get("problem") or detail)
        return InvalidInput(field, why, "correct it; the server has changed nothing")
    return ServerRefused(status, jsontext.clean(code)[:80], detail)


def _short(value: Any) -> Any:
    """A value of a problem document, cut to what a person would read: logs keep the error as a whole."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_LENGTH else f"{value[: TEXT_LENGTH - 1]}…"
    if isinstance(value, list):
        return [_short(one) for one in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in list(value.items())[:MOST_ITEMS]}
    return value
