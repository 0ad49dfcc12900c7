"""The one table of (status, command): handled, refused with which error, or ignored and why."""

from dataclasses import dataclass
from typing import TypeAlias

from holdfast.conversation.records.command_base import Outcome, Request
from holdfast.conversation.records.commands import COMMANDS
from holdfast.conversation.records.state import Status
from holdfast.errors import ConversationEnded, ConversationExists, ConversationNotFound


@dataclass(frozen=True, slots=True)
class Handled:
    """The command's judge decides."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The command raises this error, which takes the conversation id."""

    error: type[ConversationNotFound | ConversationExists | ConversationEnded]


@dataclass(frozen=True, slots=True)
class Ignored:
    """The command changes nothing, for this reason."""

    why: str


Cell: TypeAlias = Handled | Refused | Ignored

_HANDLED = Handled()
_NOT_FOUND = Refused(ConversationNotFound)
_ENDED = Refused(ConversationEnded)
_EXISTS = Refused(ConversationExists)
LATE = Ignored("the outcome is late: its effect is not outstanding")
_NOTHING = Ignored("nothing can be due")

_REQUESTS = [kind.model_fields["kind"].default for kind in COMMANDS if issubclass(kind, Request)]
_OUTCOMES = [kind.model_fields["kind"].default for kind in COMMANDS if issubclass(kind, Outcome)]
_OF_RUNS = ("run_finished", "run_suspended", "run_ruled", "run_lost")
_OF_MODELS = ("turn_prepared", "model_replied", "model_failed", "summarized")


def _row(*, requests: Cell, start: Cell = _EXISTS, outcomes: tuple[str, ...] = (), wake: Cell) -> dict[str, Cell]:
    row: dict[str, Cell] = {"start": start, "wake": wake}
    row |= {kind: requests for kind in _REQUESTS if kind != "start"}
    row |= {kind: _HANDLED if kind in outcomes else LATE for kind in _OUTCOMES}
    return row


TABLE: dict[Status, dict[str, Cell]] = {
    Status.ABSENT: _row(requests=_NOT_FOUND, start=_HANDLED, wake=_NOTHING),
    Status.IDLE: _row(requests=_HANDLED, wake=_HANDLED),
    Status.GENERATING: _row(requests=_HANDLED, outcomes=_OF_MODELS, wake=_HANDLED),
    Status.EXECUTING_TOOLS: _row(requests=_HANDLED, outcomes=_OF_RUNS, wake=_HANDLED),
    Status.AWAITING_INPUT: _row(requests=_HANDLED, outcomes=_OF_RUNS, wake=_HANDLED),
    Status.FAILED: _row(requests=_HANDLED, wake=_HANDLED),
    Status.ENDED: _row(requests=_ENDED, start=_ENDED, wake=_NOTHING),
}
"""What happens to each kind of command in each status. Known duplicates are answered before the table is consulted."""
