"""One operation of the API: a method on a path, its input and its reply."""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from pydantic import BaseModel
from starlette.datastructures import Headers

from holdfast.client import AsyncClient
from holdfast.client.access import AccessScope
from holdfast.client.figures import Figures
from holdfast.client.proving import acting_for
from holdfast.client.verb import Verb
from holdfast.conversation import Limits
from holdfast.counting import Counts

from . import page_view
from .bounds import Bounds
from .caller import Caller
from .callers import Callers
from .draining import Draining
from .intake import Intake, Room
from .reach import Reach
from .readiness import Readiness
from .sessions import Sessions
from .slots import Slots
from .streams import Streams
from .tickets import Tickets


@dataclass(frozen=True, slots=True)
class Serving:
    """What all operations of one server share."""

    client: AsyncClient
    bounds: Bounds
    draining: Draining
    streams: Streams
    requests: Slots
    intake: Intake
    callers: Callers
    reach: Reach
    sessions: Sessions
    tickets: Tickets
    figures: Figures
    readiness: Readiness
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class Asked:
    """One checked request: its caller, the parts of its path, its query and body as their models, its idempotency key.

    `root` is the path under which the application is mounted. `known` gives the caller of an operation that needs none; None if
    there are no valid credentials.
    """

    serving: Serving
    caller: Caller
    root: str
    path: Mapping[str, str]
    headers: Headers
    query: Any
    body: Any
    key: str | None
    known: Callable[[], Awaitable[Caller | None]]

    @property
    def client(self) -> AsyncClient:
        """The client, acting for the caller."""
        return acting_for(self.serving.client, self.caller.principal)


def of_note(limits: Limits) -> int:
    """The bytes that a note may have: a reason, a comment."""
    return limits.note_bytes


def of_message(limits: Limits) -> int:
    """The bytes that a message may have."""
    return limits.message_bytes


def of_decision(limits: Limits) -> int:
    """The bytes that a decision may have: an answer or edited arguments, and the reason."""
    return limits.result_bytes + limits.note_bytes


Run: TypeAlias = Callable[[Asked], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        method: `GET`, `POST` or `DELETE`.
        path: The path; `{name}` stands for a part.
        name: The operation's name in the description of the API.
        summary: What it does, in a line.
        run: The function that does it.
        reply: The type of its reply, for the description; None for a stream or text.
        query: The model of its query.
        body: The model of its body.
        room: How many bytes the values in its body may have together.
        key: The name of the idempotency key, as a field of the body and as a parameter of the client.
        status: The HTTP status of a reply.
        streams: Whether it replies with an event stream, always or on request.
        scope: The scope that a caller needs; None: anybody may, and the caller is not identified.
        also: Further scopes that a caller needs, if it also does what those are for.
        text: Whether it replies with plain text.
        last: The pattern of the `id` of an event, if it streams some.
        endless: Whether its stream never ends by itself.
    """

    method: str
    path: str
    name: str
    summary: str
    run: Run
    reply: Any = None
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    room: Room = of_note
    key: str | None = None
    status: int = 200
    streams: bool = False
    text: bool = False
    last: str = "[0-9]{1,18}"
    endless: bool = False
    scope: AccessScope | None = field(kw_only=True)
    also: tuple[AccessScope, ...] = ()

    def check(self, caller: Caller) -> None:
        """Refuse a caller who lacks a scope, or a page if this is not for pages."""
        if self.name not in page_view.OPERATIONS:
            caller.check_whole()
        for scope in self.scopes:
            caller.check_scope(scope)

    @property
    def scopes(self) -> tuple[AccessScope, ...]:
        """All scopes that a caller needs."""
        return () if self.scope is None else (self.scope, *self.also)


def of(
    verb: Verb[Any],
    summary: str,
    run: Run | None = None,
    *,
    check: Callable[[Asked], None] | None = None,
    reply: Any = ...,
    **more: Any,
) -> Operation:
    """The operation for a verb of the client, which gives the path, the scopes, the idempotency key and the reply.

    Args:
        verb: The verb.
        summary: What it does, in a line.
        run: The function that does it; by default the client's method is called with the request's values.
        check: Refuses a caller before the method is called.
        reply: The type of the reply, if it differs from that of the client's method.
        more: Further fields of `Operation`.
    """
    kind = verb.reply if reply is ... else reply
    doing = run or partial(_carried_out, verb, kind, check)
    known: dict[str, Any] = {"key": verb.key, "scope": verb.scope, "also": verb.also}
    return Operation(verb.method, verb.path, verb.operation, summary, doing, kind, **known | more)


async def _carried_out(verb: Verb[Any], kind: Any, check: Callable[[Asked], None] | None, asked: Asked) -> Any:
    """Call the client's method, and give its result as the reply of the operation."""
    if check is not None:
        check(asked)
    given = {**asked.path, **dict(asked.query or ()), **dict(asked.body or ())}
    if verb.key is not None:
        given[verb.key] = asked.key or uuid.uuid4().hex
    carrying: Any = asked.client
    if "conversation_id" in asked.path:
        carrying = carrying.conversation(given.pop("conversation_id"))
    found = await getattr(carrying, verb.name)(**given)
    if verb.key is not None:
        return kind(**dict(found), **{verb.key: given[verb.key]})
    if verb.under is not None:
        return kind(**{verb.under: found})
    if isinstance(found, list):
        found = {"items": found}
    return found if kind is verb.reply else kind.model_validate(found, from_attributes=True)
