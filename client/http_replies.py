"""The replies of a server, checked and turned into the objects that a client returns."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.conversation import Event, Receipt, Receipts
from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.live import LIVE_EVENTS, LiveEvent
from holdfast.errors import HoldfastError, InvalidInput, ServerRefused

from .audit import AuditReport
from .http_answers import UNREADABLE, told
from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .replies import AuditReply
from .results import ConversationState, Page, PendingCall
from .results import Event as ClientEvent
from .verb import Verb

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
    except ValidationError as error:
        raise _unreadable(_first(error)) from None
    except InvalidInput as error:  # a value that checks itself, such as a question
        raise _unreadable(str(error)) from None


def _first(error: ValidationError) -> str:
    """The first validation error, without the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}{': ' if place else ''}{first['msg']}"


def _unreadable(why: str) -> ServerRefused:
    said = f"this release cannot read its reply ({why[:300]}): install the same release here"
    return ServerRefused(200, UNREADABLE, said)
