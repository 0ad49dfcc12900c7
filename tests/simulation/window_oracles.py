"""What windows, shapes and overrides must have led to: of each request as it is sent, and of the log when all is over."""

import json

from holdfast.actors.worker.model_outcome import to_send
from holdfast.conversation import FailureReason, SummaryFailure
from holdfast.conversation.compaction import verdict
from holdfast.conversation.log.transcript import Transcript, reply_of
from holdfast.conversation.records.events import (
    Compacted,
    CompactionRequested,
    CompactionStarted,
    ConversationStarted,
    MessageAccepted,
    ModelAnswered,
    SummaryFailed,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from holdfast.conversation.sizes import budget_of, fixed_tokens, message_tokens
from holdfast.conversation.terms.reply import FINAL_ANSWER, MOST_REPAIRS
from holdfast.conversation.text.envelope import SUMMARY, summarized
from holdfast.conversation.window import window

from .shop import ALLOWED, agent_of


def problem_of_request(spec, messages):
    """What is wrong with the messages of a request as they are sent; None if nothing is."""
    if spec.context is None:
        return None
    tokens = fixed_tokens(spec) + sum(map(message_tokens, messages))
    if tokens > budget_of(spec):
        return f"it has about {tokens} tokens, and {budget_of(spec)} are allowed"
    if not messages or messages[0]["role"] != "user":
        return "it does not begin with what somebody asked"
    waits = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waits:
                return f"it has the result of {message['tool_call_id']}, and not its call"
            waits.remove(message["tool_call_id"])
            continue
        if waits:
            return f"it has no results of {sorted(waits)}"
        waits = {call["id"] for call in message.get("tool_calls", ())}
    return f"it has no results of {sorted(waits)}" if waits else None


def overrides_of(events, turn_started):
    """What the message of a turn overrides."""
    accepted = events[turn_started.message_seq - 1]
    return accepted.overrides if isinstance(accepted, ConversationStarted | MessageAccepted) else None


class Asking:
    """What each model call of a log is to have been sent, worked out from the log alone."""

    def __init__(self, history):
        self._spec = self.spec = agent_of(history.conversation_id, history.events).spec
        self._events = history.events
        self._transcript = Transcript()

    def add(self, seq, event):
        """The next event."""
        if isinstance(event, TurnStarted):
            by = overrides_of(self._events, event)
            self.spec = self._spec if by is None else self._spec.overridden(by)
        elif isinstance(event, CompactionStarted):
            self.spec = self._spec
        self._transcript.add(seq, event)

    def sent(self, stopped="", *, by_hand=False):
        """The spec and the messages of a request here, the last of a turn that is `stopped`; and what is summarised by it."""
        found = self._window(stopped, by_hand=by_hand)
        return *to_send(self.spec, found), found.due

    def summarized(self, answer, due):
        """What comes of a model's answer to a request for a summary."""
        return verdict(answer, due, self._transcript.origins)

    def _window(self, stopped, *, by_hand):
        kept = self._transcript
        summaries = {"compacted": kept.compacted, "failed": kept.failed, "refused": kept.refused, "by_hand": by_hand}
        return window(self.spec, kept.messages(), kept.reported, stopped, **summaries)


def problem_of_summary(events, messages):
    """What is wrong with the messages of a request about the summary in a log; None if nothing is."""
    last = next((event for event in reversed(events) if isinstance(event, Compacted)), None)
    envelope = None if last is None else summarized(last.summary, last.messages)
    sent = [message["content"] for message in messages if str(message["content"]).startswith(f'{{"_kind":"{SUMMARY}"')]
    return None if sent == ([] if envelope is None else [envelope]) else f"it has the summaries {sent}, and {envelope} stands"


def summaries_stand_for_what_was_said(world, history):
    """A boundary never moves back, nothing that is open lies before it, and no model call has two summaries, but by hand."""
    boundary, messages, before, by_hand = 0, 0, None, False
    for seq, event in enumerate(history.events, 1):
        match event:
            case Compacted() | SummaryFailed():
                if getattr(event, "reason", None) is not SummaryFailure.NOT_ASKED:
                    if before == event.effect_id.rpartition(".r")[0] and before:
                        world.ledger.wrong("%s: %s is preceded by two summaries", history.conversation_id, before)
                    before = None if by_hand else event.effect_id  # what comes of it puts no later one off
                by_hand = False
            case CompactionRequested():
                before, by_hand = None, True
            case ModelAnswered():
                before = None
        if isinstance(event, Compacted):
            if not (boundary < event.boundary < seq and messages < event.messages):
                world.ledger.wrong("%s: its boundary moves from %d to %d", history.conversation_id, boundary, event.boundary)
            if history.states[event.boundary].turn is not None and history.states[event.boundary].turn.calls.running():
                world.ledger.wrong("%s: at the boundary %d a call runs", history.conversation_id, event.boundary)
            boundary, messages = event.boundary, event.messages


def replies_have_their_shape(world, history):
    """A turn ends with a reply that fits, or fails after so many repairs; what is not allowed is never sent.

    None fails for the length of its requests, if the provider takes as much as is declared.
    """
    spec = agent_of(history.conversation_id, history.events).spec
    answer, misfits, refused = None, 0, False

    def wrong(what):
        world.ledger.wrong("%s: %s", history.conversation_id, what)

    for event in history.events:
        match event:
            case TurnStarted():
                by = overrides_of(history.events, event)
                answer, misfits, refused = None, 0, not _allowed(spec, by)
            case ModelAnswered():
                if refused:
                    wrong(f"{event.effect_id} is answered, and its message overrides what is not allowed")
                answer = event
                misfits += _judged(spec, event, wrong)
            case TurnCompleted() if spec.reply is not None and event.stopped is None:
                if answer is None or not _fits(reply_of(answer)):
                    wrong(f"{event.turn_id} is completed by a reply that does not fit")
            case TurnFailed(reason=FailureReason.INVALID_REPLY) if answer is None or answer.misfit is None:
                wrong(f"{event.turn_id} fails by a reply that fits")
            case TurnFailed(reason=FailureReason.CONTEXT_OVERFLOW) if world.model.holds == 1:
                wrong(f"{event.turn_id} fails although there is room ({event.error})")
        if misfits > MOST_REPAIRS + 1:
            wrong(f"{answer.effect_id} is repaired once too often")


def _allowed(spec, by):
    return by is None or (spec.overridable is not None and by.given.keys() <= ALLOWED.keys())


def _judged(spec, event, wrong):
    """Hold what the log says of an answer against the answer; whether it is a reply that does not fit."""
    is_reply = spec.reply is not None and all(call.name == FINAL_ANSWER for call in event.calls)
    fits = is_reply and len(event.calls) < 2 and _fits(event.calls[0].arguments if event.calls else event.content)
    if event.shaped != fits:
        wrong(f"{event.effect_id} is {'' if event.shaped else 'not '}taken for a reply that fits")
    if (event.misfit is not None) != (is_reply and not fits):
        wrong(f"of {event.effect_id} the model is told {event.misfit!r}")
    return is_reply and not fits


def _fits(text):
    try:
        value = json.loads(text or "")
    except json.JSONDecodeError:
        return False
    return isinstance(value, dict) and value.keys() == {"n"} and type(value["n"]) is int
