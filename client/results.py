"""The objects that a client returns: pages, events, pending and running calls, states and rows."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.conversation import (
    Approve,
    ApproverTerms,
    CallTarget,
    Decision,
    Executor,
    FailureReason,
    Principal,
    Question,
    Receipt,
    Redispatch,
    Review,
    Status,
    StopReason,
    SuspensionKind,
)
from holdfast.conversation import Event as RecordedEvent
from holdfast.conversation.calls import CommentView, Cut, PendingView, VoteView
from holdfast.conversation.events import CallSuspended
from holdfast.conversation.live import LiveEvent
from holdfast.errors import InvalidDecision

T = TypeVar("T")
R = TypeVar("R")
EventBody: TypeAlias = RecordedEvent | LiveEvent
"""The classes of `holdfast.events`, one for each kind of event."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: The entries of the page, oldest first.
        next: The cursor to pass as `after` for the page that follows; None at the end.
    """

    items: list[T]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a conversation.

    Recorded events come in the log's order and without gaps. Live ones (`TextDelta`, `ReasoningDelta`,
    `ArgumentsDelta`, `ProgressReported`) are lossy. `docs/events.md` lists every kind with its fields.

    Attributes:
        kind: The kind, as in `call_suspended`; `body` is of the class that belongs to it.
        seq: The event's place in the log, from 1; None for a live event.
        at: When it happened, in integer milliseconds UTC.
        data: The fields of `body` but `kind` and `at`, as plain JSON values. With a `call_suspended` come the call's
            `arguments`, which the body refers to.
        body: The event as a frozen object of its class in `holdfast.events`, to match on:
            `match event.body: case CallSuspended(prompt=prompt): ...`.
    """

    kind: str
    seq: int | None
    at: int
    data: Mapping[str, Any]
    body: EventBody = field(repr=False)

    @classmethod
    def recorded(cls, seq: int, body: RecordedEvent, *, arguments: Mapping[str, Any] | None = None) -> "Event":
        """The recorded event at a place in the log; a `CallSuspended` comes with the arguments of its call."""
        data = body.model_dump(mode="json", exclude={"kind", "at"})
        if isinstance(body, CallSuspended):
            data["arguments"] = arguments
        return cls(body.kind, seq, body.at, data, body)

    @classmethod
    def live(cls, body: LiveEvent) -> "Event":
        """The live event of this body."""
        return cls(body.kind, None, body.at, body.model_dump(mode="json", exclude={"kind", "at"}), body)

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments of the call that a `call_suspended` is about; else None.

        The arguments are None too if they cannot be read or are larger than 1 MiB; `Conversation.pending` has the large ones.
        """
        return self.data["arguments"] if isinstance(self.body, CallSuspended) else None


@dataclass(frozen=True, slots=True)
class PendingCall(Generic[R]):
    """A suspended call as it is shown to a person who may resolve it; `resolve` decides exactly the call that is shown.

    `resolve` returns a `Receipt` (with `AsyncClient`, an awaitable of one). A call with a `problem` can still be denied,
    answered or failed if its `tool_call_id` is known; arguments that could not be shown cannot be approved. Nor can those that
    a list leaves out for their length (`cut`): `AsyncClient.pending_call` shows the call whole.

    Attributes:
        conversation_id: The conversation's id.
        agent: The name of the conversation's agent.
        tool_call_id: The call's id.
        suspension_id: The id that binds a decision to this call, this phase and these arguments.
        tool: The tool's name.
        arguments: The arguments, a JSON object.
        executor: Who produces the result.
        kind: The kind of decision that the call waits for.
        prompt: The tool's question to a person, if it has one.
        response_schema: The JSON Schema that an answer must fit, if there is one.
        created_at: Since when the call waits, in integer milliseconds UTC.
        expires_at: The deadline, in integer milliseconds UTC; None if the call has none.
        batch_id: The model call whose answer asked for the call: what has the same came with one answer.
        decisions: What may be decided. For an approval: `approve`, `edit`, `deny`, `answer`, as its tool allows, and `cancel`;
            else kinds of decisions.
        title: What a review is about, in one line.
        action: What a review asks for, in one word.
        report_md: What a reviewer is to read, in markdown: a tool's words, and not to be trusted more than its arguments.
        payload: What a review is about, as a JSON value.
        rule: The name of the permission rule that asks for an approval; empty where none by itself does.
        rule_reason: Why the permission rules ask, in the rule's words; empty where it says nothing.
        targets: What the call touches, each with `kind`, `value` and `level`: what a grant for it has to cover. Empty where its
            tool cannot tell, and no grant covers it; None where its tool does not say, and a grant for the tool covers it.
        questions: The questions of a call of `ask_user_questions`: what an `Answer` of `{id: value}` is judged by; None for
            every other call.
        approvers: Who may decide the call (`who`: lists of roles and ids, of each of which whoever decides is one) and how many
            have to agree (`minimum`); None where whoever may decide at all may.
        requester: Who sent the message that led to the call; None where nobody said.
        votes: Who has agreed so far, where several have to: each with `by`, `at`, `decision`, `value` and `reason`.
        assigned: Who has taken the call on (`Conversation.assign`); empty where nobody has.
        comments: What those who may decide wrote to each other (`Conversation.comment`): each with `by`, `at` and `text`.
        problem: Why not all of the call can be read: a newer Holdfast wrote it, the store is corrupt, it nests too deeply, or
            it is gone. Fields that could not be read are empty or None.
        cut: The fields that are too long for this list (of more than 4 KiB), by their names: each with `size_bytes` and
            `begins`, its first characters. They are empty or None here. Of `votes` and `comments` that are too long together
            each is shortened (`…` at its end says so).
    """

    conversation_id: str
    agent: str
    tool_call_id: str
    suspension_id: str
    tool: str
    arguments: dict[str, Any]
    executor: Executor | None
    kind: SuspensionKind | None
    prompt: str | None
    response_schema: dict[str, Any] | bool | None
    created_at: int
    expires_at: int | None
    problem: str | None
    batch_id: str
    decisions: tuple[str, ...]
    title: str | None
    action: str | None
    report_md: str | None
    payload: Any
    rule: str
    rule_reason: str
    targets: tuple[CallTarget, ...] | None
    questions: tuple[Question, ...] | None
    approvers: ApproverTerms | None
    requester: Principal | None
    votes: tuple[VoteView, ...]
    assigned: str
    comments: tuple[CommentView, ...]
    cut: Mapping[str, Cut]
    _resolve: Callable[..., R] = field(repr=False, compare=False)

    @classmethod
    def of(cls, view: PendingView, resolve: Callable[..., R]) -> "PendingCall[R]":
        """The pending call that a view shows."""
        return cls(**{name: getattr(view, name) for name in PendingView.model_fields}, _resolve=resolve)

    def resolve(self, decision: Decision, *, decision_id: str | None = None) -> R:
        """Decide this call, in the phase and with the arguments that are shown here.

        Args:
            decision: One that is among the call's `decisions`.
            decision_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            StaleCall: The call does not wait for this decision any more.
            InvalidDecision: The decision does not fit, or concerns arguments that could not be shown; the call still waits.
            NotPermitted: Whoever the client acts as may not decide the call; it still waits.
            AlreadyVoted: The same person has agreed before, and others have to; the call still waits.
            HoldfastError: Any other error that `AsyncClient.resolve` names.
        """
        self.check_shown(decision)
        return self._resolve(
            self.conversation_id,
            self.tool_call_id,
            decision,
            suspension_id=self.suspension_id,
            decision_id=decision_id,
        )

    def check_shown(self, decision: Decision) -> None:
        """Refuse a decision that lets a call run which could not be shown whole.

        Raises:
            InvalidDecision: It would run with arguments that nobody has seen, or the call itself is not known.
        """
        unseen = (isinstance(decision, Approve) and decision.arguments is None) or isinstance(decision, Redispatch | Review)
        if self.cut and unseen:
            fix = "look at it whole: client.pending_call(suspension_id, conversation_id=…), and resolve that"
            raise InvalidDecision("decision", f"the list does not show the call's {', '.join(self.cut)} whole", fix)
        if self.problem is None:
            return
        if not (self.conversation_id and self.tool_call_id):
            fix = "look at the conversation with `holdfast show`; its deadline ends the call by itself"
            raise InvalidDecision("tool_call_id", f"the call cannot be read ({self.problem})", fix)
        if unseen:
            fix = "deny or fail it, approve with arguments of your own, or resolve it by its ids with Client.resolve()"
            raise InvalidDecision("decision", f"not all of the call could be shown ({self.problem})", fix)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {name: _plain(getattr(self, name)) for name in PendingView.model_fields}


def _plain(value: Any) -> Any:
    """A field as plain JSON values: records, questions and principals as objects, and several of them as lists."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict) and any(isinstance(one, Cut) for one in value.values()):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Question):
        return value.to_dict()
    if isinstance(value, Principal):
        return {"id": value.id, "roles": list(value.roles), "proof": value.proof.value}
    if (isinstance(value, tuple) and not all(isinstance(one, str) for one in value)) or value == ():
        return [_plain(one) for one in value]
    return value


AsyncPendingCall = PendingCall[Awaitable[Receipt]]
BlockingPendingCall = PendingCall[Receipt]


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A call that runs, or waits for a worker.

    Attributes:
        tool_call_id: The call's id.
        tool: The tool's name.
        arguments: The arguments' JSON text, cut off after `SHORT_LENGTH` characters (`…` at the end says so).
        since: When this run was scheduled, in integer milliseconds UTC.
        attempt: The number of this run of the call, from 1.
        executor: Who produces the result.
        progress: The last report of a streaming tool: `value`, `message` and `at` (integer milliseconds UTC), those of
            `status`, `loaded` and `total` that it gave, and `truncated` if the report was too large to be kept whole. None if
            the tool has reported nothing.
        grants: The ids of the grants by which it runs without anybody's approval.
    """

    tool_call_id: str
    tool: str
    arguments: str
    since: int
    attempt: int
    executor: Executor
    progress: Mapping[str, Any] | None = None
    grants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LateResult:
    """A result that came after its call was settled, and changed nothing.

    Attributes:
        effect_id: The effect whose outcome it was: the call's id and the number of its run.
        at: When it came, in integer milliseconds UTC.
        content: The result or the error, cut off after `SHORT_LENGTH` characters (`…` at the end says so); None without one.
        problem: Why the result cannot be read; None if it can.
    """

    effect_id: str
    at: int
    content: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationState(Generic[R]):
    """Where a conversation stands.

    Attributes:
        status: The status; `quarantined` if the conversation's own work took processes down.
        turn_id: The id of the current turn, else of the last turn; None before the first.
        reply: The text of the last completed turn's answer.
        error: The error of the last turn, if it failed, or the reason of the quarantine.
        pending: The calls that wait for a decision, in the model's order.
        running: The calls that run, in the model's order.
        seq: The place of the last event in the log; pass it as `after`.
        stopped: What cut the last reply off; None if it is whole.
        failed: Why the last turn failed; None if it did not.
        agent: The name of the conversation's agent.
        app: The import path of the agent's app.
        created_at: When the conversation was started, in integer milliseconds UTC.
        updated_at: When it last changed, in integer milliseconds UTC.
        problem: Why workers cannot run the app; None if no problem is known.
        late: The results that came after their calls were settled.
        attended: Whether there is somebody to ask, as the conversation was started.
    """

    status: Status
    turn_id: str | None
    reply: str | None
    error: str | None
    pending: list[PendingCall[R]]
    running: list[RunningCall]
    seq: int
    stopped: StopReason | None = None
    failed: FailureReason | None = None
    agent: str = ""
    app: str = ""
    created_at: int = 0
    updated_at: int = 0
    problem: str | None = None
    late: list[LateResult] = field(default_factory=list)
    attended: bool = True
