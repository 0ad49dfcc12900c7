"""The judgement that `decide` returns, its replies, and the draft in which it is made: each event is folded at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import Field

from holdfast.conversation.log.auditing import linked
from holdfast.conversation.log.fold import evolve
from holdfast.conversation.record import Record
from holdfast.conversation.records.calls import CallDetails
from holdfast.conversation.records.command_base import Request
from holdfast.conversation.records.commands import Command, ModelReplied
from holdfast.conversation.records.event_base import ChainLink
from holdfast.conversation.records.events import Event
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.spec import AgentSpec, ToolSpec
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput


class Receipt(Record):
    """The durable acknowledgement of a start, message, decision or end."""

    conversation_id: str
    seq: int = Field(description="The place in the log of the event that records the request.")
    accepted_at: int = Field(description="The time of that event, in integer milliseconds UTC.")
    duplicate: bool = Field(default=False, description="Whether the request was recorded before, under the same key.")
    settled: bool = Field(default=True, description="Whether the call is decided; false if others must agree, too.")
    votes: int = Field(default=0, description="How many people have agreed, this one included; 0 if one is enough.")
    needed: int = Field(default=0, description="How many people must agree; 0 if one is enough.")
    audit_head: str = Field(
        default="",
        description="The head of the audit chain after the request; empty for an assignment or a comment, which it leaves out.",
    )


class ClaimReceipt(Receipt):
    """The durable acknowledgement of a client's claim of a call."""

    attempt: int = Field(default=0, description="Which claim of the call it is, from 1.")


class Cancelled(Record):
    """The calls that a cancellation cancelled, and their turn."""

    conversation_id: str
    turn_id: str | None = Field(
        default=None,
        description="The turn of the calls, or the id of a summary in place of one; None if there was nothing to cancel.",
    )
    calls: tuple[str, ...] = Field(default=(), description="The ids of the calls that were cancelled.")
    duplicate: bool = Field(default=False, description="Whether the cancellation was recorded before, under the same key.")
    running: tuple[str, ...] = Field(
        default=(), description="The cancelled calls whose bodies still ran when this was returned (`wait_s` waits for them)."
    )
    audit_head: str = Field(
        default="", description="The head of the audit chain after the cancellation; empty if there was nothing to cancel."
    )


class Interrupted(Record):
    """What an interruption cancelled and superseded; `seq` and `accepted_at` are those of its message, if it has one."""

    conversation_id: str
    seq: int = Field(description="The place in the log of the event that records its message, or else the interruption.")
    accepted_at: int = Field(description="The time of that event, in integer milliseconds UTC.")
    turn_id: str | None = Field(
        default=None, description="The turn that was cancelled, or the id of a summary in place of one; None if there was none."
    )
    cancelled: tuple[str, ...] = Field(default=(), description="The ids of the calls that were cancelled.")
    superseded: tuple[str, ...] = Field(default=(), description="The ids of the messages that are never answered.")
    epoch: int = Field(default=0, description="How often the conversation has been interrupted, this time included.")
    duplicate: bool = Field(default=False, description="Whether the interruption was recorded before, under the same key.")
    audit_head: str = Field(
        default="", description="The head of the audit chain after it; empty if there was nothing to interrupt."
    )


class Receipts(Record):
    """The durable acknowledgement of several decisions: a receipt for each, in their order."""

    receipts: tuple[Receipt, ...]


Reply: TypeAlias = Receipt | Receipts | Cancelled | Interrupted | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The events that a command leads to, in order, and the caller's reply once the events are durable.

    `ignored` is the reason if the command was deliberately ignored; `state` is the state after the events, None if there are
    none. `due_at` is when something is due next (ms UTC), if the state cannot say it, which does not know the attached clients.
    A request that changes nothing has no event: `passing` holds its idempotency record by key, which the store keeps for a
    while only.
    """

    events: tuple[Event, ...] = ()
    reply: Reply = None
    ignored: str | None = None
    state: State | None = None
    passing: Mapping[str, IdempotencyRecord] = field(default_factory=dict)
    due_at: int | None = None

    def then(self, later: "Judgement") -> "Judgement":
        """This judgement and one that was made on the state after it, as one judgement for one write."""
        return Judgement((*self.events, *later.events), self.reply, state=later.state or self.state)


@dataclass(slots=True)
class Draft:
    """A judgement in the making: each event is folded at once, so the next one is judged on the state after it."""

    state: State
    command: Command
    events: list[Event] = field(default_factory=list)
    calls_model: bool = field(init=False)

    def __post_init__(self) -> None:
        # Whether a model call goes on that the command does not end.
        self.calls_model = self.state.model_called and not isinstance(self.command, ModelReplied)

    @property
    def now(self) -> int:
        """The time of the command, in ms UTC."""
        return self.command.now

    @property
    def spec(self) -> AgentSpec | None:
        """The spec that the turn runs with."""
        return self.command.spec

    @property
    def principal(self) -> Principal | None:
        """The sender of the command; None if unknown."""
        return self.command.principal if isinstance(self.command, Request) else None

    @property
    def batch_id(self) -> str:
        """The batch id of the calls in the turn's last answer; empty between turns."""
        return "" if self.state.turn is None else self.state.turn.batch_id

    def tool_of(self, call: CallDetails) -> ToolSpec:
        """The call's tool in the spec; if the spec lacks it, a tool with only a name."""
        return (self.spec.tool(call.tool) if self.spec is not None else None) or ToolSpec(name=call.tool)

    def emit(self, event: Event) -> int:
        """Add an event, linked into the audit chain if it is audited; returns its `seq`."""
        event = linked(self.state, event, self.command.salt)
        self.events.append(event)
        self.state = evolve(self.state, event)
        return self.state.seq

    @property
    def is_over(self) -> bool:
        """Whether the wait that the conversation was started for has passed its deadline."""
        return self.state.parent is not None and self.now >= self.state.parent.must_end_by

    def capped(self, at: int) -> int:
        """A deadline (ms UTC), at the latest that of the wait that the conversation was started for."""
        return at if self.state.parent is None else min(at, self.state.parent.must_end_by)

    def receipt(self, seq: int, *, settled: bool = True, votes: int = 0, needed: int = 0) -> Receipt:
        """The receipt of this draft's event at `seq`."""
        return Receipt(
            conversation_id=self.state.conversation_id,
            seq=seq,
            accepted_at=self.now,
            settled=settled,
            votes=votes,
            needed=needed,
            audit_head=self.head_at(seq),
        )

    def cancelled(self, seq: int, turn_id: str, calls: tuple[str, ...]) -> Cancelled:
        """The reply to a cancellation, by this draft's event at `seq`."""
        head = self.head_at(seq)
        return Cancelled(conversation_id=self.state.conversation_id, turn_id=turn_id, calls=calls, audit_head=head)

    def head_at(self, seq: int) -> str:
        """The head of the audit chain after this draft's event at `seq`; empty if the event is no link."""
        event = self.events[seq - self.state.seq - 1]
        return event.head if isinstance(event, ChainLink) else ""

    def done(self, reply: Reply = None) -> Judgement:
        """The judgement with all events emitted so far."""
        return Judgement(tuple(self.events), reply, state=self.state)


def check_words(text: str, most: int, field: str, error: type[InvalidInput], fix: str = "shorten it") -> None:
    """Refuse (as `error`, for `field`) a text that UTF-8 cannot encode, or that has more than `most` bytes."""
    try:
        jsontext.check_text(text)
    except jsontext.NotJson as problem:
        raise error(field, str(problem), "give text that can be encoded as UTF-8") from problem
    size = jsontext.size_bytes(text)
    if size > most:
        raise error(field, f"it has {size} bytes, {most} are allowed", fix)


def drafted(state: State, command: Command) -> Draft:
    """A draft. A command stamped with another spec than the turn's is a bug in the shell, and raises."""
    if state.turn is not None and command.spec is not None and command.spec.digest != state.turn.spec_digest:
        raise ValueError(f"stamped with spec {command.spec.digest}, the turn runs with {state.turn.spec_digest}")
    return Draft(state, command)
