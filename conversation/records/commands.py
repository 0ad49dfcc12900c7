"""The commands of the machine. Time, ids, randomness and what the store knows of an id arrive inside them.

Callers fill in their request; the shell that hosts the conversation stamps `now` (ms UTC), `spec` (the stored spec that the
turn runs with, or the last turn ran with), `known` (the idempotency records that the store has under the keys of `lookups`
and `reasons`), `read` (the entries of the log at the places of `reads`) and `trace` (the trace context of the turn's span that
the command belongs to; None where there is none).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import Field

from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.grants import CallTarget
from holdfast.conversation.terms.principal import Principal, Proof
from holdfast.conversation.terms.rule_verdict import RuleVerdict
from holdfast.conversation.terms.spec import AgentSpec, Approval, Execution, Executor, Limits, Resume, Seconds
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

from .calls import Call
from .endings import FailureReason
from .events import Event
from .idempotency import IdempotencyRecord, call_key, decision_key, message_key, request_key, result_key, suspension_key
from .state import State


def places_of_prompts(state: State, spec: AgentSpec | None, *, settles: int | None = 0) -> tuple[int, ...]:
    """The places of the prompts of held calls that may be suspended next, if that many suspensions are settled (None: any).

    Where nobody attends the conversation, all of them may be, one after the other, and their questions are read as well.
    """
    held = state.calls.held()
    if not held:
        return ()
    if spec is not None and spec.execution is Execution.SEQUENTIAL:
        held = held[:1] if state.attended else held
    elif settles is not None and sum(call.undecided for call in state.calls.awaiting()) > settles:
        return ()
    shown = [call for call in held if not call.decided_at and _is_shown(call)]
    asked = [] if state.attended else [call.arguments_at for call in shown if _questions(call, spec)]
    return tuple(dict.fromkeys((*(call.held_at for call in shown), *asked)))


def _places(
    state: State, spec: AgentSpec | None, calls: Iterable[Call | None], rulings: Sequence[DecisionRecord]
) -> tuple[int, ...]:
    """The places of all that decisions on these calls are judged by, and of what is suspended next."""
    waiting = [call for call in calls if call is not None and call.suspension is not None]
    # Where a scope is given, others may be let go, too.
    settles = None if any(ruling.scope is not None for ruling in rulings) else len(rulings)
    asked = any(call.deciders is not None and call.deciders.not_requester for call in waiting)
    requester = [state.turn.message_seq] if state.turn is not None and asked else []  # its message says who that is
    prompts = places_of_prompts(state, spec, settles=settles)
    return tuple(dict.fromkeys((*_places_of_terms(waiting, spec), *requester, *prompts)))


def _places_of_terms(waiting: Iterable[Call], spec: AgentSpec | None) -> Iterator[int]:
    """The places of what open suspensions accept: of reviews themselves, and of the questions of others."""
    for call in waiting:
        if call.suspension is not None and call.suspension.kind is SuspensionKind.REVIEW:
            yield call.suspension.seq
        elif _questions(call, spec):
            yield call.arguments_at


def _questions(call: Call, spec: AgentSpec | None) -> bool:
    tool = spec.tool(call.tool) if spec is not None else None
    return tool is not None and tool.questions


def _is_shown(call: Call) -> bool:
    return call.executor is not Executor.SERVER or call.approval is Approval.REQUIRED


_KEYS = {"message_id": message_key, "decision_id": decision_key, "request_id": request_key}


class _Command(Record):
    now: int = 0
    spec: AgentSpec | None = None
    known: Mapping[str, IdempotencyRecord] = Field(default_factory=dict)
    trace: str | None = None
    read: Mapping[int, Event] = Field(default_factory=dict)
    salt: str = ""

    def stamped(
        self,
        now: int,
        spec: AgentSpec | None,
        known: Mapping[str, IdempotencyRecord],
        trace: str | None = None,
        read: Mapping[int, Event] | None = None,
        *,
        salt: str = "",
    ) -> Self:
        """The same command with the time, spec, records, trace context and entries of the log, which only the shell knows.

        `salt` is a random text, from which the audit chain's links have their salts.
        """
        said = {"now": now, "spec": spec, "known": known, "trace": trace, "read": read or {}, "salt": salt}
        return self.model_copy(update=said)

    @property
    def limits(self) -> Limits:
        """The limits of the spec, or the usual ones."""
        return Limits() if self.spec is None else self.spec.limits

    def lookups(self) -> tuple[str, ...]:
        """The keys of the idempotency records by which the command is judged; where the store has none, its id is new."""
        return ()

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The places in the log whose entries the command is judged by: bodies that neither the state nor the spec has."""
        del state, spec
        return ()

    def reasons(self) -> tuple[str, ...]:
        """The keys of idempotency records that say why the command is refused; only a refusal looks them up."""
        return ()


class _Advance(_Command):
    """A command after which held calls may go on."""

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The places of held calls' prompts."""
        return places_of_prompts(state, spec, settles=None)


class Request(_Command):
    """A request from outside; `principal` is who sends it, `traceparent` their trace context, None where nobody says.

    `signature` is a server's word that it has proven who that is. The shell checks it before the command is judged.
    """

    principal: Principal | None = None
    traceparent: str | None = None
    signature: str = ""

    def lookups(self) -> tuple[str, ...]:
        """The key of the request's receipt, by the id under which it counts once."""
        return tuple(key(getattr(self, name)) for name, key in _KEYS.items() if name in type(self).model_fields)


class _Message(Request):
    """A request that brings a user's message, which counts once under its `message_id`."""

    text: str
    message_id: str


class Start(_Message):
    """Start the conversation with a first message."""

    kind: Literal["start"] = "start"
    agent: str
    app: str
    context: JsonText = "null"
    attended: bool = True


class Send(_Message):
    """Accept a user's message; during a turn it queues."""

    kind: Literal["send"] = "send"


class Resolve(Request):
    """Settle a suspension by a decision."""

    kind: Literal["resolve"] = "resolve"
    tool_call_id: str
    ruling: DecisionRecord
    decision_id: str
    suspension_id: str | None = None

    def reasons(self) -> tuple[str, ...]:
        """The keys of the records that say what settled the suspension, or else the call."""
        if self.suspension_id is not None:
            return (suspension_key(self.suspension_id),)
        return (call_key(self.tool_call_id), result_key(self.tool_call_id))

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The places of what the suspension accepts, and of held calls' prompts."""
        return _places(state, spec, [state.calls.of(self.tool_call_id)], [self.ruling])


class Decided(Record):
    """One of several decisions: the suspension that it settles, and the key under which it counts once."""

    suspension_id: str
    ruling: DecisionRecord
    decision_id: str


class ResolveMany(Request):
    """Settle several suspensions of one conversation, or none of them."""

    kind: Literal["resolve_many"] = "resolve_many"
    decisions: tuple[Decided, ...]

    def lookups(self) -> tuple[str, ...]:
        """The keys of the decisions' receipts."""
        return tuple(decision_key(one.decision_id) for one in self.decisions)

    def reasons(self) -> tuple[str, ...]:
        """The keys of the records that say what settled the suspensions."""
        return tuple(suspension_key(one.suspension_id) for one in self.decisions)

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The places of what the suspensions accept, and of held calls' prompts."""
        found = (state.calls.open_suspension(one.suspension_id) for one in self.decisions)
        return _places(state, spec, [one[0] for one in found if one is not None], [one.ruling for one in self.decisions])


class Numbered(Request):
    """A request that counts once under its `request_id`."""

    request_id: str


class _Note(Numbered):
    """What somebody tells the others who may decide a suspended call. It settles nothing."""

    tool_call_id: str
    suspension_id: str

    def reasons(self) -> tuple[str, ...]:
        """The key of the record that says what settled the suspension."""
        return (suspension_key(self.suspension_id),)


class Assign(_Note):
    """Note who takes a suspended call on; empty: nobody any more."""

    kind: Literal["assign"] = "assign"
    to: str


class Comment(_Note):
    """Write to the others who may decide a suspended call."""

    kind: Literal["comment"] = "comment"
    text: str


class CancelTurn(Numbered):
    """Cancel the turn; with `turn_id`, only if it is that one."""

    kind: Literal["cancel"] = "cancel"
    turn_id: str | None = None


class CancelPending(Numbered, _Advance):
    """Cancel the calls that wait, or those that wait for one `suspension_kind`; the turn goes on. `reason` is for the model."""

    kind: Literal["cancel_pending"] = "cancel_pending"
    suspension_kind: SuspensionKind | None = None
    reason: str = ""


class Revoke(Numbered, _Advance):
    """End a grant: what it let run, and nobody has claimed yet, is asked about."""

    kind: Literal["revoke"] = "revoke"
    grant_id: str
    reason: str = ""


class RevokeGiven(Numbered, _Advance):
    """End what one principal, proven so (None: in whatever way), has given: its grants, and its votes in calls that wait."""

    kind: Literal["revoke_given"] = "revoke_given"
    by: str
    proof: Proof | None = None
    reason: str = ""


class End(Numbered):
    """End the conversation for good."""

    kind: Literal["end"] = "end"


class Outcome(_Command):
    """The outcome of an effect."""

    effect_id: str


class TurnPrepared(Outcome):
    """The outcome of `BeginTurn`: `spec` is the spec in force, or `problem` says why there is none."""

    kind: Literal["turn_prepared"] = "turn_prepared"
    code: str = ""
    problem: str | None = None


class ProposedCall(Record):
    """A tool call as the model wrote it, with the verdict of the worker, which has the app.

    `problem` says why the call's arguments cannot be used; `prompt` is the tool's prompt, rendered for this call; `ruled` is
    what permission rules say of it, None where there are none. `targets` are what it touches, None where its tool does not say,
    empty where that cannot be told: then no grant covers the call. `approvers` are who may decide the call as its tool says,
    None where anybody may. `ruling` is what a function of the app decides about a call that would ask, in a conversation that
    nobody attends.
    """

    tool_call_id: str
    name: str
    arguments: str
    problem: str | None = None
    prompt: str | None = None
    ruled: RuleVerdict | None = None
    targets: tuple[CallTarget, ...] | None = None
    approvers: ApproverTerms | None = None
    ruling: DecisionRecord | None = None


class ModelReplied(Outcome):
    """The outcome of `CallModel`: the model's message."""

    kind: Literal["model_replied"] = "model_replied"
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


class ModelFailed(Outcome):
    """The outcome of `CallModel`: an error that the retries of the model call did not cure."""

    kind: Literal["model_failed"] = "model_failed"
    error: str
    reason: FailureReason | None = None


class RunFinished(Outcome, _Advance):
    """The outcome of `RunTool`: the envelope of the value that the callback returned, or of the error that it raised."""

    kind: Literal["run_finished"] = "run_finished"
    ok: bool
    content: JsonText


class RunSuspended(Outcome, _Advance):
    """The other outcome of `RunTool`: the body asks for a person's word before it goes on.

    `report_md` and `payload` are what the person is shown, `response_schema` is what an `Answer` must fit, if it takes one.
    `approvers` are who may settle it, None where it leaves that to the call.
    """

    kind: Literal["run_suspended"] = "run_suspended"
    title: str
    message: str = ""
    report_md: str = ""
    payload: JsonText | None = None
    action: str = "review"
    response_schema: JsonText | None = None
    resume: Resume = Resume.USE_AS_RESULT
    expires_s: Seconds | None = None
    approvers: ApproverTerms | None = None


class RunRuled(Outcome, _Advance):
    """The outcome of `RunTool` where the rules in force do not let the run begin: nothing was claimed, and no body ran.

    `ruling` is as in `ProposedCall`.
    """

    kind: Literal["run_ruled"] = "run_ruled"
    ruled: RuleVerdict
    ruling: DecisionRecord | None = None


class RunLost(Outcome, _Advance):
    """The outcome of `RunTool` when the run's worker is gone and has reported none."""

    kind: Literal["run_lost"] = "run_lost"


class Wake(_Advance):
    """Settle the suspensions whose deadlines have passed."""

    kind: Literal["wake"] = "wake"


Command: TypeAlias = Annotated[
    Start
    | Send
    | Resolve
    | ResolveMany
    | Assign
    | Comment
    | CancelTurn
    | CancelPending
    | Revoke
    | RevokeGiven
    | End
    | TurnPrepared
    | ModelReplied
    | ModelFailed
    | RunFinished
    | RunSuspended
    | RunRuled
    | RunLost
    | Wake,
    Field(discriminator="kind"),
]
COMMANDS: tuple[type[_Command], ...] = get_args(get_args(Command)[0])
