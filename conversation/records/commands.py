"""The commands of the machine. Time, ids, randomness and what the store knows of an id arrive inside them.

Callers fill in their request. The shell that hosts the conversation stamps `now` (ms UTC), `spec` (the stored spec of the
current or last turn), `known` (the store's idempotency records under the keys of `lookups` and `reasons`), `read` (the log
entries at the places of `reads`) and `trace` (the trace context of the turn's span that the command belongs to, if any).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.budget import DaySpent
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.parts import Attachment
from holdfast.conversation.terms.presence import OnDetach, client_name
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleVerdict
from holdfast.conversation.terms.spec import AgentSpec, Resume
from holdfast.conversation.terms.stages import OnTimeout, Seconds
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

from .calls import Call
from .command_base import Advancing, CommandBase, Looking, Numbered, Outcome, Request
from .event_base import FailureReason, Reached, SummaryFailure
from .idempotency import call_key, decision_key, result_key, suspension_key
from .input_commands import CompactNow, Interrupt, Reschedule, Send, Start, Withdraw
from .proposed_call import ProposedCall
from .state import State


def _places(
    state: State, spec: AgentSpec | None, calls: Iterable[Call | None], rulings: Sequence[DecisionRecord]
) -> tuple[int, ...]:
    """The `seq` of the log entries by which decisions on these calls are judged, and of the prompts that are shown next."""
    waiting = [call for call in calls if call is not None and call.suspension is not None]
    # A scope may let other calls go on, too.
    settles = None if any(ruling.scope is not None for ruling in rulings) else len(rulings)
    asked = any(call.deciders is not None and call.deciders.not_requester for call in waiting)
    requester = state.turn.asked_at if state.turn is not None and asked else ()  # messages name their senders
    prompts = state.places_of_prompts(spec, settles=settles)
    edited = [one.suspension.seq for one in waiting if one.suspension and one.suspension.staged and one.needed]
    return tuple(dict.fromkeys((*_places_of_terms(waiting, spec), *edited, *requester, *prompts)))


def _places_of_terms(waiting: Iterable[Call], spec: AgentSpec | None) -> Iterator[int]:
    """The `seq` of what open suspensions accept: for a review its own event, else the event with the questions."""
    for call in waiting:
        if call.suspension is not None and call.suspension.kind is SuspensionKind.REVIEW:
            yield call.suspension.seq
        elif call.asks_questions(spec):
            yield call.arguments_at


class Resolve(Request):
    """Settle a suspension by a decision; `client_id` is the client that claimed the call, if it is its result."""

    kind: Literal["resolve"] = "resolve"
    tool_call_id: str
    ruling: DecisionRecord
    decision_id: str
    suspension_id: str | None = None
    client_id: str = ""

    @property
    def client(self) -> str:
        """The client's name in the conversation; empty if no client sent it."""
        return client_name(self.client_id, self.principal) if self.client_id else ""

    def reasons(self) -> tuple[str, ...]:
        """The keys of the records that say what settled the suspension, or else the call."""
        if self.suspension_id is not None:
            return (suspension_key(self.suspension_id),)
        return (call_key(self.tool_call_id), result_key(self.tool_call_id))

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of what the suspension accepts, and of held calls' prompts."""
        return _places(state, spec, [state.calls.of(self.tool_call_id)], [self.ruling])


class Decided(Record):
    """One of several decisions: the suspension that it settles, and its idempotency key."""

    suspension_id: str
    ruling: DecisionRecord
    decision_id: str


def decision_digest(by: Request, sent: "Resolve | Decided", needed: int) -> str:
    """The digest by which two decisions count as the same; it covers the sender if several people must agree."""
    ruling, named = sent.ruling, sent.tool_call_id if isinstance(sent, Resolve) else ""
    parts = (named, sent.suspension_id or "", ruling.kind, "-" if ruling.body is None else "+", ruling.body or "")
    scope = None if ruling.scope is None else jsontext.dumps(ruling.scope.model_dump(mode="json"))
    voter = by.principal.id if needed and by.principal is not None else None
    return payload_digest("resolve", *parts, reason=ruling.reason or None, scope=scope, voter=voter)


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
        """The `seq` of what the suspensions accept, and of held calls' prompts."""
        found = (state.calls.open_suspension(one.suspension_id) for one in self.decisions)
        return _places(state, spec, [one[0] for one in found if one is not None], [one.ruling for one in self.decisions])


class _Note(Numbered):
    """A note for the other approvers of a suspended call. It settles nothing."""

    tool_call_id: str
    suspension_id: str

    def reasons(self) -> tuple[str, ...]:
        """The key of the record that says what settled the suspension."""
        return (suspension_key(self.suspension_id),)


class Assign(_Note):
    """Assign a suspended call to somebody; empty: to nobody."""

    kind: Literal["assign"] = "assign"
    to: str


class Comment(_Note):
    """Comment on a suspended call, for its other approvers."""

    kind: Literal["comment"] = "comment"
    text: str


class Tell(Request, Advancing):
    """The word of a machine for the wait that names it as its `source`: `content` is its result or error, as JSON text.

    `ended`: it does no more, and need not be ended. No verb of clients sends it.
    """

    kind: Literal["tell"] = "tell"
    suspension_id: str
    source: str
    ok: bool
    content: JsonText
    ended: bool = True

    @property
    def of_machine(self) -> bool:
        """Always."""
        return True

    def reasons(self) -> tuple[str, ...]:
        """The key of the record that says what settled the suspension."""
        return (suspension_key(self.suspension_id),)


class Snooze(_Note):
    """Hide a suspended call from the sender's lists for `for_s` seconds; 0: show it again."""

    kind: Literal["snooze"] = "snooze"
    for_s: float
    reason: str = ""


class _OfClient(_Note):
    """A request of a client about a call that clients execute."""

    client_id: str

    @property
    def client(self) -> str:
        """The client's name in the conversation."""
        return client_name(self.client_id, self.principal)


class Claim(_OfClient):
    """Execute a call for clients: no other client may, and only this one may answer it or give it back."""

    kind: Literal["claim"] = "claim"
    on_detach: OnDetach = OnDetach.KEEP


class GiveBack(_OfClient, Advancing):
    """Give a claimed call back; unless its handler never `began`, the call may have taken effect."""

    kind: Literal["give_back"] = "give_back"
    began: bool = True
    reason: str = ""


class EscalateCall(_Note):
    """Let others decide a suspended call, for as long as its present stage lasts.

    An `administrator`, as the server has proven, need not be among those who may decide it.
    """

    kind: Literal["escalate"] = "escalate"
    approvers: ApproverTerms
    reason: str = ""
    administrator: bool = False

    @property
    def to(self) -> str:
        """A digest of the approvers, by which two requests count as the same."""
        return self.approvers.digest

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of what says when its approvers are reminded, and of the message that says who asked for the call."""
        call, _ = state.calls.open_suspension(self.suspension_id) or (None, None)
        if call is None or state.turn is None:
            return ()
        asked = call.deciders is not None and call.deciders.not_requester
        return (*call.places_of_timeout(spec), *(state.turn.asked_at if asked else ()))


class CancelTurn(Numbered):
    """Cancel the turn; with `turn_id`, only if it is that one."""

    kind: Literal["cancel"] = "cancel"
    turn_id: str | None = None


class CancelPending(Numbered, Advancing, Looking):
    """Cancel the waiting calls, or those with one `suspension_kind`; the turn goes on. `reason` is for the model.

    With a `client_id`: only what waits for this client of the sender, and, unless another client of the sender is attached,
    what waits for the sender alone, of these `kinds` (None: all).
    """

    kind: Literal["cancel_pending"] = "cancel_pending"
    suspension_kind: SuspensionKind | None = None
    reason: str = ""
    client_id: str | None = None
    kinds: tuple[SuspensionKind, ...] | None = None

    def looks(self, state: State, now: int) -> bool:
        """Whether calls wait for the sender alone."""
        del now
        by = self.principal
        return self.client_id is not None and by is not None and any(call.waits_for_only(by) for call in state.calls.awaiting())


class Revoke(Numbered, Advancing):
    """End a grant. Runs that it allowed are asked about, unless already claimed."""

    kind: Literal["revoke"] = "revoke"
    grant_id: str
    reason: str = ""


class RevokeGiven(Numbered, Advancing):
    """End the grants of a principal, proven by `proof` (None: in any way), and withdraw its votes on pending calls."""

    kind: Literal["revoke_given"] = "revoke_given"
    by: str
    proof: Proof | None = None
    reason: str = ""


class End(Numbered):
    """End the conversation for good."""

    kind: Literal["end"] = "end"


class TurnPrepared(Outcome):
    """The outcome of `BeginTurn`: `spec` is the spec in force, or `problem` says why there is none.

    From `until_ms` on (ms UTC) the turn may not begin, since `code` and `spec` may be from before a pause by then. `today` is
    what the agent has used today, if it has a budget for each day.
    """

    kind: Literal["turn_prepared"] = "turn_prepared"
    code: str = ""
    problem: str | None = None
    until_ms: int | None = None
    today: DaySpent | None = None


class ModelReplied(Outcome):
    """The outcome of `CallModel`: the model's message; the fields are those of `ModelAnswered`.

    `misfit` is what the app's validators find wrong with it as the agent's reply; None if nothing. `reached` is a bound of the
    agent's `Stop` that only a worker can judge, and that the turn reaches with this answer's calls.
    """

    kind: Literal["model_replied"] = "model_replied"
    content: str | None = None
    calls: tuple[ProposedCall, ...] = ()
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning: str | None = None
    provider: JsonText | None = None
    model: str = ""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None
    misfit: str | None = None
    reached: Reached | None = None

    def lookups(self) -> tuple[str, ...]:
        """The keys of the model's call ids; a known one was used before."""
        return tuple(call_key(jsontext.clean(call.tool_call_id)) for call in self.calls)


class ModelFailed(Outcome):
    """The outcome of `CallModel`: an error that remained after all retries.

    `reducible`: the provider refused the request for its length, and less can be sent.
    """

    kind: Literal["model_failed"] = "model_failed"
    error: str
    reason: FailureReason | None = None
    reducible: bool = False


class Summarized(Outcome):
    """The outcome of `CallModel` that is a summary, or its failure: what the call would have sent had become too much.

    The fields are those of `Compacted`; `failed` is the kind of the failure, None if there is a summary.
    """

    kind: Literal["summarized"] = "summarized"
    summary: str = ""
    failed: SummaryFailure | None = None
    error: str = ""
    boundary: int = 0
    messages: int = 0
    asked_at: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None


class RunFinished(Outcome, Advancing):
    """The outcome of `RunTool`: the envelope of the value that the callback returned, or of the error that it raised."""

    kind: Literal["run_finished"] = "run_finished"
    ok: bool
    content: JsonText
    attached: tuple[Attachment, ...] = ()


class RunSuspended(Outcome, Advancing):
    """The other outcome of `RunTool`: the body asks for a review before it goes on.

    The person is shown `report_md` and `payload`; an `Answer`, if allowed, must fit `response_schema`. `approvers` may settle
    it; None: the call's approvers may.
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
    on_timeout: OnTimeout | None = None


class RunRuled(Outcome, Advancing):
    """The outcome of `RunTool` if the rules in force block the run, or allow a call that is carried out elsewhere.

    The run was not claimed and did not begin. From `until_ms` on (ms UTC) a call may not be handed over: the rules may be
    others by then.
    """

    kind: Literal["run_ruled"] = "run_ruled"
    ruled: RuleVerdict
    ruling: DecisionRecord | None = None
    until_ms: int | None = None

    def is_late(self, now: int) -> bool:
        """Whether the verdict is too old at `now` (ms UTC) for a call to be handed over."""
        return self.until_ms is not None and now >= self.until_ms

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of held calls' prompts, that of its own call first."""
        call = state.calls.run(self.effect_id)
        own = (call.held_at,) if call is not None and call.held_at else ()
        return tuple(dict.fromkeys((*own, *super().reads(state, spec))))


class RunLost(Outcome, Advancing):
    """The outcome of `RunTool` if the run's worker is gone without an outcome."""

    kind: Literal["run_lost"] = "run_lost"


WAKE_SPAN_MS = 60_000
"""How much later than the earliest a deadline may be whose terms one `Wake` reads; the next one reads further ones."""


class Wake(Advancing, Looking):
    """Do what is due: remind, escalate, look after the clients, or settle a suspension whose deadlines have all passed."""

    kind: Literal["wake"] = "wake"

    def looks(self, state: State, now: int) -> bool:
        """Whether a call for clients is to be looked after; a shell also stamps `present` if a client is about to leave."""
        return any(call.suspension is not None and 0 < call.suspension.look_at <= now for call in state.calls.due(now))

    def acts(self, state: State, now: int) -> bool:
        """Whether anything is due besides a look at the clients, which mostly changes nothing."""
        delayed = any(one.due_at <= now for one in state.delayed[:1])
        waits = (one.suspension is None or one.suspension.acts_at <= now for one in state.calls.due(now))
        overdue = state.turn is not None and state.turn.is_overdue(now)
        return not state.ended and (delayed or overdue or any(waits))

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of what follows at the deadlines and of held calls' prompts."""
        due = () if state.calls.due_at is None else state.calls.due(state.calls.due_at + WAKE_SPAN_MS)
        terms = [seq for call in due for seq in call.places_of_timeout(spec)]
        return tuple(dict.fromkeys((*terms, *super().reads(state, spec))))


Command: TypeAlias = Annotated[
    Start
    | Send
    | Interrupt
    | Withdraw
    | Reschedule
    | CompactNow
    | Resolve
    | ResolveMany
    | Assign
    | Comment
    | Snooze
    | Claim
    | GiveBack
    | EscalateCall
    | Tell
    | CancelTurn
    | CancelPending
    | Revoke
    | RevokeGiven
    | End
    | TurnPrepared
    | ModelReplied
    | ModelFailed
    | Summarized
    | RunFinished
    | RunSuspended
    | RunRuled
    | RunLost
    | Wake,
    Field(discriminator="kind"),
]
COMMANDS: tuple[type[CommandBase], ...] = get_args(get_args(Command)[0])
for _command in COMMANDS:  # at the import, in one thread; their base classes are never built
    _command.model_rebuild()
