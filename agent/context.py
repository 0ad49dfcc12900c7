"""What a running body sees of its call, and reports: `ToolContext` at a worker; a client's handler has its own."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.conversation.records.live import PROGRESS_BYTES
from holdfast.conversation.terms.decisions import Decision
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.text.jsontext import NotJson, dumps, size_bytes
from holdfast.errors import InvalidInput

from .cancellation import Cancellation

STATUS_LENGTH = 64
LARGEST = 1 << 53
"""The limit of amounts: below it, floats and browsers count exactly."""


class Report(Protocol):
    """The function that `report_progress` calls."""

    def __call__(self, value: Any, message: str | None, **how_far: Any) -> None:
        """Take a JSON value, a text, and `status`, `loaded` and `total` if given."""


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """A running body's cancellation, and its reports of progress.

    Attributes:
        report: The function that `report_progress` calls, in the body's thread; None without streaming.
        cancellation: The flag behind `cancelled` and `wait_cancelled`.
    """

    report: Report | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: the turn was cancelled, or the time for it has passed.

        The body is not interrupted, since it may be in the middle of something. A long one checks this now and then, and
        returns at a safe point; the model does not read its result.
        """
        return self.cancellation.is_set

    async def wait_cancelled(self) -> None:
        """Return once `cancelled` is true, for a body that also waits for something else."""
        await self.cancellation.wait()

    def report_progress(
        self,
        value: Any = None,
        *,
        message: str | None = None,
        status: str | None = None,
        loaded: float | None = None,
        total: float | None = None,
    ) -> None:
        """Publish an intermediate result as an event; callable from threads and from the event loop.

        Args:
            value: Any JSON value.
            message: A short line that says the same to a person.
            status: A word for what the body is doing, such as `downloading`; at most `STATUS_LENGTH` characters.
            loaded: How much is done, in a unit of yours, from 0.
            total: How much there is to do, in the same unit; a page draws a progress bar from both.

        Raises:
            RuntimeError: The tool is not declared with `streaming=True`.
            InvalidInput: The value is not JSON, or larger than `PROGRESS_BYTES`; the status is not short text, or an amount is
                not a number from 0.
        """
        if self.report is None:
            raise RuntimeError("this tool cannot report progress; declare it with streaming=True")
        given = {"status": status, "loaded": loaded, "total": total}
        how_far = {name: one for name, one in given.items() if one is not None}
        check_progress(value, message, **how_far)
        self.report(value, message, **how_far)


@dataclass(frozen=True, kw_only=True)
class ToolContext(Reporting):
    """The call that a tool's body serves, passed to a parameter annotated with it, which the model does not see.

    Attributes:
        conversation_id: The conversation of the call.
        turn_id: The turn of the call.
        tool_call_id: The call, unique in its conversation. Conversation and call together are the idempotency key: a lost run
            is run again under the same key.
        attempt: 1 at first, and one more each time a lost run is run again.
        requester: The sender of the message that this turn answers, and how that was proven; None if unknown.
        approver: The person who let the call run, and how that was proven; for a call that runs by grants, the giver of the
            first one. None if nobody did, or if unknown.
        decision: The decision, for a tool with `resume="pass_to_tool"` and a body that continues after it raised `Suspend`;
            None at first.
        context: The JSON value that `start` was given for this conversation.
        resources: The resources that the app's lifespan yielded in this worker.
    """

    conversation_id: str
    turn_id: str
    tool_call_id: str
    attempt: int = 1
    requester: Principal | None = None
    approver: Principal | None = None
    decision: Decision | None = None
    context: Any = None
    resources: Any = None


def check_progress(value: Any, message: str | None = None, **how_far: Any) -> None:
    """Refuse (`InvalidInput`) a report of progress that is not JSON or too large, or whose status or amounts are none."""
    status = how_far.get("status")
    if status is not None and not (isinstance(status, str) and 0 < len(status) <= STATUS_LENGTH):
        raise InvalidInput("status", f"{status!r:.40} is no short text", f"give at most {STATUS_LENGTH} characters")
    for name in ("loaded", "total"):
        if how_far.get(name) is not None and not _is_amount(how_far[name]):
            raise InvalidInput(name, f"{how_far[name]!r:.40} is no amount", "give a number from 0, or leave it out")
    try:
        size = size_bytes(dumps([value, message, how_far]))
    except NotJson as error:
        raise InvalidInput("progress", f"it is not JSON ({error})", "report only what JSON can carry") from error
    if size > PROGRESS_BYTES:
        problem = f"it has {size} bytes, {PROGRESS_BYTES} are allowed"
        raise InvalidInput("progress", problem, "report less; the data itself belongs in the result")


def _is_amount(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < LARGEST
