"""The objects that a client returns: pages, events, pending and running calls, states and rows."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from holdfast.conversation import (
    Approve,
    Decision,
    Executor,
    FailureReason,
    Receipt,
    Redispatch,
    Review,
    State,
    Status,
    StopReason,
)
from holdfast.conversation import Event as RecordedEvent
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import CallSuspended
from holdfast.conversation.records.live import LiveEvent
from holdfast.conversation.records.rounds import WaitsFor
from holdfast.conversation.records.state import RESTING
from holdfast.errors import InvalidDecision, InvalidInput, StaleCall, StaleReason

from .gateway import Gateway
from .operation import Verb, encodes, judged

T = TypeVar("T")
C = TypeVar("C", bound=PendingView)
R = TypeVar("R")
EventBody: TypeAlias = RecordedEvent | LiveEvent
"""The classes of `holdfast.events`, one for each kind of event."""


class Result(BaseModel):
    """A frozen object that a client returns and a server replies with; fields that a later server adds are ignored."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Page(Result, Generic[T]):
    """One page of a list."""

    items: list[T] = Field(description="The entries of the page, oldest first.")
    next: str | None = Field(default=None, description="Pass it as `after` for the page that follows; None at the end.")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a conversation.

    Recorded events come in the log's order and without gaps. Live ones (`TextDelta`, `ReasoningDelta`,
    `ArgumentsDelta`, `ProgressReported`) are lossy. `docs/events.md` lists every kind with its fields.

    Attributes:
        kind: The kind, as in `call_suspended`.
        seq: The event's place in the log, from 1; None for a live event.
        at: When it happened, in integer milliseconds UTC.
        data: The fields of `body` but `kind` and `at`, as plain JSON values. A `call_suspended` also has the call's
            `arguments`, to which its body only refers.
        body: The event as a frozen object of its class in `holdfast.events`, to match on:
            `match event.body: case CallSuspended(prompt=prompt): ...`.
        conversation_id: Whose event it is, in a stream with `descendants`; else empty.
        cursor: The place of a recorded event in a stream with `descendants`, to pass as `after`; else None.
    """

    kind: str
    seq: int | None
    at: int
    data: Mapping[str, Any]
    body: EventBody = field(repr=False)
    conversation_id: str = ""
    cursor: str | None = field(default=None, repr=False)

    @classmethod
    def recorded(cls, seq: int, body: RecordedEvent, *, arguments: Mapping[str, Any] | None = None) -> "Event":
        """The recorded event at a place in the log; for a `CallSuspended`, with the arguments of its call."""
        data = body.model_dump(mode="json", exclude={"kind", "at"})
        if isinstance(body, CallSuspended):
            data["arguments"] = arguments
        return cls(body.kind, seq, body.at, data, body)

    @classmethod
    def live(cls, body: LiveEvent) -> "Event":
        """The live event with this body."""
        return cls(body.kind, None, body.at, body.model_dump(mode="json", exclude={"kind", "at"}), body)

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments of the call that a `call_suspended` is about; else None.

        They are None too if they cannot be read or are larger than 1 MiB; `Conversation.pending` has the large ones.
        """
        return self.data["arguments"] if isinstance(self.body, CallSuspended) else None


def exactly(call: C, suspension_id: str) -> C:
    """The call, if that is its whole id: nobody decides or notes by a beginning, which may soon be another call's.

    Raises:
        InvalidInput: The id is only the beginning of the call's.
    """
    if call.suspension_id != suspension_id:
        problem = f"{suspension_id} is only the beginning of {call.suspension_id}"
        raise InvalidInput("suspension_id", problem, "give the whole id of the call that was shown")
    return call


class PendingCall(PendingView, Generic[R]):
    """A suspended call as a person is shown it; `resolve` decides exactly the call that is shown.

    `resolve` returns a `Receipt` (with `AsyncClient`, an awaitable of one). A call with a `problem` can still be denied,
    answered or failed if its `tool_call_id` is known. Arguments that are not shown cannot be approved: neither unreadable ones
    nor long ones that a list leaves out (`cut`); `AsyncClient.pending_call` shows the latter.
    """

    model_config = ConfigDict(extra="ignore", defer_build=True)
    _resolve: Callable[..., R] = PrivateAttr()

    def __class_getitem__(cls, _: Any) -> Any:
        """The class itself: only type checkers need the type that `resolve` returns, and a class for it costs milliseconds."""
        return cls

    @classmethod
    def of(cls, view: PendingView, resolve: Callable[..., R]) -> "PendingCall[R]":
        """The call that a view, or another pending call, shows, decided by `resolve`."""
        call = cls.model_construct(**dict(view))
        call._resolve = resolve  # noqa: SLF001 - its own
        return call

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingCall) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def resolve(self, decision: Decision, *, decision_id: str | None = None, client_id: str | None = None) -> R:
        """Decide this call, in the phase and with the arguments that are shown here.

        Args:
            decision: One that is among the call's `decisions`.
            decision_id: The idempotency key; the same key again returns the same receipt. None draws a random key.
            client_id: The client that has claimed the call, if it is that client's result.

        Raises:
            HoldfastError: The errors of `AsyncClient.resolve`; `InvalidDecision` also for arguments that could not be shown.
        """
        self.check_shown(decision)
        said = {"suspension_id": self.suspension_id, "decision_id": decision_id}
        said |= {} if client_id is None else {"client_id": client_id}
        return self._resolve(self.conversation_id, self.tool_call_id, decision, **said)

    def check_shown(self, decision: Decision) -> None:
        """Refuse, with `InvalidDecision`, to let a call run whose id or arguments could not be shown."""
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
            fix = "deny or fail it, approve with arguments of your own, or resolve its suspension_id with Client.resolve()"
            raise InvalidDecision("decision", f"not all of the call could be shown ({self.problem})", fix)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return self.model_dump(mode="json")


AsyncPendingCall = PendingCall[Awaitable[Receipt]]
BlockingPendingCall = PendingCall[Receipt]


def resolver(gateway: Gateway, verb: Verb[Receipt]) -> Callable[..., Coroutine[Any, Any, Receipt]]:
    """The function by which a `PendingCall` decides itself: `verb` takes the ids that the call was shown with."""

    async def resolve(
        conversation_id: str,
        tool_call_id: str,
        decision: Decision,
        *,
        suspension_id: str | None = None,
        decision_id: str | None = None,
        **client_id: str,
    ) -> Receipt:
        ids = {"conversation_id": conversation_id, "tool_call_id": tool_call_id, "suspension_id": suspension_id}
        given = {**ids, "decision": decision, "decision_id": decision_id, **client_id}
        arguments = await judged(partial(verb.checked, given), decision)
        if not (encodes(tool_call_id) and encodes(suspension_id or "")):
            raise StaleCall(conversation_id, ascii(tool_call_id), StaleReason.UNKNOWN)
        return await gateway.ask(verb, arguments)

    return resolve


class Link(Result):
    """A link by which one principal decides one pending call. Whoever has it can use it: it is a secret."""

    url: str = Field(repr=False, description="The address of its page, under `HOLDFAST_PUBLIC_URL` of who made it.")
    token: str = Field(repr=False, description="The end of the address, which `redeem` takes; at most 700 characters.")
    expires_at: int = Field(description="When it ends, in integer milliseconds UTC.")


class RunningCall(Result):
    """A call that runs, or waits for a worker."""

    tool_call_id: str
    tool: str = Field(description="The tool's name.")
    arguments: str = Field(description="The arguments' JSON text, cut off after 500 characters (its end is `…`).")
    since: int = Field(description="When this run was scheduled, in integer milliseconds UTC.")
    attempt: int = Field(description="The number of this run of the call, from 1.")
    executor: Executor = Field(description="Who produces the result.")
    progress: Mapping[str, Any] | None = Field(
        default=None,
        description="The last report of a streaming tool: `value`, `message` and `at` (integer milliseconds UTC), those of "
        "`status`, `loaded` and `total` that it gave, and `truncated` if the report was too large to be kept whole.",
    )
    grants: tuple[str, ...] = Field(
        default=(), description="The ids of the grants by which it runs without anybody's approval."
    )


class LateResult(Result):
    """A result that came after its call was settled, and changed nothing."""

    effect_id: str = Field(description="The effect whose outcome it was: the call's id and the number of its run.")
    at: int = Field(description="When it came, in integer milliseconds UTC.")
    content: str | None = Field(
        description="The result or the error, cut off after 500 characters (its end is `…`); None without one."
    )
    problem: str | None = Field(default=None, description="Why the result cannot be read; None if it can.")


class Wait(Result):
    """A call that waits for another conversation, its child."""

    tool_call_id: str
    tool: str = Field(description="The tool's name.")
    conversation_id: str = Field(description="The child, which may not have started yet.")
    since: int = Field(description="Since when the call waits, in integer milliseconds UTC.")
    expires_at: int = Field(description="The deadline, in integer milliseconds UTC; the child ends with it.")


class ConversationState(Result, Generic[R]):
    """Where a conversation stands."""

    conversation_id: str = ""
    status: Status = Field(description="`quarantined` if the conversation's own work took processes down.")
    turn_id: str | None = Field(description="The current turn, else the last one; None before the first.")
    reply: str | None = Field(description="The text of the last completed turn's answer.")
    value: dict[str, Any] | None = Field(
        default=None, description="The object in `reply`, if the agent's `reply=` gives replies a shape; None otherwise."
    )
    error: str | None = Field(description="The error of the last turn, if it failed, or the reason of the quarantine.")
    failed: FailureReason | None = Field(default=None, description="Why the last turn failed; None if it did not.")
    stopped: StopReason | None = Field(
        default=None, description="What cut the last reply off, or stopped the last turn; None if the reply is whole."
    )
    detail: str = Field(default="", description="The bound of the agent's `Stop` that ended the last turn; empty otherwise.")
    pending: list[PendingCall[R]] = Field(description="The calls that wait for a decision, in the model's order.")
    running: list[RunningCall] = Field(description="The calls that run, in the model's order.")
    seq: int = Field(description="The place of the last event in the log; pass it as `after`.")
    agent: str = Field(default="", description="The name of the conversation's agent.")
    app: str = Field(default="", description="The import path of the agent's app.")
    created_at: int = Field(default=0, description="When it was started, in integer milliseconds UTC.")
    updated_at: int = Field(default=0, description="When it last changed, in integer milliseconds UTC.")
    problem: str | None = Field(default=None, description="Why workers cannot run the app; None if no problem is known.")
    late: list[LateResult] = Field(default_factory=list, description="The results that came after their calls were settled.")
    attended: bool = Field(default=True, description="Whether there is somebody to ask, as the conversation was started.")
    waits_for: WaitsFor | None = Field(
        default=None,
        description="Whom its suspended calls wait for: `people` if any does; `machines` if nobody has to do anything; None "
        "if no call is suspended.",
    )
    waits: list[Wait] = Field(
        default_factory=list, description="The calls that wait for other conversations, in the model's order."
    )

    def __class_getitem__(cls, _: Any) -> Any:
        return cls


def rests(state: ConversationState[Any] | State, after: int | None) -> bool:
    """Whether `wait` returns this state: in quarantine, or at rest beyond the place `after` in its log.

    A conversation that waits for machines alone does not rest.
    """
    beyond = after is None or state.seq > after or state.status is Status.ENDED
    rest = state.status in RESTING and state.waits_for is not WaitsFor.MACHINES
    return state.status is Status.QUARANTINED or (rest and beyond)
