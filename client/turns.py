"""What became of messages and turns, folded from the log: their status, reply and error, and what a turn used."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import Field, computed_field

from holdfast.conversation import Event, FailureReason, Origin, Principal, StopReason
from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records import events
from holdfast.conversation.records.idempotency import message_key
from holdfast.conversation.terms.parts import in_chat_format, in_words
from holdfast.errors import CorruptStore, MessageNotFound, TurnNotFound
from holdfast.persistence import Conversations

from .results import Result
from .usage import Usage

READ_FIRST, READ_AT_ONCE = 16, 500
"""How many entries of a turn are read first, and how many at once of a long one."""
SHOWN_CHARS = 500
"""How many characters of a waiting message are shown."""


class TurnStatus(StrEnum):
    """The status of a turn."""

    RUNNING = "running"  # it runs, or waits for a person
    COMPLETED = "completed"  # the model has given its final answer
    FAILED = "failed"  # it ended with an error
    CANCELLED = "cancelled"  # somebody cancelled it, or ended the conversation


class MessageStatus(StrEnum):
    """The status of a message."""

    DELAYED = "delayed"  # it is queued later
    QUEUED = "queued"  # its turn has not begun, or it has not joined its turn yet
    RUNNING = "running"  # its turn runs, or waits for a person
    COMPLETED = "completed"  # its turn was completed
    FAILED = "failed"  # its turn failed
    CANCELLED = "cancelled"  # its turn was cancelled
    DROPPED = "dropped"  # the conversation ended before its turn began
    SUPERSEDED = "superseded"  # an interruption came before its turn began
    WITHDRAWN = "withdrawn"  # somebody withdrew it before its turn began


class Turn(Result):
    """One turn of a conversation."""

    turn_id: str
    message_id: str = Field(description="The message that it answers.")
    status: TurnStatus
    reply: str | None = Field(default=None, description="The text of its final answer, once it is completed.")
    error: str | None = Field(default=None, description="What went wrong, if it failed.")
    failed: FailureReason | None = Field(
        default=None, description="Why it failed; None if it did not, or where none of the reasons fits."
    )
    until: int | None = Field(
        default=None, description="From when on the agent's budget counts anew, in milliseconds UTC, if the turn failed by it."
    )
    stopped: StopReason | None = Field(
        default=None, description="What cut its reply off, or stopped it; None if the reply is whole."
    )
    detail: str = Field(default="", description="The bound of the agent's `Stop` that ended the turn; empty otherwise.")
    attempts: int = Field(default=1, description="Which attempt at its message it is, from 1.")
    joined: tuple[str, ...] = Field(default=(), description="The ids of the messages that have joined it.")
    usage: Usage = Field(default_factory=Usage)
    started_at: int = Field(description="When it began, in integer milliseconds UTC.")
    ended_at: int | None = Field(default=None, description="When it ended, in integer milliseconds UTC; None while it goes on.")

    @computed_field(description="How long the turn took, waiting included; None while it goes on.")  # type: ignore[prop-decorator]
    @property
    def duration_ms(self) -> int | None:
        """How long the turn took, waiting included, in milliseconds; None while it goes on."""
        return None if self.ended_at is None else max(self.ended_at - self.started_at, 0)


class Message(Result):
    """What became of one message of the user."""

    message_id: str
    status: MessageStatus
    accepted_at: int = Field(description="When it was recorded, in integer milliseconds UTC.")
    turn_id: str | None = Field(default=None, description="Its turn; None while it is queued.")
    reply: str | None = Field(default=None, description="The text of the turn's final answer, once that is completed.")
    error: str | None = Field(default=None, description="What went wrong, if the turn failed.")
    attempts: int = Field(default=0, description="How many turns were begun for it.")
    due_at: int | None = Field(
        default=None, description="When it is queued, in integer milliseconds UTC; None if it does not wait for a time."
    )
    joined_at: int | None = Field(
        default=None, description="The place in the log at which it joined its turn; None if the turn is its own."
    )
    superseded_by: str | None = Field(
        default=None, description="The message that came instead, if one did and this one is superseded."
    )


class QueuedMessage(Result):
    """A message that no turn has taken up yet."""

    message_id: str
    status: MessageStatus = Field(description="`queued` or `delayed`.")
    text: str = Field(description="Its text, or its first 500 characters; parts that are no text are said in words.")
    priority: int = Field(description="Its priority, from 0 (first) to 255 (last).")
    due_at: int | None = Field(default=None, description="When it is queued, in integer milliseconds UTC; None if it is.")
    steers: bool = Field(default=False, description="Whether it joins the turn that goes on, before the next model call.")
    origin: Origin = Field(description="Where it comes from, as its sender says.")
    principal: Principal | None = Field(default=None, description="Who sent it; None if unknown.")
    accepted_at: int = Field(description="When it was recorded, in integer milliseconds UTC.")


class TurnLog:
    """The messages and turns of a log, fed event by event in its order, from the place `after` on.

    A turn is left out if its message stands before that place.
    """

    def __init__(self, conversation_id: str, *, after: int = 0) -> None:
        self.seq = after
        self.ended = False
        self._conversation_id = conversation_id
        self._accepted: dict[int, events.MessageAccepted] = {}
        self._turns: dict[str, Turn] = {}
        self._turn_of: dict[int, str] = {}
        self._due: dict[int, int] = {}
        self._joined: dict[int, int] = {}
        self._gone: dict[int, tuple[MessageStatus, int]] = {}
        self._current: str | None = None
        self._answer: str | None = None

    def add(self, seq: int, event: Event) -> None:
        """Fold the event at `seq`."""
        self.seq = seq
        match event:
            case events.MessageAccepted():
                self._accepted[seq] = event
                self._due[seq] = event.due_at
            case events.InputDue():
                self._due |= dict.fromkeys(event.message_seqs, 0)
            case events.InputRescheduled():
                self._due[event.message_seq] = event.due_at
            case events.InputJoined():
                self._join(seq, event)
            case events.InputWithdrawn():
                self._gone[event.message_seq] = MessageStatus.WITHDRAWN, 0
            case events.InputSuperseded():
                self._gone |= dict.fromkeys(event.message_seqs, (MessageStatus.SUPERSEDED, event.by_seq))
            case events.TurnStarted():
                self._begin(event)
            case events.ModelAnswered():
                self._answer = reply_of(event)
                self._use(Usage.of(event))
            case events.Compacted() | events.SummaryFailed():
                self._use(Usage.of(event))
            case events.TurnCompleted():
                self._over(TurnStatus.COMPLETED, event.at, reply=self._answer, stopped=event.stopped, detail=event.detail)
            case events.TurnFailed():
                self._over(TurnStatus.FAILED, event.at, error=event.error, failed=event.reason, until=event.until or None)
            case events.TurnCancelled():
                self._over(TurnStatus.CANCELLED, event.at)
            case events.Ended():
                self.ended = True
            case _:  # calls, their runs and suspensions, and cancellations of nothing
                pass

    def add_all(self, entries: Iterable[tuple[int, Event]]) -> None:
        """Fold entries of the log."""
        for seq, event in entries:
            self.add(seq, event)

    def turns(self) -> list[Turn]:
        """The turns so far, oldest first."""
        return [turn for turn in self._turns.values() if turn.message_id]

    def turn(self, turn_id: str) -> Turn:
        """The turn of that id; `TurnNotFound` if none has begun."""
        if turn_id not in self._turns:
            raise TurnNotFound(self._conversation_id, turn_id)
        return self._turns[turn_id]

    def message(self, seq: int) -> Message | None:
        """What became of the message at a place in the log; None if no message was fed for it."""
        accepted = self._accepted.get(seq)
        if accepted is None:
            return None
        named: dict[str, Any] = {"message_id": accepted.message_id, "accepted_at": accepted.at}
        turn = self._turns.get(self._turn_of.get(seq, ""))
        if seq in self._gone:
            status, by = self._gone[seq]
            instead = self._accepted.get(by)
            return Message(status=status, superseded_by=None if instead is None else instead.message_id, **named)
        if turn is None:
            due_at = self._due[seq]
            waits = MessageStatus.DELAYED if due_at else MessageStatus.QUEUED
            return Message(status=MessageStatus.DROPPED if self.ended else waits, due_at=due_at or None, **named)
        return Message(
            status=MessageStatus(turn.status),
            joined_at=self._joined.get(seq),
            **named,
            turn_id=turn.turn_id,
            reply=turn.reply,
            error=turn.error,
            attempts=turn.attempts,
        )

    def settled(self, seq: int) -> bool:
        """Whether no later event changes what became of the message at a place in the log."""
        found = self.message(seq)
        return found is not None and found.status not in (MessageStatus.DELAYED, MessageStatus.QUEUED, MessageStatus.RUNNING)

    def _begin(self, event: events.TurnStarted) -> None:
        self._current = self._answer = None
        accepted = self._accepted.get(event.message_seq)
        if accepted is None:
            return
        self._current = event.turn_id
        self._turn_of[event.message_seq] = event.turn_id
        self._turns[event.turn_id] = Turn(
            turn_id=event.turn_id, message_id=accepted.message_id, status=TurnStatus.RUNNING, started_at=event.at
        )

    def _join(self, seq: int, event: events.InputJoined) -> None:
        joined = [one for one in event.message_seqs if one in self._accepted]
        self._turn_of |= dict.fromkeys(joined, event.turn_id)
        self._joined |= dict.fromkeys(joined, seq)
        if self._current is None and joined:  # its own message stands before the first entry that was fed
            self._current = event.turn_id
            self._turns[event.turn_id] = Turn(
                turn_id=event.turn_id, message_id="", status=TurnStatus.RUNNING, started_at=event.at
            )
        if self._current is not None:
            before = self._turns[self._current].joined
            self._change(joined=(*before, *(self._accepted[one].message_id for one in joined)))

    def _use(self, used: Usage) -> None:
        if self._current is not None:
            self._change(usage=self._turns[self._current].usage + used)

    def _over(self, status: TurnStatus, at: int, **changes: object) -> None:
        self._change(status=status, ended_at=at, **changes)
        self._current = None

    def _change(self, **changes: object) -> None:
        if self._current is not None:
            self._turns[self._current] = self._turns[self._current].model_copy(update=changes)


async def seq_of(store: Conversations, conversation_id: str, message_id: str) -> int:
    """The place of a message in the log; `MessageNotFound` if there is none of that id."""
    key = message_key(message_id)
    record = (await store.known(conversation_id, [key])).get(key)
    if record is not None:
        return record.seq
    await store.load(conversation_id)  # which says whether there is a conversation at all
    raise MessageNotFound(conversation_id, message_id)


async def what_became(store: Conversations, conversation_id: str, message_id: str) -> Message:
    """What became of a message (else `MessageNotFound`); the log is read from there to the end of its turn."""
    seq = await seq_of(store, conversation_id, message_id)
    log, limit = TurnLog(conversation_id, after=seq - 1), READ_FIRST
    while not log.settled(seq) and (entries := await store.read(conversation_id, after=log.seq, limit=limit)):
        log.add_all(entries)
        limit = min(2 * limit, READ_AT_ONCE)
    found = log.message(seq)
    if found is None:
        raise CorruptStore(f"conversation {conversation_id!r}: a receipt names entry {seq} of the log, which is no message")
    return found


async def queue_of(store: Conversations, conversation_id: str) -> list[QueuedMessage]:
    """The messages that no turn has taken up yet, in the order in which turns will."""
    state = await store.load(conversation_id)
    found = await store.at(conversation_id, [one.seq for one in state.waiting])
    steered = {one.seq for one in (() if state.turn is None else state.turn.steered)}
    return [
        QueuedMessage(
            message_id=event.message_id,
            status=MessageStatus.DELAYED if one.due_at else MessageStatus.QUEUED,
            text=in_words(in_chat_format(event.text))[:SHOWN_CHARS],
            priority=one.priority,
            due_at=one.due_at or None,
            steers=one.seq in steered,
            origin=event.origin,
            principal=event.principal,
            accepted_at=event.at,
        )
        for one, event in zip(state.waiting, found, strict=True)
        if isinstance(event, events.MessageAccepted)
    ]
