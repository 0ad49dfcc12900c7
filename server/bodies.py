"""The bodies and queries that the routes take."""

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from holdfast.client.list_events import LIST_CURSOR
from holdfast.conversation import Proof, Status, SuspensionKind
from holdfast.conversation.ids import CONVERSATION_ID, REQUEST_ID

Key: TypeAlias = Annotated[str | None, Field(description="The idempotency key, where no header Idempotency-Key gives it.")]
Why: TypeAlias = Annotated[str, Field(description="Why; the log keeps it.")]
Where: TypeAlias = Annotated[str | None, Field(description="Finds the suspension faster, and after it was settled.")]
Name: TypeAlias = Annotated[str | None, Field(max_length=200)]
Paused: TypeAlias = Annotated[str | None, Field(description="The agent; by default the whole namespace.")]
Seq: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A position in a log."""
MOST_WAIT_S = 3600
"""The longest wait that a query may ask for; `Bounds.wait_s` shortens it."""


class Body(BaseModel):
    """A body: no unknown fields, and no type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StartBody(Body):
    """A conversation to start."""

    agent: str = Field(description="The agent's name; GET /v1/agents lists them.")
    text: str = Field(description="The user's first message.")
    conversation_id: str | None = Field(default=None, description="By default derived from the message's id.")
    message_id: Key = None
    context: Any = Field(default=None, description="Any JSON value; tools read it, the model does not see it.")
    attended: bool = Field(
        default=True,
        description="Whether there is somebody to ask; where not, the agent says what is done instead. False takes the scope "
        "`unattended`.",
    )


class MessageBody(Body):
    """The user's next message."""

    text: str
    message_id: Key = None


class CancelBody(Body):
    """A turn to cancel."""

    turn_id: str | None = Field(default=None, description="Only this turn: once it is over, nothing is cancelled.")
    wait_s: float = Field(
        default=0, ge=0, le=60, description="How long to wait, at most, until no body of the cancelled calls goes on."
    )
    request_id: Key = None


class RulesCheckBody(Body):
    """A hypothetical call, to be judged by the rules."""

    agent: str = Field(min_length=1, max_length=200, description="The agent's name.")
    tool: str = Field(min_length=1, max_length=256, description="The name of one of its tools.")
    arguments: dict[str, Any] = Field(description="The call's arguments.")
    app: str | None = Field(
        default=None, min_length=1, max_length=500, description="The import path of a published app; by default the server's."
    )


class CancelPendingBody(Body):
    """Which pending calls to cancel."""

    kind: SuspensionKind | None = Field(
        default=None, strict=False, description="Only those that wait for this; by default all."
    )
    reason: str = Field(default="", description="Why; the model reads it.")
    request_id: Key = None


class RevokeBody(Body):
    """Why a grant ends."""

    reason: Why = ""
    request_id: Key = None


class RevokeGivenBody(Body):
    """Whose grants and votes end, and why."""

    by: str = Field(max_length=200, description="The id of the principal who has given them.")
    proof: Proof | None = Field(default=None, description="Only what was given by somebody proven in this way.")
    reason: Why = ""
    request_id: Key = None


class AuditQuery(_Query):
    """A part of an audit."""

    limit: int = Field(default=1000, ge=1, le=1000, description="How many entries the part may have; an export has all.")
    after: Seq = Field(default=0, description="Only entries whose `seq` is greater; the whole chain is checked.")
    receipt: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="The `audit_head` of a receipt, which has to be in the chain."
    )


class AssignBody(Body):
    """Who takes a pending call on."""

    to: Name = Field(default=None, description="Who; by default you yourself, and empty: nobody any more.")
    conversation_id: Where = None
    request_id: Key = None


class CommentBody(Body):
    """A comment on a pending call."""

    text: str = Field(description="What it says, to the others who may decide the call; the model does not read it.")
    conversation_id: Where = None
    request_id: Key = None


class RequestBody(Body):
    """The idempotency key of an end."""

    request_id: Key = None


class Nothing(Body):
    """An empty body."""


class PauseBody(Body):
    """New work to pause."""

    agent: Paused = None
    reason: str = ""


class ResumeBody(Body):
    """New work to resume."""

    agent: Paused = None


class PageQuery(_Query):
    """A page of a list."""

    limit: int = Field(default=50, ge=1, le=1000, description="How many items the page may have.")
    after: str | None = Field(default=None, max_length=1200, description="The `next` of the page before.")


class GivenQuery(PageQuery):
    """A page of what principals have given."""

    by: Name = Field(default=None, description="Only what this principal has given, by its id.")
    proof: Proof | None = Field(default=None, description="Only what somebody has given who was proven in this way.")


class ConversationsQuery(PageQuery):
    """A page of conversations."""

    status: Status | None = None
    agent: Name = None


class PendingQuery(PageQuery):
    """A page of pending calls."""

    kind: SuspensionKind | None = None
    agent: Name = None
    approver: Name = Field(default=None, description="Only calls that this principal may decide, by its id and `roles`.")
    roles: str | None = Field(default=None, max_length=4000, description="The roles of `approver`, with commas between them.")


class PlaceQuery(_Query):
    """The conversation of a suspension."""

    conversation_id: Where = None


class StateQuery(_Query):
    """A state, or a long poll for one."""

    wait_s: float = Field(
        default=0, ge=0, le=MOST_WAIT_S, allow_inf_nan=False, description="How long to wait until the conversation rests."
    )
    after: Seq | None = Field(default=None, description="Only a state whose `seq` is greater counts.")


class EventsQuery(_Query):
    """Where a stream begins."""

    after: Seq = Field(default=0, description="The last `seq` that is known; `Last-Event-ID` goes first.")
    live: bool = Field(default=True, description="Whether live events are wanted too.")


class ListEventsQuery(_Query):
    """Which list events are wanted, and where they begin."""

    after: str | None = Field(
        default=None,
        max_length=1024,
        pattern=f"^{LIST_CURSOR.pattern}$",
        description="The `id` of the last event that is known; `Last-Event-ID` goes first.",
    )
    agent: Name = None
    kind: SuspensionKind | None = None


PATHS: dict[str, dict[str, Any]] = {
    "conversation_id": {"type": "string", "pattern": f"^{CONVERSATION_ID.pattern}$"},
    "message_id": {"type": "string", "pattern": f"^{REQUEST_ID.pattern}$"},
    "turn_id": {"type": "string", "minLength": 1, "maxLength": 64},
    "suspension_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "grant_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
}
"""The schema of each part of a path."""
