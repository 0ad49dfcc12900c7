"""Endpoints: the operations of the API and the pages, their checked input, and what all endpoints of a server share."""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.client import AsyncClient, AsyncConversation, Event
from holdfast.client.access import AccessScope
from holdfast.client.async_client import acting_for
from holdfast.client.figures import Figures
from holdfast.client.operation import Verb
from holdfast.conversation import Limits
from holdfast.counting import Counts

from .authentication import Authentication
from .authenticators import Authenticator
from .bounds import Bounds
from .caller import Caller
from .callers import REQUEST_BYTES, Callers
from .intake import Intake, Room
from .reach import Reach
from .readiness import Readiness
from .slots import Slots
from .streams import Draining, Streams
from .tickets import Tickets


class Serving:
    """What all operations and pages of one server share."""

    def __init__(
        self, client: AsyncClient, bounds: Bounds, authentication: Authentication, authenticators: Sequence[Authenticator]
    ) -> None:
        self.client = client
        self.bounds = bounds
        self.draining = Draining()
        self.streams = Streams(bounds, self.draining)
        self.requests = Slots(bounds.requests, code="too_many_requests", what="requests", retry_s=1)
        self.intake = Intake(client.access, bounds)
        self.tickets = Tickets(client.access)
        self.callers = Callers(client, authentication, self.tickets, bounds, authenticators)
        self.reach = Reach(client)
        self.figures = Figures(client)
        self.readiness = Readiness(client)
        self.counts = Counts()

    async def read(self, request: Request, caller: Caller, room: Room) -> bytes:
        """The bytes of a request's body, for which its caller is charged."""
        raw = await self.intake.read(request, room)
        self.callers.charge(caller, len(raw) // REQUEST_BYTES)
        return raw


@dataclass(frozen=True, slots=True)
class Checked:
    """One checked request: its caller, the path under which the application is mounted, the parts of its path, its query."""

    serving: Serving
    caller: Caller
    root: str
    path: Mapping[str, str]
    headers: Headers
    query: Any

    @property
    def client(self) -> AsyncClient:
        """The client, acting for the caller."""
        return acting_for(self.serving.client, self.caller.principal)

    @property
    def conversation(self) -> AsyncConversation:
        """The conversation that the path names, for the client."""
        return self.client.conversation(self.path["conversation_id"])

    async def follow(
        self,
        after: int,
        *,
        live: bool = True,
        framed: Callable[[Event], bytes] | None = None,
        events: AsyncGenerator[Event, None] | None = None,
        last: str | None = None,
    ) -> Response:
        """The events of the conversation as a stream. 204 tells a browser that nothing follows any more.

        `events` are those to stream, and `last` is the cursor before them; by default the conversation's own after `after`.
        """
        conversation, streams = self.conversation, self.serving.streams
        found = await conversation.state()
        if found.status == "ended" and after >= found.seq:
            return Response(status_code=204)
        streams.check_room(self.caller)  # no await from here until the stream has its place
        events = conversation.events(after=after, live=live) if events is None else events
        return streams.of(events, after=last or after, framed=framed, caller=self.caller)


@dataclass(frozen=True, slots=True)
class Asked(Checked):
    """A checked request of the API: also its body as its model, and its idempotency key.

    `known` gives the caller of an operation that needs none; None if there are no valid credentials.
    """

    body: Any
    key: str | None
    known: Callable[[], Awaitable[Caller | None]]


def of_message(limits: Limits) -> int:
    """The bytes that a message may have."""
    return limits.message_bytes


def of_decision(limits: Limits) -> int:
    """The bytes that a decision may have: an answer or edited arguments, and the reason."""
    return limits.result_bytes + limits.note_bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers a method on a path.

    Attributes:
        method: `GET`, `POST`, `PATCH` or `DELETE`.
        path: The path; `{name}` stands for a part.
        scope: The scope that a caller needs; None: anybody may, and the caller is not identified.
        also: Further scopes that a caller needs, if it also does what those are for.
        instead: A scope that is enough in place of these; `run` refuses what it does not allow.
        streams: Whether it answers with an event stream, always or on request.
        room: How many bytes the values in its body may have together; by default those of a note: a reason, a comment.
    """

    method: str
    path: str
    run: Callable[[Any], Awaitable[Any]]
    scope: AccessScope | None = AccessScope.READ
    query: type[BaseModel] | None = None
    streams: bool = False
    room: Room = lambda limits: limits.note_bytes
    also: tuple[AccessScope, ...] = ()
    instead: AccessScope | None = None

    @property
    def scopes(self) -> tuple[AccessScope, ...]:
        """All scopes that a caller needs."""
        return () if self.scope is None else (self.scope, *self.also)

    def check(self, caller: Caller) -> None:
        """Refuse a caller who lacks a scope, unless they have the one that is enough instead."""
        if self.instead is None or self.instead not in caller.scopes:
            self.check_scopes(caller)

    def check_scopes(self, caller: Caller) -> None:
        """Refuse a caller who lacks a scope."""
        for scope in self.scopes:
            caller.check_scope(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Endpoint):
    """One operation of the API.

    Attributes:
        name: Its name in the description of the API.
        reply: The type of its reply, for the description; a text is plain; None for a stream.
        key: The name of the idempotency key, as a field of the body and as a parameter of the client.
        last: The pattern of the `id` of an event, if it streams some that can be resumed; None: it begins anew.
        endless: Whether its stream never ends by itself.
    """

    name: str
    summary: str
    reply: Any = None
    body: type[BaseModel] | None = None
    key: str | None = None
    status: int = 200
    last: str | None = "[0-9]{1,18}"
    endless: bool = False


E = TypeVar("E", bound=Endpoint)


def routes_of(
    endpoints: Sequence[E], serving: Serving, answered: Callable[[Mapping[str, E], Serving, Request], Awaitable[Response]]
) -> Iterator[Route]:
    """One route for each path, so that the refusal of another method names all methods of the path."""
    for path in dict.fromkeys(one.path for one in endpoints):
        by_method = {one.method: one for one in endpoints if one.path == path}
        last = path
        for own in ("message_id", "request_id"):  # a caller's own id may hold slashes
            last = last.replace(f"/{{{own}}}", f"/{{{own}:path}}")
        route = Route(last, partial(answered, by_method, serving), methods=list(by_method))
        if route.methods is not None and any(one.streams for one in by_method.values()):
            route.methods.discard("HEAD")  # the head of an endless stream would never end
        yield route


def of(
    verb: Verb[Any],
    does: Callable[[Asked], Awaitable[Any]] | str,
    *,
    check: Callable[[Asked], None] | None = None,
    reply: Any = ...,
    summary: str = "",
    **more: Any,
) -> Operation:
    """The operation for a verb of the client, which gives the path, the scopes, the idempotency key and the reply.

    `does` is the function that answers; the first line of its docstring is the default `summary`. Or `does` is the summary:
    then the client's method is called with the request's values. `check` may refuse the request before that. `reply` is the
    type of the reply, if it differs from that of the method; `more` are further fields of `Operation`.
    """
    kind = verb.reply if reply is ... else reply
    doing = partial(_carried_out, verb, kind) if isinstance(does, str) else does
    doing = doing if check is None else partial(_checked, check, doing)
    summary = summary or (does if isinstance(does, str) else (does.__doc__ or "").partition("\n")[0])
    known: dict[str, Any] = {"name": verb.operation, "key": verb.key, "reply": kind, "summary": summary}
    known |= {"also": verb.also, "instead": verb.instead}
    return Operation(verb.method, verb.path, doing, verb.scope, **known | more)


async def _checked(check: Callable[[Asked], None], doing: Callable[[Asked], Awaitable[Any]], asked: Asked) -> Any:
    check(asked)
    return await doing(asked)


async def _carried_out(verb: Verb[Any], kind: Any, asked: Asked) -> Any:
    """Call the client's method, and give its result as the reply of the operation."""
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
