"""The commands of the machine. Time, ids, randomness and what the store knows of an id arrive inside them.

Callers fill in their request. The shell that hosts the conversation stamps `now` (ms UTC), `spec` (the stored spec of the
current or last turn), `known` (the store's idempotency records under the keys of `lookups` and `reasons`), `read` (the log
entries at the places of `reads`) and `trace` (the trace context of the turn's span that the command belongs to, if any).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import any_schema

from holdfast.conversation.ids import digest, payload_digest
from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.delegation import Parent
from holdfast.conversation.terms.parts import Attachment, Content, said_by
from holdfast.conversation.terms.principal import Principal, Proof
from holdfast.conversation.terms.rule_verdict import RuleVerdict
from holdfast.conversation.terms.spec import AgentSpec, Limits, Resume
from holdfast.conversation.terms.stages import OnTimeout, Seconds
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

from .calls import Call
from .event_base import FailureReason
from .events import Event
from .idempotency import IdempotencyRecord, call_key, decision_key, message_key, request_key, result_key, suspension_key
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
    requester = [state.turn.message_seq] if state.turn is not None and asked else []  # its message names the requester
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


_KEYS = {"message_id": message_key, "decision_id": decision_key, "request_id": request_key}


class _Stamped:
    """Marks a field that only Holdfast sets: it is not validated, and its large schema is not built for each command."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return any_schema()


class _Command(Record, defer_build=True):
    now: int = 0
    spec: Annotated[AgentSpec | None, _Stamped] = None
    known: Annotated[Mapping[str, IdempotencyRecord], _Stamped] = Field(default_factory=dict)
    trace: str | None = None
    read: Annotated[Mapping[int, Event], _Stamped] = Field(default_factory=dict)
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
        """The same command with what only the shell knows; `salt` is the random text for the audit chain's salts."""
        said = {"now": now, "spec": spec, "known": known, "trace": trace, "read": read or {}, "salt": salt}
        return self.model_copy(update=said)

    @property
    def limits(self) -> Limits:
        """The limits of the spec, else the defaults."""
        return Limits() if self.spec is None else self.spec.limits

    def lookups(self) -> tuple[str, ...]:
        """The keys of the idempotency records by which the command is judged; if the store has none, its id is new."""
        return ()

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of the log entries by which the command is judged: bodies that neither the state nor the spec has."""
        del state, spec
        return ()

    def reasons(self) -> tuple[str, ...]:
        """The keys of idempotency records that explain a refusal; only a refusal looks them up."""
        return ()


class _Advance(_Command):
    """A command after which held calls may go on."""

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of held calls' prompts."""
        return state.places_of_prompts(spec, settles=None)


class Request(_Command):
    """A request from outside; `principal` is its sender, `traceparent` the sender's trace context, None if unknown.

    `signature` is a server's proof of the principal, which the shell checks before the command is judged.
    """

    principal: Principal | None = None
    traceparent: str | None = None
    signature: str = ""

    @property
    def proven(self) -> Principal | None:
        """The principal, if it claims to be proven; else None."""
        return None if self.principal is None or self.principal.proof is Proof.STATED else self.principal

    @property
    def of_machine(self) -> bool:
        """Whether only another conversation may send it, by the courier, which signs it."""
        return False

    def lookups(self) -> tuple[str, ...]:
        """The key of the request's receipt, by its idempotency key."""
        said = vars(self)
        return tuple([key(said[name]) for name, key in _KEYS.items() if name in said])

    def decision_digest(self, sent: "Resolve | Decided", needed: int) -> str:
        """The digest by which two decisions count as the same; it covers the sender if several people must agree."""
        ruling, named = sent.ruling, sent.tool_call_id if isinstance(sent, Resolve) else ""
        parts = (named, sent.suspension_id or "", ruling.kind, "-" if ruling.body is None else "+", ruling.body or "")
        scope = None if ruling.scope is None else jsontext.dumps(ruling.scope.model_dump(mode="json"))
        voter = self.principal.id if needed and self.principal is not None else None
        return payload_digest("resolve", *parts, reason=ruling.reason or None, scope=scope, voter=voter)


class _Message(Request):
    """A request with a user's message; `message_id` is its idempotency key."""

    text: Content
    message_id: str

    @property
    def _said(self) -> tuple[str, str | None]:
        """The text, and a digest of the parts, if any: a text has the digest that it had before there were parts."""
        return (self.text, None) if isinstance(self.text, str) else ("", digest(*said_by(self.text)))


class Start(_Message):
    """Start the conversation with a first message; `parent` is the wait that it is started for, if any.

    A parent's start is refused from `not_after` (ms UTC) on, so that it does not arrive after the conversation's end.
    """

    kind: Literal["start"] = "start"
    agent: str
    app: str
    context: JsonText = "null"
    attended: bool = True
    parent: Parent | None = None
    not_after: int | None = None

    @property
    def digest(self) -> str:
        """The digest by which two starts count as the same."""
        attended = None if self.attended else "no"
        parent = None if self.parent is None else self.parent.conversation_id
        text, parts = self._said
        return payload_digest("start", self.agent, text, self.context, attended=attended, parent=parent, parts=parts)

    @property
    def of_machine(self) -> bool:
        """Whether another conversation delegates something to it."""
        return self.parent is not None


class Send(_Message):
    """Accept a user's message; during a turn it queues."""

    kind: Literal["send"] = "send"

    @property
    def digest(self) -> str:
        """The digest by which two messages count as the same."""
        text, parts = self._said
        return payload_digest("send", text, parts=parts)


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
        """The `seq` of what the suspension accepts, and of held calls' prompts."""
        return _places(state, spec, [state.calls.of(self.tool_call_id)], [self.ruling])


class Decided(Record):
    """One of several decisions: the suspension that it settles, and its idempotency key."""

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
        """The `seq` of what the suspensions accept, and of held calls' prompts."""
        found = (state.calls.open_suspension(one.suspension_id) for one in self.decisions)
        return _places(state, spec, [one[0] for one in found if one is not None], [one.ruling for one in self.decisions])


class Numbered(Request):
    """A request whose idempotency key is `request_id`."""

    request_id: str


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


class Tell(Request, _Advance):
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
        return (*call.places_of_timeout(spec), *((state.turn.message_seq,) if asked else ()))


class CancelTurn(Numbered):
    """Cancel the turn; with `turn_id`, only if it is that one."""

    kind: Literal["cancel"] = "cancel"
    turn_id: str | None = None


class CancelPending(Numbered, _Advance):
    """Cancel the waiting calls, or those with one `suspension_kind`; the turn goes on. `reason` is for the model."""

    kind: Literal["cancel_pending"] = "cancel_pending"
    suspension_kind: SuspensionKind | None = None
    reason: str = ""


class Revoke(Numbered, _Advance):
    """End a grant. Runs that it allowed are asked about, unless already claimed."""

    kind: Literal["revoke"] = "revoke"
    grant_id: str
    reason: str = ""


class RevokeGiven(Numbered, _Advance):
    """End the grants of a principal, proven by `proof` (None: in any way), and withdraw its votes on pending calls."""

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
    """The outcome of `BeginTurn`: `spec` is the spec in force, or `problem` says why there is none.

    From `until_ms` on (ms UTC) the turn may not begin, since `code` and `spec` may be from before a pause by then.
    """

    kind: Literal["turn_prepared"] = "turn_prepared"
    code: str = ""
    problem: str | None = None
    until_ms: int | None = None


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
    """The outcome of `CallModel`: an error that remained after all retries."""

    kind: Literal["model_failed"] = "model_failed"
    error: str
    reason: FailureReason | None = None


class RunFinished(Outcome, _Advance):
    """The outcome of `RunTool`: the envelope of the value that the callback returned, or of the error that it raised.

    `attached` are the images and files that the callback returned; the envelope names them by their numbers.
    """

    kind: Literal["run_finished"] = "run_finished"
    ok: bool
    content: JsonText
    attached: tuple[Attachment, ...] = ()


class RunSuspended(Outcome, _Advance):
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


class RunRuled(Outcome, _Advance):
    """The outcome of `RunTool` if the rules in force block the run; it was not claimed and did not begin."""

    kind: Literal["run_ruled"] = "run_ruled"
    ruled: RuleVerdict
    ruling: DecisionRecord | None = None


class RunLost(Outcome, _Advance):
    """The outcome of `RunTool` if the run's worker is gone without an outcome."""

    kind: Literal["run_lost"] = "run_lost"


WAKE_SPAN_MS = 60_000
"""How much later than the earliest a deadline may be whose terms one `Wake` reads; the next one reads further ones."""


class Wake(_Advance):
    """Do what is due: remind, escalate, or settle a suspension whose deadlines have all passed."""

    kind: Literal["wake"] = "wake"

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of what follows at the deadlines and of held calls' prompts."""
        due = () if state.due_at is None else state.calls.due(state.due_at + WAKE_SPAN_MS)
        terms = [seq for call in due for seq in call.places_of_timeout(spec)]
        return tuple(dict.fromkeys((*terms, *super().reads(state, spec))))


Command: TypeAlias = Annotated[
    Start
    | Send
    | Resolve
    | ResolveMany
    | Assign
    | Comment
    | Snooze
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
    | RunFinished
    | RunSuspended
    | RunRuled
    | RunLost
    | Wake,
    Field(discriminator="kind"),
]
COMMANDS: tuple[type[_Command], ...] = get_args(get_args(Command)[0])
for _command in COMMANDS:  # at the import, in one thread; their base classes are never built
    _command.model_rebuild()
