"""The bodies and queries that the routes take."""

from collections.abc import Callable, Sequence
from enum import EnumType
from inspect import signature
from typing import Annotated, Any, TypeAlias, Union, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model

from holdfast.client import AsyncClient, AsyncConversation, filters
from holdfast.client.list_events import LIST_CURSOR
from holdfast.client.operation import KEYS
from holdfast.client.outbox import OutboxState
from holdfast.client.usage import UsageBy
from holdfast.conversation.ids import CONVERSATION_ID, REQUEST_ID
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.link import LONGEST_LINK_S, MOST_CHARS
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.terms.parts import Part
from holdfast.conversation.terms.presence import MOST_TOOLS, OnDetach, ToolName

_KEY = "The idempotency key, where no header Idempotency-Key gives it."
Key: TypeAlias = Annotated[str | None, Field(description=_KEY)]
Where: TypeAlias = Annotated[
    str | None, Field(description="The suspension's conversation: finds it faster, and after it was settled.")
]
ClientId: TypeAlias = Annotated[str, Field(pattern=f"^{CONVERSATION_ID.pattern}$")]
Name: TypeAlias = Annotated[str | None, Field(max_length=200)]
_WHY = "Why; the log keeps it."
_TO = "Roles and ids (`role:cfo`), or an object with `who`, `minimum`, `not_requester` and `stated`."
_PAUSED = "The agent; by default the whole namespace."
_OF_PATHS = frozenset({"self", "call", "grant_id", "outbox_id"})
"""Arguments of the client's methods that stand in paths."""
Seq: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A position in a log."""
MOST_WAIT_S = 3600
"""The longest wait that a query may ask for; `Bounds.wait_s` shortens it."""


class Body(BaseModel):
    """A body: no unknown fields, and no type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _body(name: str, says: str, method: Callable[..., Any], **own: Any) -> type[Body]:
    """The body with the arguments of a client's method, except those in the path.

    `own` has, by argument, what is not taken from the method (None: the argument stands in the path): a
    description, a `Field` with bounds, or the type and default where JSON needs others.
    """
    kinds, taken = get_type_hints(method), dict[str, Any]()
    for one in signature(method).parameters.values():
        if one.name not in _OF_PATHS and own.get(one.name, "") is not None:
            said = own.get(one.name, _KEY if one.name in KEYS else "")
            field = Field(description=said or None) if isinstance(said, str) else said
            taken[one.name] = Annotated[_in_json(kinds[one.name]), field], ... if one.default is one.empty else one.default
    others = {name: field for name, field in own.items() if isinstance(field, tuple)}
    return create_model(name, __base__=Body, __module__=__name__, __doc__=says, **taken | others)


def _in_json(kind: Any) -> Any:
    """The type of an argument; that of a member of an enumeration accepts its value."""
    among = get_args(kind)
    if not any(isinstance(one, EnumType) for one in among):
        return kind
    return Annotated[Union[tuple(one for one in among if one is not str)], Field(strict=False)]  # noqa: UP007 - made here


def _text_of(description: str) -> Any:
    """The field of a message: the client checks it, and names the part that is wrong."""
    return Annotated[SkipValidation[str | list[Part]], Field(description=description)], ...  # type: ignore[misc]  # an alias to mypy


_OVERRIDES = (
    Annotated[
        SkipValidation[Overrides | None],  # type: ignore[misc]  # an alias to mypy; the client checks it, and names the part
        Field(description="What its turn's model calls have in place of what the agent says, as far as the agent allows."),
    ],
    None,
)
StartBody = _body(
    *("StartBody", "A conversation to start.", AsyncClient.start),
    agent="The agent's name; GET /v1/agents lists them.",
    text=_text_of("The user's first message: a text, or a list of parts."),
    conversation_id="By default derived from the message's id.",
    context="Any JSON value; tools read it, the model does not see it.",
    attended="Whether a person can be asked. If not, the agent says what is done instead. False takes the scope `unattended`.",
    overrides=_OVERRIDES,
)
_AT = "When it is queued: RFC 3339 with a zone, or integer milliseconds UTC."
_PRIORITY = "From 0 (first) to 255 (last); in order within a priority."
_ORIGIN = "Where it comes from, as its sender says."
MessageBody = _body(
    *("MessageBody", "The user's next message.", AsyncConversation.send),
    text=_text_of("A text, or a list of parts."),
    when="What it does while a turn goes on or waits.",
    at=(Annotated[int | str | None, Field(description=_AT)], None),
    priority=Field(ge=0, le=255, description=_PRIORITY),
    origin=_ORIGIN,
    overrides=_OVERRIDES,
)
InterruptBody = _body(
    *("InterruptBody", "What the conversation goes on with.", AsyncConversation.interrupt),
    text=(_text_of("A text, or a list of parts; by default it rests then.")[0], None),
    origin=_ORIGIN,
    overrides=_OVERRIDES,
)
RescheduleBody = _body(
    *("RescheduleBody", "Another time or priority for a message that waits.", AsyncConversation.reschedule),
    message_id=None,
    at=(Annotated[int | str | None, Field(description=_AT)], None),
    priority=Field(ge=0, le=255, description=_PRIORITY),
)
CancelBody = _body(
    *("CancelBody", "A turn to cancel.", AsyncConversation.cancel),
    turn_id="Cancel only if this turn is still the current one.",
    wait_s=Field(ge=0, le=60, description="Seconds to wait at most until the tools of the cancelled calls have stopped."),
)
RulesCheckBody = _body(
    *("RulesCheckBody", "A hypothetical call, to be judged by the rules.", AsyncClient.check_rules),
    agent=Field(min_length=1, max_length=200, description="The agent's name."),
    tool=Field(min_length=1, max_length=256, description="The name of one of its tools."),
    arguments="The call's arguments.",
    app=Field(min_length=1, max_length=500, description="The import path of a published app; by default the server's."),
)
CancelPendingBody = _body(
    *("CancelPendingBody", "Which pending calls to cancel.", AsyncConversation.cancel_pending),
    kind="Only calls that wait for this; by default all.",
    reason="Why; the model reads it.",
    client_id=(
        Annotated[
            ClientId | None, Field(description="Only what waits for this client of yours; takes the scope `client` alone.")
        ],
        None,
    ),
)
RevokeBody = _body("RevokeBody", "Why a grant ends.", AsyncConversation.revoke, reason=_WHY)
RevokeGivenBody = _body(
    *("RevokeGivenBody", "Whose grants and votes end, and why.", AsyncConversation.revoke_given),
    by=Field(max_length=200, description="The id of the principal who has given them."),
    proof="Only what was given by somebody proven in this way.",
    reason=_WHY,
)
AssignBody = _body(
    *("AssignBody", "Who takes a pending call on.", AsyncConversation.assign),
    to=(Annotated[Name, Field(description="Who; by default the caller. An empty text gives the call back.")], None),
    conversation_id=(Where, None),
)
CommentBody = _body(
    *("CommentBody", "A comment on a pending call.", AsyncConversation.comment),
    text="The comment, for the others who may decide the call; the model does not read it.",
    conversation_id=(Where, None),
)


class Decider(Body):
    """The principal of a link."""

    id: str = Field(min_length=1, max_length=200, description="Its id.")
    roles: list[str] = Field(default=[], max_length=64, description="Its roles.")


class LinkBody(Body):
    """A link to a pending call."""

    to: Decider = Field(description="Who decides by it: whoever has the link acts as this principal.")
    decisions: list[Annotated[DecisionKind, Field(strict=False)]] | None = Field(
        default=None,
        description="The kinds of decision that it makes; by default those that the call takes but `cancel`, `fail`.",
    )
    expires_s: float = Field(default=86_400, ge=1, le=LONGEST_LINK_S, description="For how many seconds it is valid.")
    conversation_id: Where = None


_CLIENT = Annotated[ClientId, Field(description="The client's id, in the name space of its principal.")]
ClaimBody = _body(
    *("ClaimBody", "Which client carries a pending call out.", AsyncConversation.claim),
    client_id=(_CLIENT, ...),
    on_detach="What becomes of the call if the client leaves.",
    conversation_id=(Where, None),
)
GiveBackBody = _body(
    *("GiveBackBody", "Which client gives a claimed call back.", AsyncConversation.give_back),
    client_id=(_CLIENT, ...),
    began="Whether its handler had begun: then the tool's `on_lost` says what follows.",
    reason=_WHY,
    conversation_id=(Where, None),
)


class ProgressBody(Body):
    """How far a claimed call is."""

    client_id: _CLIENT
    value: Any = Field(default=None, description="Any JSON value.")
    message: str | None = Field(default=None, description="A short line that says the same to a person.")
    status: str | None = Field(default=None, description="A word for what is being done.")
    loaded: float | None = Field(default=None, ge=0, strict=False, description="How much is done, in any unit.")
    total: float | None = Field(default=None, ge=0, strict=False, description="How much there is to do, in the same unit.")
    conversation_id: Where = None


SnoozeBody = _body(
    *("SnoozeBody", "For how long a pending call is hidden from your lists.", AsyncConversation.snooze),
    for_s=Field(ge=0, description="Seconds; 0 shows it again."),
    reason=_WHY,
    conversation_id=(Where, None),
)
EscalateBody = _body(
    *("EscalateBody", "Who decides a pending call from now on.", AsyncConversation.escalate),
    to=(Annotated[list[str] | dict[str, Any], Field(description=_TO)], ...),
    reason=_WHY,
    conversation_id=(Where, None),
)
RequestBody = _body("RequestBody", "The idempotency key of an end.", AsyncConversation.end)
Nothing = _body("Nothing", "An empty body.", AsyncConversation.retry)
PauseBody = _body("PauseBody", "New work to pause.", AsyncClient.pause, agent=_PAUSED)
UnpauseBody = _body("UnpauseBody", "The pause to lift.", AsyncClient.unpause, agent=_PAUSED)


class AuditQuery(_Query):
    """A part of an audit."""

    limit: int = Field(default=1000, ge=1, le=1000, description="How many entries the part may have; an export has all.")
    after: Seq = Field(default=0, description="Only entries whose `seq` is greater; the whole chain is checked.")
    receipt: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="The `audit_head` of a receipt, which has to be in the chain."
    )


class PageQuery(_Query):
    """A page of a list."""

    limit: int = Field(default=50, ge=1, le=1000, description="How many items the page may have.")
    after: str | None = Field(default=None, max_length=1200, description="The `next` of the page before.")


class LogPageQuery(PageQuery):
    """A page of what a conversation's log tells."""

    before: str | None = Field(
        default=None, max_length=40, description="The `previous` of the page behind, or `end`: the page in front of that place."
    )


def _query(name: str, base: type[BaseModel], selecting: Sequence[filters.Filter], **more: Any) -> type[BaseModel]:
    fields: dict[str, Any] = filters.fields_of([one for one in selecting if one.check is not None]) | more
    return create_model(name, __base__=base, **fields)


ROLES = Field(default=None, max_length=4000, description="The roles of `approver`, with commas between them.")
OutboxQuery = create_model(
    "OutboxQuery",
    __base__=PageQuery,
    state=(OutboxState, Field(default=OutboxState.OWED, description="What is owed, or what was set aside.")),
)
GivenQuery = _query("GivenQuery", PageQuery, filters.GIVEN)
ConversationsQuery = _query("ConversationsQuery", PageQuery, filters.CONVERSATIONS)
_BY = (UsageBy, Field(default=UsageBy.MODEL, description="What the rows are about."))
UsageQuery = _query("UsageQuery", PageQuery, filters.USED, by=_BY)
UsageOfQuery = create_model("UsageOfQuery", __base__=_Query, by=_BY)
PendingQuery = _query("PendingQuery", PageQuery, filters.CALLS, roles=(str | None, ROLES))


class PlaceQuery(_Query):
    """The conversation of a suspension."""

    conversation_id: Where = None


class StateQuery(_Query):
    """A state, or a long poll for one."""

    wait_s: float = Field(
        default=0, ge=0, le=MOST_WAIT_S, allow_inf_nan=False, description="Seconds to wait until the conversation rests."
    )
    after: Seq | None = Field(default=None, description="Only a state whose `seq` is greater counts.")


class EventsQuery(_Query):
    """Where a stream begins."""

    after: Seq = Field(default=0, description="The last `seq` that you know; the header `Last-Event-ID` takes precedence.")
    live: bool = Field(default=True, description="Whether to send live events, too.")
    descendants: bool = Field(
        default=False,
        description="Whether to send the events of the conversations below it, too; each event names its conversation then.",
    )


class AttachQuery(_Query):
    """A client that is present while the stream is open."""

    client_id: Annotated[ClientId, Field(description="The client's id, in the name space of its principal.")]
    tools: list[ToolName] = Field(
        min_length=1, max_length=MOST_TOOLS, description="The tools that it carries out; repeat the field for each."
    )
    on_detach: OnDetach = Field(
        default=OnDetach.KEEP, description="What becomes of what waits for the client once it has left for 5 s."
    )


class _EventsAfter(_Query):
    """Where the list events begin."""

    after: str | None = Field(
        default=None,
        max_length=1024,
        pattern=f"^{LIST_CURSOR.pattern}$",
        description="The `id` of the last event that you know; the header `Last-Event-ID` takes precedence.",
    )


ListEventsQuery = _query("ListEventsQuery", _EventsAfter, filters.EVENTS)

PATHS: dict[str, dict[str, Any]] = {
    "conversation_id": {"type": "string", "pattern": f"^{CONVERSATION_ID.pattern}$"},
    "message_id": {"type": "string", "pattern": f"^{REQUEST_ID.pattern}$"},
    "request_id": {"type": "string", "pattern": f"^{REQUEST_ID.pattern}$"},
    "turn_id": {"type": "string", "minLength": 1, "maxLength": 64},
    "suspension_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "token": {"type": "string", "minLength": 1, "maxLength": MOST_CHARS},
    "outbox_id": {"type": "string", "minLength": 1, "maxLength": 1024},
    "grant_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
}
"""The schema of each part of a path."""
