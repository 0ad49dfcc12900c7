"""The turns, calls and decisions of a conversation from its log, for the pages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from holdfast.client import AsyncConversation, Event, Grant, Scope, Turn
from holdfast.client.turns import TurnLog
from holdfast.conversation import Principal
from holdfast.conversation.records import events as log
from holdfast.conversation.text import jsontext

from .choices import settled_as, words_of

MOST_EVENTS = 400


@dataclass(frozen=True, slots=True)
class Settled:
    """A suspension that is no longer open: what ended it, as far as known.

    Attributes:
        conversation_id: Its conversation; empty if it was not named.
        by: The name of a decision, or of another `SettledBy`, such as `expiry`; None if unknown.
        at: When, in integer milliseconds UTC.
        principal: Who decided; None if nobody did, or it is not recorded.
        body: The content of the decision, as JSON text: a reason, an error, an answer, a verdict with notes.
        tool: The tool; empty if not known.
        why: The reason for the log, if there is one.
        mine: Whether the viewer's own decision, just sent, ended it.
        scope: The scope of the grant that the decision gave; None without a grant.
        event: The event that ended it; None if it was not read.
        seq: The place of that event in the log.
    """

    suspension_id: str
    conversation_id: str = ""
    by: str | None = None
    at: int | None = None
    principal: Principal | None = None
    body: str = ""
    tool: str = ""
    why: str = ""
    mine: bool = False
    scope: Scope | Grant | None = None
    event: log.SuspensionSettled | None = None
    seq: int = 0

    @property
    def said(self) -> Any:
        """The content of the decision, as a value; None if empty."""
        try:
            return jsontext.loads(self.body) if self.body else None
        except jsontext.NotJson:
            return self.body

    @property
    def done(self) -> str:
        """How it ended, as text for people."""
        return settled_as(self.by, self.said)

    @property
    def words(self) -> Any:
        """The further content of the decision: of a review, its notes."""
        return words_of(self.by, self.said)


@dataclass(slots=True)
class History:
    """The history from the latest events.

    Attributes:
        events: The events, oldest first.
        whole: Whether these are all events of the conversation.
        senders: The sender of the message in whose turn a call was made, by the call's id; unknown ones are left out.
        settled: The ended suspensions, by their ids, oldest first.
        runs: When the runs of a call were scheduled (ms UTC), by the call's id.
        held: The held calls, which wait for others of the same answer, by their ids.
        given: The grants that decisions gave, by the decision's `seq`.
    """

    events: Sequence[Event] = ()
    whole: bool = True
    senders: dict[str, Principal] = field(default_factory=dict)
    settled: dict[str, Settled] = field(default_factory=dict)
    runs: dict[str, list[int]] = field(default_factory=dict)
    held: dict[str, log.CallHeld] = field(default_factory=dict)
    given: dict[int, Grant] = field(default_factory=dict)


async def history_of(conversation: AsyncConversation, most: int = MOST_EVENTS) -> History:
    """The history from the latest events of a conversation."""
    events = await conversation.latest(most)
    history = History(events, whole=not events or events[0].seq == 1)
    messages: dict[int, Principal] = {}
    tools: dict[str, str] = {}
    sender: Principal | None = None
    for event in events:
        seq = event.seq or 0
        if isinstance(event.body, log.RunScheduled | log.CallSuspended | log.CallResolved):
            history.held.pop(event.body.tool_call_id, None)
        match event.body:
            case log.MessageAccepted(principal=Principal() as principal):
                messages[seq] = principal
            case log.CallHeld() as held:
                history.held[held.tool_call_id] = held
            case log.TurnStarted(message_seq=message_seq):
                sender = messages.get(message_seq)
            case log.ModelAnswered(calls=calls) if sender is not None:
                history.senders |= {call.tool_call_id: sender for call in calls}
            case log.RunScheduled() as run:
                history.runs.setdefault(run.tool_call_id, []).append(run.at)
            case log.CallSuspended() as suspended:
                tools[suspended.suspension_id] = suspended.tool
            case log.SuspensionSettled(suspension_id=one) as end:
                said = end.by.value, end.at, end.principal, end.body or "", tools.get(one, ""), end.reason
                history.settled[one] = Settled(one, conversation.id, *said, event=end, seq=seq)
            case log.GrantGiven(grant=grant):
                history.given[grant.seq] = grant
            case _:
                pass
    return history


def turns_of(history: History, conversation_id: str) -> list[Turn]:
    """The turns of the latest events, oldest first, without those whose message is older."""
    found = TurnLog(conversation_id)
    found.add_all((event.seq or 0, cast("Any", event.body)) for event in history.events)
    return found.turns()
