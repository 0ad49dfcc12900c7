"""The replies of a server, checked, as the objects that a client returns."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.conversation import Cancelled, Event, Grant, Receipt, Status
from holdfast.conversation.events import EVENTS
from holdfast.conversation.live import LIVE_EVENTS, LiveEvent
from holdfast.conversation.state import RESTING
from holdfast.errors import HoldfastError, InvalidInput, ServerRefused
from holdfast.persistence import ConversationRow, Pause

from .agents import AgentRow
from .audit import AuditReport
from .given import Given
from .http_answers import UNREADABLE, told
from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .log_pages import MessagePage
from .replies import AuditReply, ResumedReply
from .results import ConversationState, Page, PendingCall
from .results import Event as ClientEvent
from .rule_check import RuleCheck
from .turns import Message, Turn

_T = TypeVar("_T")
_R = TypeVar("_R")
_M = TypeVar("_M", bound=BaseModel)

_RECORDED: Mapping[str, type[Any]] = {kind.model_fields["kind"].default: kind for kind in EVENTS}
_LIVE: Mapping[str, type[Any]] = {kind.model_fields["kind"].default: kind for kind in LIVE_EVENTS}


_FLAGS = TypeAdapter(dict[str, bool])
_SEQ = TypeAdapter(int)
_PLACE: TypeAdapter[int | None] = TypeAdapter(int | None)


class _ListEvent(BaseModel):
    """An event of the lists as a server sends it."""

    kind: ListEventKind
    at: int | None
    conversation_id: str
    agent: str
    seq: int
    data: dict[str, Any]


class _Decided(BaseModel):
    """What one of several decisions led to."""

    status: int
    receipt: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read(kind: type[_T]) -> Callable[[Any], _T]:
    """What reads a reply as a value of this type; what a later server says beyond it is left out."""
    return lambda reply: _checked(_adapter(cast("Any", kind)), reply)


page, row, given = read(Page[Any]), read(ConversationRow), read(Given)
messages, turn, message = read(MessagePage), read(Turn), read(Message)
agent, rule_check, pause = read(AgentRow), read(RuleCheck), read(Pause)


def receipt(reply: Any) -> Receipt:
    """The receipt; the idempotency key beside it is the caller's own."""
    return _record(Receipt, reply)


def receipts(reply: Any, count: int) -> list[Receipt]:
    """The receipts of so many decisions, in the order given."""
    return [receipt(one) for one in _as_many(reply, count)]


def decided(reply: Any, count: int) -> list[Receipt | HoldfastError]:
    """The receipts of so many decisions, or the errors that say why they were not taken, in the order given."""
    found: list[Receipt | HoldfastError] = []
    for one in _as_many(reply, count):
        outcome = read(_Decided)(one)
        found.append(receipt(outcome.receipt) if outcome.problem is None else told(outcome.problem, outcome.status))
    return found


def _as_many(reply: Any, count: int) -> list[Any]:
    items = page(reply).items
    if len(items) != count:
        raise _unreadable(f"it has {len(items)} results for {count} decisions")
    return items


def cancelled(reply: Any) -> Cancelled:
    """What was cancelled."""
    return _record(Cancelled, reply)


def grant(reply: Any) -> Grant:
    """The grant."""
    return _record(Grant, reply)


def audit(reply: Any) -> tuple[AuditReport, int | None]:
    """A part of an audit's entries with the verdict on the whole, and the place after which the next part begins."""
    found = read(AuditReply)(reply)
    return AuditReport(found.conversation_id, found.items, found.head, found.breaks), found.next


def lifted(reply: Any) -> bool:
    """Whether a quarantine was lifted."""
    return _checked(_FLAGS, reply).get("lifted", False)


def resumed(reply: Any) -> Pause | None:
    """The pause that was lifted, if one stood."""
    return read(ResumedReply)(reply).resumed


def pending_call(reply: Any, resolve: Callable[..., _R]) -> PendingCall[_R]:
    """The pending call, which `resolve` decides."""
    return PendingCall.of(read(PendingCall)(reply), resolve)


def state(reply: Any, resolve: Callable[..., Awaitable[Receipt]]) -> ConversationState[Awaitable[Receipt]]:
    """The state of a conversation, whose pending calls `resolve` decides."""
    found: ConversationState[Any] = read(ConversationState)(reply)
    pending = [PendingCall.of(call, resolve) for call in found.pending]
    return found.model_copy(update={"pending": pending})


def rests(state: ConversationState[Any], after: int | None) -> bool:
    """Whether a state is one that `wait` returns: at rest beyond the place `after`, or in quarantine."""
    if state.status is Status.QUARANTINED:
        return True
    return state.status in RESTING and (after is None or state.seq > after or state.status is Status.ENDED)


def place(data: Mapping[str, Any]) -> int | None:
    """The place in the log of the event in a frame; None for a live one."""
    return _checked(_PLACE, data.get("seq"))


def event(data: Mapping[str, Any]) -> ClientEvent | None:
    """The event in a frame of a stream: the fields of its body, and beside them its place and whether it is live.

    A newer server may send more than this release knows: fields are left out then, and None is an event of an unknown kind.
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
    return ClientEvent.recorded(_checked(_SEQ, data.get("seq")), recorded, arguments=arguments)


def list_event(data: Mapping[str, Any], resolve: Callable[..., Awaitable[Receipt]]) -> AsyncListEvent:
    """The event of the lists in a frame of a stream, without its cursor; its call, if it has one, is decided by `resolve`."""
    found = read(_ListEvent)(data)
    call = pending_call(found.data, resolve) if found.kind in {ListEventKind.PENDING, ListEventKind.NOTED} else None
    return ListEvent(**dict(found), call=call)


def _record(kind: type[_M], reply: Any) -> _M:
    """A record made of those fields of a reply that it has: a later server may say more."""
    fields = {name: value for name, value in reply.items() if name in kind.model_fields} if isinstance(reply, dict) else reply
    return _made(kind, fields)


def _made(kind: type[_M], fields: Any) -> _M:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise _unreadable(_first(error)) from None
    except InvalidInput as error:  # a value that checks itself, such as a question
        raise _unreadable(str(error)) from None


def _checked(adapter: TypeAdapter[_T], reply: Any) -> _T:
    try:
        return adapter.validate_python(reply)
    except ValidationError as error:
        raise _unreadable(_first(error)) from None


def _first(error: ValidationError) -> str:
    """The first mistake of several, without the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}{': ' if place else ''}{first['msg']}"


def _unreadable(why: str) -> ServerRefused:
    said = f"its reply is none that this release reads ({why[:300]}): install the same release here"
    return ServerRefused(200, UNREADABLE, said)
