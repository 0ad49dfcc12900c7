"""The exit code of each error and its line on stderr, decided here alone: other modules let a `HoldfastError` rise."""

import sys
from enum import IntEnum
from typing import Any

import typer

from holdfast import errors as known
from holdfast.errors import HoldfastError, InvalidInput, NotPermitted
from holdfast.redaction import PLAIN

from .display import clean, to_json


class ExitCode(IntEnum):
    """The outcome of a command."""

    DONE = 0  # the command did its work
    FAILED = 1  # the command failed, or a conversation did
    BAD_INPUT = 2  # an input cannot be used; nothing was changed
    STALE = 3  # the call does not wait for this decision any more
    UNREACHABLE = 4  # Redis or Ray does not answer, or not in time
    AWAITING = 5  # a conversation awaits somebody (`submit`), or actors are left in the drained place (`drain`)


PROVE = (
    "; the command line only states who decides: decide over the server with a token of your own (--url, HOLDFAST_TOKEN), "
    "or in the inbox, or have the app's Approvers say stated=True"
)
"""The fix if a principal of the command line does not count."""
_BAD = (
    InvalidInput,
    NotPermitted,
    known.InvalidLink,
    known.AlreadyVoted,
    known.ConversationExists,
    known.ConversationEnded,
    known.CipherMissing,
)
_MISSING = (known.ConversationNotFound, known.TurnNotFound, known.MessageNotFound, known.SummaryNotFound)
_AWAY = (known.StoreUnavailable, known.ClusterStopped, known.ClusterUnavailable, known.OutcomeUnknown)
_CODES: dict[ExitCode, tuple[type[HoldfastError], ...]] = {
    ExitCode.BAD_INPUT: (*_BAD, *_MISSING),
    ExitCode.STALE: (known.StaleCall,),
    ExitCode.UNREACHABLE: _AWAY,
    ExitCode.FAILED: (HoldfastError,),
}


class InvalidLines(InvalidInput):
    """Some lines of a file are invalid, so none was used; `lines` has one text for each such line."""

    def __init__(self, field: str, problem: str, fix: str, lines: tuple[str, ...]) -> None:
        super().__init__(field, problem, fix)
        self.args = (field, problem, fix, lines)
        self.lines = lines


def code_of(error: Exception) -> int | None:
    """The exit code of an expected error; None for any other."""
    if isinstance(error, typer.TyperException):
        return error.exit_code
    if isinstance(error, HoldfastError):
        return next(code for code, kinds in _CODES.items() if isinstance(error, kinds))
    return None


def say(error: Exception, *, as_json: bool) -> None:
    """Print an expected error on stderr: as a line, or with `--json` as an object."""
    sys.stdout.flush()
    if as_json:
        sys.stderr.write(to_json(as_dict(error)) + "\n")
        return
    lines = [*error.lines, str(error)] if isinstance(error, InvalidLines) else [message_of(error)]
    sys.stderr.writelines(f"error: {clean(PLAIN.redacted(line))}\n" for line in lines)


def as_dict(error: Exception) -> dict[str, Any]:
    """An error as plain JSON values: its class, its message, and its fields."""
    found: dict[str, Any] = {"error": type(error).__name__, "message": message_of(error)}
    if isinstance(error, HoldfastError):
        found |= {name: PLAIN.within(value) for name, value in vars(error).items() if not name.startswith("_")}
    return found


def message_of(error: Exception) -> str:
    """The text of an error, without secrets."""
    said = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    if isinstance(error, NotPermitted) and error.why.endswith("is stated, not proven"):
        said += PROVE
    return PLAIN.redacted(said)
