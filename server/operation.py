"""One operation of the API: a method on a path, what it takes, and what it replies."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel
from starlette.datastructures import Headers

from holdfast.client import AsyncClient
from holdfast.client.access import AccessScope
from holdfast.client.figures import Figures
from holdfast.client.proving import acting_for
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
    """One request, checked: who sends it, the parts of its path, its query and body as their models, its idempotency key.

    `root` is the path under which the application is mounted. `known` gives the caller where nobody is asked who they are, for
    what only some are told: None of whoever does not say who they are, or says so in vain.
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
        """The client that carries it out for the caller."""
        return acting_for(self.serving.client, self.caller.principal)


def of_note(limits: Limits) -> int:
    """The room of a note: a reason, a comment."""
    return limits.note_bytes


def of_message(limits: Limits) -> int:
    """The room of a message."""
    return limits.message_bytes


def of_decision(limits: Limits) -> int:
    """The room of a decision: an answer or edited arguments, and the reason."""
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
        reply: The type of what it replies, in whose schema it is described; None for a stream or text.
        query: The model of its query.
        body: The model of its body.
        room: How many bytes the values in its body may have together.
        key: The name of the idempotency key, as a field of the body and as a parameter of the client.
        status: The status of a reply.
        streams: Whether it replies with an event stream, or may.
        scope: What a caller must be allowed for it; None: anybody may, and nobody is asked who they are.
        also: What a caller must be allowed besides, where it does what another scope is for, too.
        text: Whether it replies with plain text.
        last: The pattern of the `id` of an event, if it streams some.
        endless: Whether its stream never comes to an end by itself.
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
        """Refuse a caller who may not do this.

        Raises:
            Refusal: The caller lacks a scope, or is a page, and this is not for pages.
        """
        if self.name not in page_view.OPERATIONS:
            caller.check_whole()
        for scope in self.scopes:
            caller.check_scope(scope)

    @property
    def scopes(self) -> tuple[AccessScope, ...]:
        """All that a caller must be allowed."""
        return () if self.scope is None else (self.scope, *self.also)
