"""The commands of the machine. Time, ids, randomness and what the store knows of an id arrive inside them.

Callers fill in their request; the shell that hosts the conversation stamps `now` (ms UTC), `spec` (the stored spec that the
turn runs with, or the last turn ran with), `known` (the idempotency records that the store has under the keys of `lookups`
and `reasons`) and `trace` (the trace context of the turn's span that the command belongs to; None where there is none).
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field

from . import jsontext
from .calls import SuspensionKind
from .decisions import Ruling
from .events import FailureReason
from .idempotency import IdempotencyRecord, call_key, decision_key, message_key, request_key, result_key, suspension_key
from .jsontext import JsonText
from .principal import Principal
from .record import Record
from .spec import AgentSpec


class _Command(Record):
    now: int = 0
    spec: AgentSpec | None = None
    known: Mapping[str, IdempotencyRecord] = Field(default_factory=dict)
    trace: str | None = None

    def stamped(
        self, now: int, spec: AgentSpec | None, known: Mapping[str, IdempotencyRecord], trace: str | None = None
    ) -> Self:
        """The same command with the time, spec, idempotency records and trace context, which only the shell knows."""
        return self.model_copy(update={"now": now, "spec": spec, "known": known, "trace": trace})

    def lookups(self) -> tuple[str, ...]:
        """The keys of the idempotency records by which the command is judged; where the store has none, its id is new."""
        return ()

    def reasons(self) -> tuple[str, ...]:
        """The keys of idempotency records that say why the command is refused; only a refusal looks them up."""
        return ()


class _Request(_Command):
    """A request from outside; `principal` is who sends it, `traceparent` their trace context, None where nobody says."""

    principal: Principal | None = None
    traceparent: str | None = None


class Start(_Request):
    """Start the conversation with a first message."""

    kind: Literal["start"] = "start"
    agent: str
    app: str
    text: str
    message_id: str
    context: JsonText = "null"

    def lookups(self) -> tuple[str, ...]:
        """The key of the first message's receipt."""
        return (message_key(self.message_id),)


class Send(_Request):
    """Accept a user's message; during a turn it queues."""

    kind: Literal["send"] = "send"
    text: str
    message_id: str

    def lookups(self) -> tuple[str, ...]:
        """The key of the message's receipt."""
        return (message_key(self.message_id),)


class Resolve(_Request):
    """Settle a suspension by a decision."""

    kind: Literal["resolve"] = "resolve"
    tool_call_id: str
    ruling: Ruling
    decision_id: str
    suspension_id: str | None = None

    def lookups(self) -> tuple[str, ...]:
        """The key of the decision's receipt."""
        return (decision_key(self.decision_id),)

    def reasons(self) -> tuple[str, ...]:
        """The keys of the records that say what settled the suspension, or else the call."""
        if self.suspension_id is not None:
            return (suspension_key(self.suspension_id),)
        return (call_key(self.tool_call_id), result_key(self.tool_call_id))


class Cancel(_Request):
    """Cancel the turn; with `turn_id`, only if it is that one."""

    kind: Literal["cancel"] = "cancel"
    request_id: str
    turn_id: str | None = None

    def lookups(self) -> tuple[str, ...]:
        """The key of the cancellation's receipt."""
        return (request_key(self.request_id),)


class CancelPending(_Request):
    """Cancel the calls that wait, or those that wait for one `suspension_kind`; the turn goes on. `reason` is for the model."""

    kind: Literal["cancel_pending"] = "cancel_pending"
    request_id: str
    suspension_kind: SuspensionKind | None = None
    reason: str = ""

    def lookups(self) -> tuple[str, ...]:
        """The key of the cancellation's receipt."""
        return (request_key(self.request_id),)


class End(_Request):
    """End the conversation for good."""

    kind: Literal["end"] = "end"
    request_id: str

    def lookups(self) -> tuple[str, ...]:
        """The key of the end's receipt."""
        return (request_key(self.request_id),)


class TurnPrepared(_Command):
    """The outcome of `BeginTurn`: `spec` is the spec in force, or `problem` says why there is none."""

    kind: Literal["turn_prepared"] = "turn_prepared"
    effect_id: str
    code: str = ""
    problem: str | None = None


class ProposedCall(Record):
    """A tool call as the model wrote it, with the verdict of the worker, which has the app.

    `problem` says why the call's arguments cannot be used; `prompt` is the tool's prompt, rendered for this call.
    """

    tool_call_id: str
    name: str
    arguments: str
    problem: str | None = None
    prompt: str | None = None


class ModelReplied(_Command):
    """The outcome of `CallModel`: the model's message."""

    kind: Literal["model_replied"] = "model_replied"
    effect_id: str
    content: str | None = None
    calls: tuple[ProposedCall, ...] = ()
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning: str | None = None
    provider: JsonText | None = None

    def lookups(self) -> tuple[str, ...]:
        """The keys of the model's call ids; a known one was used before."""
        return tuple(call_key(jsontext.clean(call.tool_call_id)) for call in self.calls)


class ModelFailed(_Command):
    """The outcome of `CallModel`: an error that the retries of the model call did not cure."""

    kind: Literal["model_failed"] = "model_failed"
    effect_id: str
    error: str
    reason: FailureReason | None = None


class RunFinished(_Command):
    """The outcome of `RunTool`: the envelope of the value that the callback returned, or of the error that it raised."""

    kind: Literal["run_finished"] = "run_finished"
    effect_id: str
    ok: bool
    content: JsonText


class RunLost(_Command):
    """The outcome of `RunTool` when the run's worker is gone and has reported none."""

    kind: Literal["run_lost"] = "run_lost"
    effect_id: str


class Wake(_Command):
    """Settle the suspensions whose deadlines have passed."""

    kind: Literal["wake"] = "wake"


Command: TypeAlias = Annotated[
    Start
    | Send
    | Resolve
    | Cancel
    | CancelPending
    | End
    | TurnPrepared
    | ModelReplied
    | ModelFailed
    | RunFinished
    | RunLost
    | Wake,
    Field(discriminator="kind"),
]
COMMANDS: tuple[type[_Command], ...] = (
    Start,
    Send,
    Resolve,
    Cancel,
    CancelPending,
    End,
    TurnPrepared,
    ModelReplied,
    ModelFailed,
    RunFinished,
    RunLost,
    Wake,
)
