"""The turns, calls and decisions of a conversation from its log, for the pages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from holdfast.client import AsyncConversation, Event, Grant, Turn
from holdfast.client.turns import TurnLog
from holdfast.conversation import Principal
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.events import (
    CallHeld,
    CallResolved,
    CallSuspended,
    GrantGiven,
    MessageAccepted,
    ModelAnswered,
    RunScheduled,
    SuspensionSettled,
    TurnStarted,
)
from holdfast.conversation.text import jsontext

from .choices import settled_as, words_of

MOST_EVENTS = 400
"""How many of the latest events a page reads."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """An ended suspension, and what ended it."""

    seq: int
    opened: CallSuspended | None
    settled: SuspensionSettled

    @property
    def said(self) -> Any:
        """The content of the decision, as a value; None if empty."""
        body = self.settled.body
        try:
            return None if body is None else jsontext.loads(body)
        except jsontext.NotJson:
            return body

    @property
    def done(self) -> str:
        """How it ended, as text for people."""
        return settled_as(self.settled.by.value, self.said)

    @property
    def words(self) -> str:
        """The further content of the decision: the notes of a review, else JSON text; empty if there is none."""
        notes = words_of(self.settled.by.value, self.said)
        if notes is not self.said and isinstance(notes, str):
            return notes
        return self.settled.body or ""


@dataclass(slots=True)
class History:
    """The history from the latest events.

    Attributes:
        events: The events, oldest first.
        whole: Whether these are all events of the conversation.
        senders: The sender of a turn's message, by the turn's id; unknown ones are left out.
        settlements: The ended suspensions, oldest first.
        runs: When the runs of a call were scheduled (ms UTC), by the call's id.
        turns_of: The turn of a call, by the call's id.
        held: The ids of held calls, which wait for others of the same answer.
        given: The grants that decisions gave, by the decision's `seq`.
    """

    events: list[Event] = field(default_factory=list)
    whole: bool = True
    senders: dict[str, Principal] = field(default_factory=dict)
    settlements: list[Settlement] = field(default_factory=list)
    runs: dict[str, list[int]] = field(default_factory=dict)
    turns_of: dict[str, str] = field(default_factory=dict)
    held: dict[str, CallHeld] = field(default_factory=dict)
    given: dict[int, Grant] = field(default_factory=dict)

    def sender_of(self, tool_call_id: str) -> Principal | None:
        """The sender of the message in whose turn a call was made; None if not known."""
        return self.senders.get(self.turns_of.get(tool_call_id, ""))

    def settlement_of(self, suspension_id: str) -> Settlement | None:
        """What ended a suspension; None if it is open, or the event is not among these."""
        return next((one for one in self.settlements if one.settled.suspension_id == suspension_id), None)


async def history_of(conversation: AsyncConversation) -> History:
    """The history from the latest events of a conversation."""
    found = await conversation.latest(MOST_EVENTS)
    return told(found, whole=not found or found[0].seq == 1)


def messages_of(history: History) -> list[dict[str, Any]]:
    """The messages in the latest events, without older ones."""
    transcript, accepted = Transcript(), set[int]()
    for event in history.events:
        seq = event.seq or 0
        if isinstance(event.body, MessageAccepted):
            accepted.add(seq)
        if not (isinstance(event.body, TurnStarted) and event.body.message_seq not in accepted):
            transcript.add(seq, cast("Any", event.body))
    return transcript.messages()


def turns_of(history: History, conversation_id: str) -> list[Turn]:
    """The turns of the latest events, oldest first, without those whose message is older."""
    log = TurnLog(conversation_id)
    log.add_all((event.seq or 0, cast("Any", event.body)) for event in history.events)
    return log.turns()


def told(events: Sequence[Event], *, whole: bool) -> History:
    """The history from these events."""
    history = History(list(events), whole)
    messages: dict[int, Principal] = {}
    opened: dict[str, CallSuspended] = {}
    turn_id = ""
    for event in events:
        if isinstance(event.body, RunScheduled | CallSuspended | CallResolved):
            history.held.pop(event.body.tool_call_id, None)
        match event.body:
            case MessageAccepted(principal=Principal() as principal):
                messages[event.seq or 0] = principal
            case CallHeld() as held:
                history.held[held.tool_call_id] = held
            case TurnStarted() as started:
                turn_id = started.turn_id
                if started.message_seq in messages:
                    history.senders[turn_id] = messages[started.message_seq]
            case ModelAnswered() as answer:
                for call in answer.calls:
                    history.turns_of[call.tool_call_id] = turn_id
            case RunScheduled() as run:
                history.runs.setdefault(run.tool_call_id, []).append(run.at)
            case CallSuspended() as suspended:
                opened[suspended.suspension_id] = suspended
            case SuspensionSettled() as settled:
                history.settlements.append(Settlement(event.seq or 0, opened.get(settled.suspension_id), settled))
            case GrantGiven(grant=grant):
                history.given[grant.seq] = grant
            case _:
                pass
    return history
