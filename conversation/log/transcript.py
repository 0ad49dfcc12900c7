"""The messages of a conversation in the OpenAI chat format, folded from its log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.conversation.ids import is_compaction_id
from holdfast.conversation.records import events
from holdfast.conversation.records.events import CallResolved, Event, MessageAccepted, ModelAnswered, RequestedCall
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.terms.parts import Content, TextPart, in_chat_format
from holdfast.conversation.terms.reply import MISFIT
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import refused_reply

PAUSED = "pause_turn"
"""The finish reason of an answer that the provider continues at the next model call."""
UNFINISHED = frozenset({"length", "content_filter", PAUSED})
"""The finish reasons of an answer that was cut off or paused before its end."""


def taken_up(event: Event) -> tuple[int, ...]:
    """The `seq` of the messages that an event takes up into its turn, in the order in which the model reads them."""
    match event:
        case events.TurnStarted():
            return (event.message_seq,)
        case events.InputJoined():
            return event.message_seqs
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Compaction:
    """A summary that stands for the first messages of a conversation.

    Attributes:
        summary: The summary, in the model's words.
        messages: How many messages it stands for.
        saved: About how many tokens it saved.
        settled: How many messages there were when it was recorded: later requests alone begin with it.
        asked: The place of the message that asked for the turn in which it ends, and that message; None if it ends between
            turns.
    """

    summary: str
    messages: int
    saved: int
    settled: int
    asked: tuple[int, dict[str, Any]] | None = None


class Transcript:
    """Messages without the system message, fed event by event in the order of the log.

    A message of parts has a list as its content, as has a result with images or files: its envelope, then those. A queued
    message appears where its turn begins, or where it joins one. Results are in the model's order of calls; while some are
    missing, the others are shown.

    An assistant message has up to three additional keys, which are not sent to providers as they are: `reasoning_content`, the
    thinking that the model showed; `provider`, a dict that only the provider can read; `finish_reason`, if the message was cut
    off ("length", "content_filter") or paused ("pause_turn").

    A text that is no reply of the agent's shape is followed by a message with the role "user" in which the model is told so; it
    has the additional key `misfit`.

    Attributes:
        seq: The place of the last event.
        first: The place of the first message that it has.
        reported: By an answer's place among the messages: the digest of its turn's spec, and how many tokens its request had,
            if the provider said so.
        overrides: Those of the message that the present or last turn answers, if it has any.
        compacted: The last summary; the messages stay whole.
        failed: The places behind which a summary has failed since that nobody had asked for: how many messages there were.
        refused: The places at which a provider has refused a request for its length since (True), and at which the turn of such
            a request was over (False).
        origins: By the place of a message of somebody, or of an answer: the `seq` of the log entry with which it came, and the
            `seq` of the message itself (0 of an answer).
    """

    def __init__(self) -> None:
        self.seq = 0
        self.overrides: Overrides | None = None
        self._overriding: dict[int, Overrides] = {}
        self.reported: dict[int, tuple[str, int]] = {}
        self.compacted: Compaction | None = None
        self.failed: set[int] = set()
        self.refused: dict[int, bool] = {}
        self._by_hand = False
        self.origins: dict[int, tuple[int, int]] = {}
        self.first = 0
        self._asked: dict[int, dict[str, Any]] = {}
        self._spec_digest = ""
        self._messages: list[dict[str, Any]] = []
        self._queued: dict[int, Content] = {}
        self._round: tuple[RequestedCall, ...] = ()
        self._results: dict[str, CallResolved] = {}

    def add(self, seq: int, event: Event) -> None:
        """Fold the event at `seq`."""
        self.seq = seq
        match event:
            case events.MessageAccepted():
                self._queued[seq] = event.text
                if event.overrides is not None:
                    self._overriding[seq] = event.overrides
            case events.TurnStarted() | events.CompactionStarted():
                self._begin(event)
            case events.InputJoined():
                self._ask(taken_up(event))
            case events.InputSuperseded():
                self._by_hand = False
                for message in event.message_seqs:
                    self._forget(message)
            case events.InputWithdrawn():
                self._forget(event.message_seq)
            case ModelAnswered():
                self._close_round()
                if event.input_tokens is not None:
                    self.reported[self.settled] = self._spec_digest, event.input_tokens
                self.origins[self.settled] = seq, 0
                self._messages.append(_assistant(event))
                self._messages += told_of(event)
                self._round = event.calls
            case events.CompactionRequested():
                self._by_hand = True
            case events.Compacted() | events.SummaryFailed() | events.TurnCancelled():
                self._summary_over(event)
            case events.ContextOverflowed():
                self.refused[self.settled + len(self._tool_messages())] = True
            case CallResolved():
                self._results[event.tool_call_id] = event
            case _:
                pass  # no other event is a message

    def _begin(self, event: events.TurnStarted | events.CompactionStarted) -> None:
        if isinstance(event, events.CompactionStarted):
            self.overrides = None
            return
        if next(reversed(self.refused.values()), False):
            self.refused[self.settled + len(self._tool_messages())] = False
        self._ask(taken_up(event))
        self._spec_digest = event.spec_digest
        self.overrides = self._overriding.pop(event.message_seq, None)

    def _forget(self, seq: int) -> None:
        self._queued.pop(seq, None)
        self._overriding.pop(seq, None)

    def _ask(self, seqs: Iterable[int]) -> None:
        self._close_round()
        for seq in seqs:
            self.origins[self.settled] = self.seq, seq
            self._messages.append({"role": "user", "content": in_chat_format(self._queued.pop(seq))})

    def _summary_over(self, event: events.Compacted | events.SummaryFailed | events.TurnCancelled) -> None:
        if isinstance(event, events.TurnCancelled) and not is_compaction_id(event.turn_id, last=self.seq):
            return
        if isinstance(event, events.SummaryFailed) and not self._by_hand:
            self.failed.add(self.settled + len(self._tool_messages()))
        if isinstance(event, events.Compacted):
            self._compact(event)
        self._by_hand = False

    def _compact(self, event: events.Compacted) -> None:
        found = (place for place, (_, seq) in self.origins.items() if seq == event.asked_at)
        place = next(found, None) if event.asked_at else None
        self.failed, self.refused = set(), {}
        self._spec_digest = event.spec_digest
        self.compacted = Compaction(
            summary=event.summary,
            messages=event.messages,
            saved=event.tokens_before - event.tokens_after,
            settled=self.settled + len(self._tool_messages()),
            asked=None if place is None else (place, self._asked.get(place) or self._messages[place - self.first]),
        )

    def begin_behind(self, compacted: events.Compacted, asked: MessageAccepted | None, overrides: Overrides | None) -> None:
        """Begin behind the boundary of a summary, whose event follows later, as do the messages behind the boundary.

        `asked` is the message at its `asked_at`, `overrides` are those of the turn that goes on. The messages that are taken up
        later, but were accepted before the boundary, are added when they are.
        """
        self.seq, self.first, self.overrides = compacted.boundary, compacted.messages, overrides
        if asked is not None:
            self.origins[self.first - 1] = 0, compacted.asked_at
            self._asked[self.first - 1] = {"role": "user", "content": in_chat_format(asked.text)}

    def forget(self) -> None:
        """Drop the messages that the last summary stands for."""
        compacted = self.compacted
        if compacted is None or compacted.messages <= self.first:
            return
        self._messages = self._messages[compacted.messages - self.first :]
        self.first = compacted.messages
        self._asked = {} if compacted.asked is None else dict((compacted.asked,))
        self.reported = {place: said for place, said in self.reported.items() if place >= self.first}
        self.origins = {place: one for place, one in self.origins.items() if place >= self.first or place in self._asked}

    def has(self, seq: int) -> bool:
        """Whether the message at a place waits to be taken up."""
        return seq in self._queued

    @property
    def settled(self) -> int:
        """How many messages are final: all but the results of the last answer's calls, which later events may change."""
        return self.first + len(self._messages)

    def messages(self) -> list[dict[str, Any]]:
        """The messages so far; the list is the caller's, the messages are shared."""
        return [*self._messages, *self._tool_messages()]

    def _tool_messages(self) -> list[dict[str, Any]]:
        return [
            {"role": "tool", "tool_call_id": call.tool_call_id, "name": call.name, "content": _result(result)}
            for call in self._round
            if (result := self._results.get(call.tool_call_id)) is not None
        ]

    def _close_round(self) -> None:
        self._messages.extend(self._tool_messages())
        self._round = ()
        self._results = {}


def reply_of(answer: ModelAnswered) -> str | None:
    """The text of an answer as its turn's reply; JSON text if it is `shaped`."""
    return answer.calls[0].arguments if answer.shaped and answer.calls else answer.content


def is_ok(message: Mapping[str, Any]) -> bool:
    """Whether a result says that its call succeeded."""
    content = message.get("content")
    text = content if isinstance(content, str) else next((part["text"] for part in content or () if part["type"] == "text"), "")
    try:
        found = jsontext.loads(text)
    except jsontext.NotJson:
        return False
    return isinstance(found, dict) and found.get("ok") is True


def told_of(event: ModelAnswered) -> list[dict[str, Any]]:
    """The message, if any, in which the model is told of a text that is no reply of its agent's shape."""
    if event.misfit is None or event.calls:
        return []
    return [{"role": "user", "content": refused_reply(MISFIT.format(event.misfit)), "misfit": True}]


def _result(event: CallResolved) -> str | list[dict[str, Any]]:
    return in_chat_format((TextPart.of(event.content), *event.attached) if event.attached else event.content)


def _assistant(event: ModelAnswered) -> dict[str, Any]:
    # Providers refuse a message with neither text nor calls.
    content = event.content if event.content is not None or event.calls else ""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if event.calls:
        message["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments if call.arguments.strip() else "{}"},
            }
            for call in event.calls
        ]
    if event.reasoning:
        message["reasoning_content"] = event.reasoning
    provider = _provider(event)
    if provider:
        message["provider"] = provider
    if event.finish_reason in UNFINISHED:
        message["finish_reason"] = event.finish_reason
    return message


def _provider(event: ModelAnswered) -> Mapping[str, Any]:
    try:
        provider = jsontext.loads(event.provider) if event.provider is not None else None
    except jsontext.NotJson:  # a reader with stricter bounds than the writer: the message is readable without it
        provider = None
    return provider if isinstance(provider, dict) else {}
