"""The call that a tool's body serves, as the body sees it."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.conversation.terms.decisions import Decision
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.text.jsontext import NotJson, dumps, size_bytes
from holdfast.errors import InvalidInput

from .cancellation import Cancellation

PROGRESS_BYTES = 64 << 10
"""The largest report of progress, in bytes of its JSON text."""

STATUS_LENGTH = 64
LARGEST = 1 << 53
"""Beyond which a number of things is none: floats and pages count exactly below it."""


class Report(Protocol):
    """What `report_progress` calls."""

    def __call__(self, value: Any, message: str | None, **how_far: Any) -> None:
        """Take a JSON value and a text, and those of `status`, `loaded` and `total` that were given."""
        ...


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The call that a tool's body serves; a parameter annotated with it receives it, and the model does not see that parameter.

    Attributes:
        conversation_id: The conversation of the call.
        turn_id: The turn of the call.
        tool_call_id: The call; unique in its conversation for ever. Conversation and call together are the idempotency key:
            a run that was lost is run again under the same key.
        attempt: 1 at first, and one more each time a lost run is run again.
        requester: Who sent the message that this turn answers, and how that was proven; None: nobody said.
        approver: Who decided that the call runs, and how that was proven; of a call that runs by grants, who gave the first of
            them. None: nobody did, or nobody said who.
        decision: What was decided, for a tool with `resume="pass_to_tool"` and a body that goes on after it raised `Suspend`;
            None at first.
        context: The JSON value that `start` was given for this conversation.
        resources: The resources that the app's lifespan yielded in this worker.
        report: The function that `report_progress` calls, in the thread that the body runs in; None without streaming.
        cancellation: What `cancelled` and `wait_cancelled` tell of.
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
    report: Report | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: the turn was cancelled, or the run's time is up.

        A body is not interrupted then, for it may be in the middle of something. One that takes long looks here now and then,
        and ends where that does no harm; what it returns is kept as a late outcome, and the model does not read it.
        """
        return self.cancellation.is_set

    async def wait_cancelled(self) -> None:
        """Return once `cancelled` is true; for a body that waits for something else beside it."""
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
        """Publish an intermediate result of a streaming tool as an event; callable from threads and from the event loop.

        Args:
            value: Any JSON value.
            message: A short line that says the same to a person.
            status: A word for what the body is doing, such as `downloading`; at most `STATUS_LENGTH` characters.
            loaded: How much is done, in a unit of yours, from 0.
            total: How much there is to do, in the same unit; a page draws a bar of the two.

        Raises:
            RuntimeError: The tool is not declared with `streaming=True`.
            InvalidInput: The value is not JSON, or larger than `PROGRESS_BYTES`; the status is no short text, or an amount is
                none.
        """
        if self.report is None:
            raise RuntimeError("this tool cannot report progress; declare it with streaming=True")
        if status is not None and not (isinstance(status, str) and 0 < len(status) <= STATUS_LENGTH):
            raise InvalidInput("status", f"{status!r:.40} is no short text", f"give at most {STATUS_LENGTH} characters")
        for name, number in (("loaded", loaded), ("total", total)):
            if number is not None and not _is_amount(number):
                raise InvalidInput(name, f"{number!r:.40} is no amount", "give a number from 0, or leave it out")
        given = {"status": status, "loaded": loaded, "total": total}
        how_far = {name: one for name, one in given.items() if one is not None}
        try:
            size = size_bytes(dumps([value, message, how_far]))
        except NotJson as error:
            raise InvalidInput("progress", f"it is not JSON ({error})", "report only what JSON can carry") from error
        if size > PROGRESS_BYTES:
            problem = f"it has {size} bytes, {PROGRESS_BYTES} are allowed"
            raise InvalidInput("progress", problem, "report how far it is, and return what it leads to")
        self.report(value, message, **how_far)


def _is_amount(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < LARGEST
