"""Tool calls: their status, their suspension, and the view of them that people and clients are shown."""

from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.decisions import FIRST_WORDS, DecisionKind, SuspensionKind
from holdfast.conversation.terms.delegation import Ancestor
from holdfast.conversation.terms.grants import CallTarget
from holdfast.conversation.terms.presence import OnDetach
from holdfast.conversation.terms.principal import Principal, Proof
from holdfast.conversation.terms.questions import Question
from holdfast.conversation.terms.spec import AgentSpec, Approval, Executor, OnLost, Resume

_R = TypeVar("_R")


class CallStatus(StrEnum):
    """The status of a call of the current turn."""

    RUNNING = "running"  # the call's run is outstanding
    AWAITING = "awaiting"  # the call waits for a decision from outside
    HELD = "held"  # the call waits for its turn among the calls of its batch
    RESOLVED = "resolved"  # the call has a result
    ERRORED = "errored"  # the call has an error result


MOST_REVIEWS = 8
"""How many reviews the body of one call may ask for; a body that asks once more has failed."""


class Vote(Record):
    """A yes of `by` to a call that several must approve: `on` is a short digest of the decision, `seq` its `VoteCast`'s."""

    by: str
    on: str
    seq: int
    proof: Proof = Proof.STATED


class Snoozed(Record):
    """A suspension is hidden from the lists of `by` (`Principal.mark`) until a time (ms UTC), by the event at `seq`."""

    by: str
    until: int
    seq: int


class ClientClaim(Record):
    """A client executes the call since `at` (ms UTC); `by` is the mark of its principal, empty if nobody said who it is."""

    client_id: str
    by: str
    at: int
    on_detach: OnDetach = OnDetach.KEEP

    @property
    def name(self) -> str:
        """The client's name in the conversation (`client_name`)."""
        return f"{self.by}/{self.client_id}"


class Suspension(Record):
    """One wait of a call for a decision from outside. Times in integer ms UTC; `seq` is that of its `CallSuspended`.

    `traceparent` is the trace context of the turn's span in which it began, if any. The decisions that it accepts are in its
    event if a tool's body asked for it, else in the spec. `votes` are the votes cast, `notes` the `seq` of votes, assignments,
    comments, snoozes and escalations. `approvers` may settle it if they are its `own`; otherwise those of its call may.
    `shown` is the digest of what its event shows, for the audit chain; empty if an older release suspended the call. `source`
    is the machine that it waits for; empty: it waits for people.

    `stage` counts the escalations by its deadline, `stage_at` is when the present stage began (0: with the wait); `approvers`
    then decide instead of the call's, or of the `replaced` ones if it had its own. `remind_at` is the next reminder (0: none),
    `snoozed` are those whose lists hide it, `snoozes` counts how often anybody said so. What follows at its deadline is in its
    event if it is `staged`, else in the spec.

    `claim` is the client that executes the call, `claimed_at` the `seq` of the last time that a client claimed it or gave it
    back. `look_at` is when to look whether a client is present for it (ms UTC; 0: never).
    """

    suspension_id: str
    kind: SuspensionKind
    seq: int
    created_at: int
    expires_at: int
    traceparent: str | None = None
    resume: Resume = Resume.REPLAY
    votes: tuple[Vote, ...] = ()
    notes: tuple[int, ...] = ()
    approvers: ApproverTerms | None = None
    own: bool = False
    shown: str = ""
    source: str = ""
    stage: int = 0
    stage_at: int = 0
    remind_at: int = 0
    staged: bool = False
    replaced: ApproverTerms | None = None
    snoozed: tuple[Snoozed, ...] = ()
    snoozes: int = 0
    look_at: int = 0
    claim: ClientClaim | None = None
    claimed_at: int = 0

    @property
    def due_at(self) -> int:
        """When something is due, in ms UTC: a look at the clients, a reminder, or the deadline."""
        return min(self.look_at or self.expires_at, self.acts_at)

    @property
    def acts_at(self) -> int:
        """When something is due that does not depend on the clients, in ms UTC: a reminder, or the deadline."""
        return min(self.remind_at or self.expires_at, self.expires_at)


class CallDetails(Record):
    """The part of a call that is fixed from its proposal on.

    Attributes:
        tool_call_id: The call.
        tool: The tool's name.
        arguments_at: The `seq` of the event that has the arguments: a `model_answered`, or a `suspension_settled` that edited
            them; of a call of Holdfast's own its `call_suspended`.
        on_lost: What happens if the call's run is lost.
        rule: The name of the permission rule that lets the call run or asks about it; empty if no rule does.
        targets: What the call touches; None if its tool does not say.
        approvers: Who may decide the call; None: anybody may.
    """

    tool_call_id: str
    tool: str
    arguments_at: int
    on_lost: OnLost = OnLost.REDISPATCH
    rule: str = ""
    targets: tuple[CallTarget, ...] | None = None
    approvers: ApproverTerms | None = None

    def carried(self, into: Callable[..., _R], **rest: Any) -> _R:
        """A value of another class about the same call, with the fields that both classes have, and `rest`."""
        return into(**{name: getattr(self, name) for name in _both(type(self), into)} | rest)


@cache
def _both(one: type[Record], other: Any) -> frozenset[str]:
    names = other.model_fields.keys() if issubclass(other, Record) else {field.name for field in fields(other)}
    return frozenset(one.model_fields.keys() & names - {"kind", "at"})


class Call(CallDetails):
    """One call of the current turn. Its arguments stay in the log.

    `attempt` counts its runs, `resumed` those that followed a decision on a suspension of the previous run. `decided_at` is the
    `seq` of the decision that its next or current run follows from; 0: none. `held_at` is the `seq` of the event with a held
    call's prompt, `held_until` (ms UTC) when it may begin at the earliest (0: no time). `grants` are the ids of the grants by
    which it runs. `fulfilled` are the terms under which these arguments were approved; `()`: anybody could approve them, None:
    not approved yet. `passed_at` is the `seq` of the decision that its body is given; 0: none. `share` conversations may
    stand below the one that it is delegated to. `claims` counts how often clients have claimed it.
    """

    LAST: ClassVar[str] = (
        "arguments_at attempt suspensions suspension on_lost resumed decided_at held_at "
        "rule targets grants approvers fulfilled passed_at share held_until claims"
    )
    executor: Executor = Executor.SERVER
    approval: Approval = Approval.AUTO
    status: CallStatus
    attempt: int = 0
    suspensions: int = 0
    suspension: Suspension | None = None
    resumed: int = 0
    decided_at: int = 0
    held_at: int = 0
    grants: tuple[str, ...] = ()
    fulfilled: tuple[ApproverTerms, ...] | None = None
    passed_at: int = 0
    share: int = 0
    held_until: int = 0
    claims: int = 0

    @property
    def due_at(self) -> int | None:
        """When something is due for it, in ms UTC: what its suspension says, or its begin; None if it waits for no time."""
        if self.suspension is not None:
            return self.suspension.due_at
        return self.held_until or None if self.status is CallStatus.HELD else None

    @property
    def effect_id(self) -> str:
        """The id of the run that is outstanding while the call is running."""
        return run_effect_id(self.tool_call_id, self.attempt)

    @property
    def undecided(self) -> bool:
        """Whether the call waits for a person before anything is done with it."""
        return self.suspension is not None and self.suspension.kind in FIRST_WORDS

    def waits_for_only(self, principal: Principal) -> bool:
        """Whether the call waits for the word of this principal, and nobody else may give it."""
        asks = self.undecided or (self.suspension is not None and self.suspension.kind is SuspensionKind.REVIEW)
        return asks and self.deciders is not None and self.deciders.is_alone(principal)

    @property
    def deciders(self) -> ApproverTerms | None:
        """Who may settle the open suspension; None: anybody may."""
        if self.suspension is None:
            return None
        return self.suspension.approvers if self.suspension.own else self.approvers

    @property
    def replaced(self) -> ApproverTerms | None:
        """Who could settle the open suspension before its first escalation; None: anybody, or it has had none."""
        if self.suspension is None or self.suspension.stage_at <= self.suspension.created_at:
            return None
        return self.approvers if self.suspension.replaced is None else self.suspension.replaced

    @property
    def needed(self) -> int:
        """How many must agree before the open suspension is settled; 0 if one is enough."""
        return 0 if self.deciders is None or self.deciders.minimum == 1 else self.deciders.minimum

    def edited(self, seq: int) -> "Call":
        """The call with the edited arguments of the event at `seq`; the approvers at the edit stay.

        The tool named the targets of the model's arguments, not of these: no grant covers them.
        """
        targets = None if self.targets is None else ()
        return self.model_copy(update={"arguments_at": seq, "targets": targets, "approvers": self.deciders})

    def passes(self, suspension: Suspension, decision: DecisionKind | None) -> bool:
        """Whether a decision is passed to the call's body as a value, instead of being the result itself."""
        to_tool = suspension.resume is Resume.PASS_TO_TOOL and self.executor is Executor.SERVER
        return to_tool and decision in (DecisionKind.ANSWER, DecisionKind.REVIEW)

    def is_approved(self, terms: ApproverTerms | None = None) -> bool:
        """Whether the call's arguments are approved under its own terms and, if given, these."""
        return self.fulfilled is not None and not self.unfulfilled(terms)

    def unfulfilled(self, terms: ApproverTerms | None) -> list[ApproverTerms]:
        """The terms, of the call's own and these, under which its arguments are not approved yet."""
        wanted = [one for one in (self.approvers, terms) if one is not None]
        return [one for one in wanted if not any(given.implies(one) for given in self.fulfilled or ())]

    @property
    def is_shown(self) -> bool:
        """Whether somebody outside is shown the call before it runs."""
        return self.executor is not Executor.SERVER or self.approval is Approval.REQUIRED

    def asks_questions(self, spec: AgentSpec | None) -> bool:
        """Whether the call's arguments are questions for a person."""
        tool = spec.tool(self.tool) if spec is not None else None
        return tool is not None and tool.questions

    def places_of_timeout(self, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of what says what follows at the call's deadline, besides the spec."""
        if self.suspension is None:
            return ()
        tool = spec.tool(self.tool) if spec is not None else None
        asked = (self.arguments_at,) if tool is not None and tool.questions and tool.on_timeout.default is not None else ()
        return (*((self.suspension.seq,) if self.suspension.staged else ()), *asked)

    @property
    def open(self) -> bool:
        """Whether the turn still waits for this call."""
        return self.status in (CallStatus.RUNNING, CallStatus.AWAITING, CallStatus.HELD)


def run_effect_id(tool_call_id: str, attempt: int) -> str:
    """The id of one run of a call."""
    return f"{tool_call_id}#{attempt}"


MS = "In integer milliseconds UTC."


class VoteView(Record):
    """A person's yes to a call that several must approve, as it is shown."""

    by: Principal
    at: int = Field(description=MS)
    decision: DecisionKind
    value: Any = Field(default=None, description="What the decision says: an answer, or a review's verdict and notes.")
    reason: str = ""


class CommentView(Record):
    """A comment on a pending call, for its other approvers."""

    by: Principal | None = Field(description="Who wrote it; None if unknown.")
    at: int = Field(description=MS)
    text: str


class ClaimView(Record):
    """The client that executes a call."""

    client_id: str = Field(description="The client's id, in the name space of its principal.")
    by: Principal | None = Field(default=None, description="Who the client acts for; None if nobody said so.")
    at: int = Field(description=MS)


class Cut(Record):
    """A field that is too long for a list."""

    size_bytes: int = Field(description="The size of the field's text; of a JSON value, that of its JSON text.")
    begins: str = Field(default="", description="Its first characters.")


class PendingView(Record):
    """A suspended call, as it is shown to its approvers.

    The only list of these fields: clients, the server, its description and the types of pages use it.
    """

    conversation_id: str
    agent: str = Field(default="", description="The name of the conversation's agent.")
    tool_call_id: str = ""
    suspension_id: str = Field(
        description="The id of this wait: a decision that names it is for this call and these arguments."
    )
    tool: str = Field(default="", description="The tool's name.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The arguments, a JSON object.")
    executor: Executor | None = Field(default=None, description="Who produces the result.")
    kind: SuspensionKind | None = Field(default=None, description="The kind of decision that the call waits for.")
    prompt: str | None = Field(default=None, description="The tool's question to a person, if it has one.")
    response_schema: dict[str, Any] | bool | None = Field(
        default=None, description="The JSON Schema that an answer must fit, if there is one."
    )
    created_at: int = Field(description="Since when the call waits, in integer milliseconds UTC.")
    expires_at: int | None = Field(
        default=None, description="The deadline, in integer milliseconds UTC; None if the call has none."
    )
    problem: str | None = Field(
        default=None,
        description="Why part of the call cannot be read: a newer Holdfast wrote it, the store is corrupt, it nests too "
        "deeply, or it is gone. Fields that could not be read are empty or None.",
    )
    batch_id: str = Field(
        default="", description="The model call whose answer asked for the call; calls of one answer have the same."
    )
    decisions: tuple[str, ...] = Field(
        default=(),
        description="The decisions that settle it. For an approval: `cancel` and what its tool allows of `approve`, `edit`, "
        "`deny` and `answer`. While a client executes it: `cancel`; the client itself answers with its `client_id`.",
    )
    title: str | None = Field(default=None, description="What a review is about, in one line.")
    action: str | None = Field(default=None, description="What a review asks for, in one word.")
    report_md: str | None = Field(
        default=None,
        description="The report for the reviewer, in markdown. A tool wrote it: trust it no more than its arguments.",
    )
    payload: Any = Field(default=None, description="What a review is about, as a JSON value.")
    rule: str = Field(default="", description="The permission rule that asks for an approval; empty if no rule does.")
    rule_reason: str = Field(default="", description="Why the permission rules ask, in the rule's words.")
    targets: tuple[CallTarget, ...] | None = Field(
        default=None,
        description="What the call touches, which a grant for it has to cover. Empty: its tool cannot tell, and no grant "
        "covers the call. None: its tool does not say, and a grant for the tool covers it.",
    )
    approvers: ApproverTerms | None = Field(
        default=None, description="Who may decide the call, and how many must agree; None: anybody with the right to decide."
    )
    requester: Principal | None = Field(default=None, description="Who sent the message that led to the call; None if unknown.")
    votes: tuple[VoteView, ...] = Field(default=(), description="The votes so far, if several people must agree.")
    assigned: str = Field(default="", description="Who the call is assigned to; empty for nobody.")
    comments: tuple[CommentView, ...] = Field(default=(), description="The approvers' comments for each other.")
    escalated_at: int | None = Field(
        default=None,
        description="Since when its approvers decide in the place of others, in integer milliseconds UTC; None if they do not.",
    )
    snoozed: dict[str, int] = Field(
        default_factory=dict,
        description='Until when it is hidden from the lists of those who said "not now", in integer milliseconds UTC, by their '
        "proof and id (`key:ana`).",
    )
    questions: tuple[Question, ...] | None = Field(
        default=None,
        description="The questions of a call of `ask_user_questions`, which takes `{id: value}` as an answer; None for every "
        "other call.",
    )
    path: tuple[Ancestor, ...] = Field(
        default=(),
        description="The conversations above the call's own, the root first, if another one has delegated to it.",
    )
    claimed: ClaimView | None = Field(
        default=None, description="The client that executes it; None if none does. Others can only cancel it then."
    )
    attempt: int = Field(default=0, description="How often clients have claimed it so far.")
    cut: dict[str, Cut] = Field(
        default_factory=dict,
        description="The fields that are too long for a list, by name: there they are empty or None; the call by itself has "
        "them whole. If `votes` or `comments` are too long together, each text is shortened and ends in `…`.",
    )
