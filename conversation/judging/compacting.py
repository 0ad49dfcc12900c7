"""The judgement of summaries."""

from typing import Any

from holdfast.conversation.records.commands import Summarized
from holdfast.conversation.records.event_base import MEASURED, SummaryFailure
from holdfast.conversation.records.events import Compacted, SummaryFailed
from holdfast.conversation.records.state import State
from holdfast.conversation.text import jsontext

from .judgement import Judgement, drafted
from .table import LATE

MISPLACED = "the boundary of a summary is {}, not one behind {} and up to {}"
REPLY_BYTES = "the summary has {} bytes, {} are allowed (Limits.reply_bytes)"
EMPTY = "the summary has no text"
_PLACED = ("boundary", "messages", "asked_at", "tokens_before", "tokens_after")


def summarized(state: State, command: Summarized) -> Judgement:
    """Record a summary, or why there is none; the model call that it precedes becomes outstanding anew.

    A summary whose boundary is not behind the last one's is refused: no message comes back once a summary stands for it.
    """
    if state.turn is None:
        return Judgement(ignored=LATE.why)
    draft, summary = drafted(state, command), jsontext.clean(command.summary)
    said: dict[str, Any] = {"at": command.now, "turn_id": state.turn.turn_id, "effect_id": command.effect_id}
    said |= {name: getattr(command, name) for name in MEASURED} | {"model": jsontext.clean(command.model)}
    reason, error = _problem(state, command, summary)
    if reason is None:
        placed = {name: getattr(command, name) for name in _PLACED}
        draft.emit(Compacted(**said, **placed, summary=summary, spec_digest=state.turn.spec_digest))
    else:
        draft.emit(SummaryFailed(**said, reason=reason, error=jsontext.clean(error)))
    return draft.done()


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
