"""The answers of a server, checked and turned into the objects that a client returns, or the errors that they stand for."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.conversation import Event, Receipt, Receipts
from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.live import LIVE_EVENTS, LiveEvent
from holdfast.conversation.text import jsontext
from holdfast.error_codes import error_of
from holdfast.errors import HoldfastError, InvalidInput, ServerRefused

from .audit import AuditReport
from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .operation import Verb
from .replies import AuditReply
from .results import ConversationState, Page, PendingCall
from .results import Event as ClientEvent

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
        """The JSON value of the answer, None if it has no content; raises `error`, and `ServerRefused` if it is unreadable."""
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
    """The value of a reply's JSON text; `NotJson` if it is none, is nested too deeply, or holds too many values."""
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


_T = TypeVar("_T")
_R = TypeVar("_R")

_RECORDED: Mapping[str, type[Any]] = {kind.model_fields["kind"].default: kind for kind in EVENTS}
_LIVE: Mapping[str, type[Any]] = {kind.model_fields["kind"].default: kind for kind in LIVE_EVENTS}


class _ListEvent(BaseModel):
    kind: ListEventKind
    at: int | None
    conversation_id: str
    agent: str
    seq: int
    data: dict[str, Any]


class _Decided(BaseModel):
    status: int
    receipt: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_as(verb: Verb[_R], resolve: Callable[..., Awaitable[Receipt]], reply: Any) -> _R:
    """The reply to an operation, as its row says; pending calls in it are decided by `resolve`."""
    kind: Any = verb.reply
    found: Any
    if verb.under is not None:
        found = _checked(dict[str, kind | None], reply).get(verb.under)
        return bool(found) if kind is bool else found  # type: ignore[return-value] # what is not lifted may be left out
    if get_origin(kind) is list:
        found = [_record(get_args(kind)[0], one) for one in _checked(Page[Any], reply).items]
    else:
        found = _record(kind, reply)
    return _bound(found, resolve)  # type: ignore[no-any-return] # of the kind that the row says


def _bound(found: Any, resolve: Callable[..., Awaitable[Receipt]]) -> Any:
    match found:
        case PendingCall():
            return PendingCall.of(found, resolve)
        case ConversationState():
            return found.model_copy(update={"pending": [PendingCall.of(call, resolve) for call in found.pending]})
        case Page():
            return found.model_copy(update={"items": [_bound(one, resolve) for one in found.items]})
    return found


def receipts(reply: Any, count: int) -> Receipts:
    """The receipts of `count` decisions, in the order given."""
    return Receipts(receipts=tuple(_record(Receipt, one) for one in _as_many(reply, count)))


def decided(reply: Any, count: int) -> list[Receipt | HoldfastError]:
    """For each of `count` decisions, in the order given: its receipt, or the error that says why it was not taken."""
    found: list[Receipt | HoldfastError] = []
    for one in _as_many(reply, count):
        outcome = _record(_Decided, one)
        found.append(_record(Receipt, outcome.receipt) if outcome.problem is None else told(outcome.problem, outcome.status))
    return found


def _as_many(reply: Any, count: int) -> list[Any]:
    items: list[Any] = _checked(Page[Any], reply).items
    if len(items) != count:
        raise _unreadable(f"it has {len(items)} results for {count} decisions")
    return items


def audit(reply: Any) -> tuple[AuditReport, int | None]:
    """One part of an audit (its entries, and the verdict on the whole), and the `after` of the next part."""
    found = _record(AuditReply, reply)
    return AuditReport(found.conversation_id, found.items, found.head, found.breaks), found.next


def place(data: Mapping[str, Any]) -> int | None:
    """The place in the log of the event in a frame; None for a live one."""
    seq: int | None = _checked(int | None, data.get("seq"))
    return seq


def event(data: Mapping[str, Any]) -> ClientEvent | None:
    """The event in a frame of a stream.

    A newer server may send more than this release knows: unknown fields are left out, an unknown kind gives None.
    """
    fields, kind, live = dict(data), str(data.get("kind")), bool(data.get("live", False))
    model = (_LIVE if live else _RECORDED).get(kind)
    if model is None:
        if not isinstance(data.get("kind"), str) or live != (place(data) is None):
            raise _unreadable("a frame of a stream is no event")
        return None
    if live:
        body: LiveEvent = _record(model, fields)
        return ClientEvent.live(body)
    arguments = fields.pop("arguments", None) if kind == "call_suspended" else None
    recorded: Event = _record(model, fields)
    return ClientEvent.recorded(_checked(int, data.get("seq")), recorded, arguments=arguments)


def list_event(data: Mapping[str, Any], resolve: Callable[..., Awaitable[Receipt]]) -> AsyncListEvent:
    """The event of the lists in a frame, without its cursor; its call, if it has one, is decided by `resolve`."""
    found = _record(_ListEvent, data)
    tells = found.kind in {ListEventKind.PENDING, ListEventKind.NOTED}
    call = PendingCall.of(_record(PendingCall, found.data), resolve) if tells else None
    return ListEvent(**dict(found), call=call)


def _record(kind: type[_T], reply: Any) -> _T:
    """A record made of the known fields of a reply: a later server may send more."""
    known = kind.model_fields if issubclass(kind, BaseModel) else None
    fields = {name: reply[name] for name in reply if name in known} if isinstance(reply, dict) and known else reply
    found: _T = _checked(kind, fields)
    return found


def _checked(kind: Any, reply: Any) -> Any:
    try:
        return _adapter(kind).validate_python(reply)
    except ValidationError as error:  # its text would hold the value
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _unreadable(f"{place}{': ' if place else ''}{first['msg']}") from None
    except InvalidInput as error:  # a value that checks itself, such as a question
        raise _unreadable(str(error)) from None


def _unreadable(why: str) -> ServerRefused:
    said = f"this release cannot read its reply ({why[:300]}): install the same release here"
    return ServerRefused(200, UNREADABLE, said)
