"""What the log of a conversation says of its turns, calls and decisions, for the pages that show it."""

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
"""How many of the latest events a page looks at."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """A suspension that ended: what it was, and what ended it."""

    seq: int
    opened: CallSuspended | None
    settled: SuspensionSettled

    @property
    def said(self) -> Any:
        """What the decision said, as a value; None where it said nothing."""
        body = self.settled.body
        try:
            return None if body is None else jsontext.loads(body)
        except jsontext.NotJson:
            return body

    @property
    def done(self) -> str:
        """What a person reads of what ended it."""
        return settled_as(self.settled.by.value, self.said)

    @property
    def words(self) -> str:
        """What the decision said beside that: the notes of a review, else JSON text; empty where it said nothing."""
        notes = words_of(self.settled.by.value, self.said)
        if notes is not self.said and isinstance(notes, str):
            return notes
        return self.settled.body or ""


@dataclass(slots=True)
class History:
    """What the latest events tell.

    Attributes:
        events: The events, oldest first.
        whole: Whether these are all events of the conversation.
        senders: Who sent the message of a turn, by the turn's id; only those of which that is known.
        settlements: The suspensions that ended, oldest first.
        runs: When the runs of a call were scheduled (ms UTC), by the call's id.
        turns_of: The turn in which a call was made, by the call's id.
        held: The calls that wait for their turn among those of their answer, by their ids.
        given: The grants that decisions gave, by the decision's place in the log.
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
        """Who sent the message in whose turn a call was made; None where that is not known."""
        return self.senders.get(self.turns_of.get(tool_call_id, ""))

    def settlement_of(self, suspension_id: str) -> Settlement | None:
        """What ended a suspension; None where it has not ended, or the event is not among these."""
        return next((one for one in self.settlements if one.settled.suspension_id == suspension_id), None)


async def history_of(conversation: AsyncConversation) -> History:
    """What the latest events tell."""
    found = await conversation.latest(MOST_EVENTS)
    return told(found, whole=not found or found[0].seq == 1)


def messages_of(history: History) -> list[dict[str, Any]]:
    """The messages of the latest events; those before them are left out."""
    transcript, accepted = Transcript(), set[int]()
    for event in history.events:
        seq = event.seq or 0
        if isinstance(event.body, MessageAccepted):
            accepted.add(seq)
        if not (isinstance(event.body, TurnStarted) and event.body.message_seq not in accepted):
            transcript.add(seq, cast("Any", event.body))
    return transcript.messages()


def turns_of(history: History, conversation_id: str) -> list[Turn]:
    """The turns of the latest events, oldest first; those whose message is before them are left out."""
    log = TurnLog(conversation_id)
    log.add_all((event.seq or 0, cast("Any", event.body)) for event in history.events)
    return log.turns()


def told(events: Sequence[Event], *, whole: bool) -> History:
    """What these events tell."""
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
