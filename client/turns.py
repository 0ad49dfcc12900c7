"""What became of messages and turns, folded from the log: their status, reply and error, and what a turn used."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.conversation import Event, FailureReason, StopReason
from holdfast.conversation.events import (
    Ended,
    MessageAccepted,
    ModelAnswered,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from holdfast.conversation.idempotency import message_key
from holdfast.errors import ConversationNotFound, CorruptStore, MessageNotFound, TurnNotFound
from holdfast.persistence import Conversations

READ_AT_ONCE = 500


class TurnStatus(StrEnum):
    """Where a turn stands."""

    RUNNING = "running"  # it goes on, or waits for somebody
    COMPLETED = "completed"  # the model has given its final answer
    FAILED = "failed"  # it ended with an error
    CANCELLED = "cancelled"  # somebody cancelled it, or ended the conversation


class MessageStatus(StrEnum):
    """Where a message stands."""

    QUEUED = "queued"  # its turn has not begun
    RUNNING = "running"  # its turn goes on, or waits for somebody
    COMPLETED = "completed"  # its turn was completed
    FAILED = "failed"  # its turn failed
    CANCELLED = "cancelled"  # its turn was cancelled
    DROPPED = "dropped"  # the conversation ended before its turn began


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn used so far.

    Attributes:
        model_calls: How many answers of the model the turn has.
        input_tokens: The tokens of their requests together; None if the provider did not say how many each of them had.
        output_tokens: The tokens of the answers together; None if the provider did not say how many each of them had.
    """

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        turn_id: The turn's id.
        message_id: The id of the message that it answers.
        status: Where it stands.
        reply: The text of its final answer, once it is completed.
        error: What went wrong, if it failed.
        failed: Why it failed; None if it did not, or where none of the reasons fits.
        stopped: What cut its reply off; None if that is whole.
        attempts: Which attempt at its message it is, from 1.
        usage: What it used so far.
        started_at: When it began, in integer milliseconds UTC.
        ended_at: When it ended, in integer milliseconds UTC; None while it goes on.
    """

    turn_id: str
    message_id: str
    status: TurnStatus
    started_at: int
    reply: str | None = None
    error: str | None = None
    failed: FailureReason | None = None
    stopped: StopReason | None = None
    attempts: int = 1
    usage: Usage = Usage()
    ended_at: int | None = None

    @property
    def duration_ms(self) -> int | None:
        """How long the turn took, waiting included, in milliseconds; None while it goes on."""
        return None if self.ended_at is None else max(self.ended_at - self.started_at, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """What became of one message of the user.

    Attributes:
        message_id: The message's id.
        status: Where it stands.
        turn_id: The id of its turn; None while it is queued.
        reply: The text of the turn's final answer, once that is completed.
        error: What went wrong, if the turn failed.
        attempts: How many turns were begun for it.
        accepted_at: When it was recorded, in integer milliseconds UTC.
    """

    message_id: str
    status: MessageStatus
    accepted_at: int
    turn_id: str | None = None
    reply: str | None = None
    error: str | None = None
    attempts: int = 0


class TurnLog:
    """The messages and turns of a log, fed event by event in its order, from the place `after` on.

    A turn whose message stands before that place is left out.
    """

    def __init__(self, conversation_id: str, *, after: int = 0) -> None:
        self.seq = after
        self.ended = False
        self._conversation_id = conversation_id
        self._accepted: dict[int, MessageAccepted] = {}
        self._turns: dict[str, Turn] = {}
        self._turn_of: dict[int, str] = {}
        self._current: str | None = None
        self._answer: str | None = None

    def add(self, seq: int, event: Event) -> None:
        """Fold the event that stands at `seq`."""
        self.seq = seq
        match event:
            case MessageAccepted():
                self._accepted[seq] = event
            case TurnStarted():
                self._begin(event)
            case ModelAnswered():
                self._answer = event.content
                self._change(usage=self._used(event))
            case TurnCompleted():
                self._over(TurnStatus.COMPLETED, event.at, reply=self._answer, stopped=event.stopped)
            case TurnFailed():
                self._over(TurnStatus.FAILED, event.at, error=event.error, failed=event.reason)
            case TurnCancelled():
                self._over(TurnStatus.CANCELLED, event.at)
            case Ended():
                self.ended = True
            case _:  # calls, their runs and suspensions, and cancellations of nothing
                pass

    def add_all(self, entries: Iterable[tuple[int, Event]]) -> None:
        """Fold entries of the log."""
        for seq, event in entries:
            self.add(seq, event)

    def turns(self) -> list[Turn]:
        """The turns so far, oldest first."""
        return list(self._turns.values())

    def turn(self, turn_id: str) -> Turn:
        """The turn of that id.

        Raises:
            TurnNotFound: No turn of that id has begun.
        """
        if turn_id not in self._turns:
            raise TurnNotFound(self._conversation_id, turn_id)
        return self._turns[turn_id]

    def message(self, seq: int) -> Message | None:
        """What became of the message at a place in the log, None if none of those fed stands there."""
        accepted = self._accepted.get(seq)
        if accepted is None:
            return None
        turn = self._turns.get(self._turn_of.get(seq, ""))
        if turn is None:
            status = MessageStatus.DROPPED if self.ended else MessageStatus.QUEUED
            return Message(accepted.message_id, status, accepted.at)
        return Message(
            message_id=accepted.message_id,
            status=MessageStatus(turn.status),
            accepted_at=accepted.at,
            turn_id=turn.turn_id,
            reply=turn.reply,
            error=turn.error,
            attempts=turn.attempts,
        )

    def settled(self, seq: int) -> bool:
        """Whether no later event changes what became of the message at a place in the log."""
        found = self.message(seq)
        return found is not None and found.status not in (MessageStatus.QUEUED, MessageStatus.RUNNING)

    def _begin(self, event: TurnStarted) -> None:
        self._current = self._answer = None
        accepted = self._accepted.get(event.message_seq)
        if accepted is None:
            return
        self._current = event.turn_id
        self._turn_of[event.message_seq] = event.turn_id
        self._turns[event.turn_id] = Turn(event.turn_id, accepted.message_id, TurnStatus.RUNNING, event.at)

    def _used(self, answer: ModelAnswered) -> Usage:
        before = self._turns[self._current].usage if self._current is not None else Usage()
        before = before if before.model_calls else Usage(input_tokens=0, output_tokens=0)
        return Usage(
            model_calls=before.model_calls + 1,
            input_tokens=_sum(before.input_tokens, answer.input_tokens),
            output_tokens=_sum(before.output_tokens, answer.output_tokens),
        )

    def _over(self, status: TurnStatus, at: int, **changes: object) -> None:
        self._change(status=status, ended_at=at, **changes)
        self._current = None

    def _change(self, **changes: object) -> None:
        if self._current is not None:
            self._turns[self._current] = replace(self._turns[self._current], **changes)  # type: ignore[arg-type]


async def turn_log(store: Conversations, conversation_id: str) -> TurnLog:
    """All messages and turns of a conversation.

    Raises:
        ConversationNotFound: The conversation was never started.
    """
    log = TurnLog(conversation_id)
    while await _read_on(store, conversation_id, log):
        pass
    if log.seq == 0:
        raise ConversationNotFound(conversation_id)
    return log


async def what_became(store: Conversations, conversation_id: str, message_id: str) -> Message:
    """What became of a message; the log is read from there to the end of its turn.

    Raises:
        ConversationNotFound: The conversation was never started.
        MessageNotFound: The conversation was never sent a message of that id.
        CorruptStore: The message's receipt names a place in the log where no message stands.
    """
    key = message_key(message_id)
    record = (await store.known(conversation_id, [key])).get(key)
    if record is None:
        await store.load(conversation_id)  # which says whether there is a conversation at all
        raise MessageNotFound(conversation_id, message_id)
    log = TurnLog(conversation_id, after=record.seq - 1)
    while not log.settled(record.seq) and await _read_on(store, conversation_id, log):
        pass
    found = log.message(record.seq)
    if found is None:
        raise CorruptStore(
            f"conversation {conversation_id!r}: a receipt names entry {record.seq} of the log, which is no message"
        )
    return found


async def _read_on(store: Conversations, conversation_id: str, log: TurnLog) -> bool:
    """Whether there may be more to read than what was read now."""
    entries = await store.log_page(conversation_id, after=log.seq, limit=READ_AT_ONCE)
    log.add_all(entries)
    return bool(entries)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
