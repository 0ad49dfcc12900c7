"""The judgement that `decide` returns, and its replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import Field

from holdfast.conversation.record import Record
from holdfast.conversation.records.events import Event
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.records.state import State


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
    turn_id: str | None = Field(default=None, description="The turn of the calls; None if there was nothing to cancel.")
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
    turn_id: str | None = Field(default=None, description="The turn that was cancelled; None if there was none.")
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
