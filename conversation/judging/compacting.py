"""The judgement of summaries, and of requests for one."""

from typing import Any

from holdfast.conversation.ids import compaction_id
from holdfast.conversation.records.commands import ModelReplied, Summarized
from holdfast.conversation.records.event_base import MEASURED, SummaryFailure
from holdfast.conversation.records.events import Compacted, CompactionRequested, CompactionStarted, SummaryFailed
from holdfast.conversation.records.input_commands import CompactNow
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.context import check_compacts
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.text import jsontext
from holdfast.errors import QueueFull

from .judgement import Draft, Judgement, drafted
from .table import LATE

MISPLACED = "the boundary of a summary is {}, not one behind {} and up to {}"
REPLY_BYTES = "the summary has {} bytes, {} are allowed (Limits.reply_bytes)"
EMPTY = "the summary has no text"
ANSWERED = "the model was asked for a summary, and the outcome is another answer"
_PLACED = ("boundary", "messages", "asked_at", "tokens_before", "tokens_after")


def requested(state: State, command: CompactNow) -> Judgement:
    """Accept a request for a summary: of the turn that goes on, before its next model call; else by itself.

    While one waits or is under way, another request waits for the same summary, as many as `Limits.queued` allows. The spec of
    a turn that is over says nothing of the agent as it is published by now.
    """
    if state.turn is not None and command.spec is not None:
        check_compacts(command.spec.name, command.spec.context)
    if state.compact_requests >= command.limits.queued:
        raise QueueFull(state.conversation_id, state.compact_requests)
    draft = Draft(state, command)
    about = {"request_id": command.request_id, "principal": command.principal}
    return draft.done(draft.receipt(draft.emit(CompactionRequested(at=command.now, **about))))


def started(draft: Draft, spec: AgentSpec | None, code: str) -> CompactionStarted:
    """The beginning of the summary that the queue begins with."""
    seq = draft.state.compacting
    return CompactionStarted(
        at=draft.now,
        turn_id=compaction_id(seq),
        requested_at=seq,
        spec_digest="" if spec is None else spec.digest,
        code=code,
        budgets=() if spec is None else spec.budgeted,
        traceparent=draft.command.trace,
    )


def give_up(draft: Draft, error: str, reason: SummaryFailure, **used: Any) -> None:
    """Record that there is no summary, why, and what an answer in place of one used."""
    turn = draft.state.turn
    if turn is not None:
        about = {"turn_id": turn.turn_id, "effect_id": turn.model_effect_id}
        draft.emit(SummaryFailed(at=draft.now, **about, **used, reason=reason, error=jsontext.clean(error)))


def not_summarised(state: State, command: ModelReplied) -> Judgement:
    """Record that a model call that was to summarise, and nothing else, has come to something else."""
    draft = drafted(state, command)
    give_up(draft, ANSWERED, SummaryFailure.UNUSABLE, **_used(command))
    return draft.done()


def summarized(state: State, command: Summarized) -> Judgement:
    """Record a summary, or why there is none; the model call that it precedes becomes outstanding anew.

    A summary whose boundary is not behind the last one's is refused: no message comes back once a summary stands for it.
    """
    if state.turn is None:
        return Judgement(ignored=LATE.why)
    draft, summary = drafted(state, command), jsontext.clean(command.summary)
    said: dict[str, Any] = {"at": command.now, "turn_id": state.turn.turn_id, "effect_id": command.effect_id}
    said |= _used(command)
    reason, error = _problem(state, command, summary)
    if reason is None:
        placed = {name: getattr(command, name) for name in _PLACED}
        draft.emit(Compacted(**said, **placed, summary=summary, spec_digest=state.turn.spec_digest))
    else:
        draft.emit(SummaryFailed(**said, reason=reason, error=jsontext.clean(error)))
    return draft.done()


def _used(answer: ModelReplied | Summarized) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in MEASURED} | {"model": jsontext.clean(answer.model)}


def _problem(state: State, command: Summarized, summary: str) -> tuple[SummaryFailure | None, str]:
    if command.failed is not None:
        return command.failed, command.error
    if not summary.strip():
        return SummaryFailure.EMPTY, EMPTY
    if (size := jsontext.size_bytes(summary)) > command.limits.reply_bytes:
        return SummaryFailure.TOO_LONG, REPLY_BYTES.format(size, command.limits.reply_bytes)
    if not state.boundary < command.boundary <= state.seq or command.messages <= 0:
        return SummaryFailure.UNUSABLE, MISPLACED.format(command.boundary, state.boundary, state.seq)
    return None, ""
