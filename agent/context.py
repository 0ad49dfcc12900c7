"""The call that a tool's body serves, as the body sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from holdfast.conversation.jsontext import NotJson, dumps, size_bytes
from holdfast.errors import InvalidInput

from .cancellation import Cancellation

PROGRESS_BYTES = 64 << 10
"""The largest report of progress, in bytes of its JSON text."""

Report: TypeAlias = Callable[[Any, str | None], None]


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The call that a tool's body serves; a parameter annotated with it receives it, and the model does not see that parameter.

    Attributes:
        conversation_id: The conversation of the call.
        turn_id: The turn of the call.
        tool_call_id: The call; unique in its conversation for ever. Conversation and call together are the idempotency key:
            a run that was lost is run again under the same key.
        attempt: 1 at first, and one more each time a lost run is run again.
        context: The JSON value that `start` was given for this conversation.
        resources: The resources that the app's lifespan yielded in this worker.
        report: The function that `report_progress` calls, in the thread that the body runs in; None without streaming.
        cancellation: What `cancelled` and `wait_cancelled` tell of.
    """

    conversation_id: str
    turn_id: str
    tool_call_id: str
    attempt: int = 1
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

    def report_progress(self, value: Any, *, message: str | None = None) -> None:
        """Publish an intermediate result of a streaming tool as an event; callable from threads and from the event loop.

        Args:
            value: Any JSON value.
            message: A short line that says the same to a person.

        Raises:
            RuntimeError: The tool is not declared with `streaming=True`.
            InvalidInput: The value is not JSON, or larger than `PROGRESS_BYTES`.
        """
        if self.report is None:
            raise RuntimeError("this tool cannot report progress; declare it with streaming=True")
        try:
            size = size_bytes(dumps([value, message]))
        except NotJson as error:
            raise InvalidInput("progress", f"it is not JSON ({error})", "report only what JSON can carry") from error
        if size > PROGRESS_BYTES:
            problem = f"it has {size} bytes, {PROGRESS_BYTES} are allowed"
            raise InvalidInput("progress", problem, "report how far it is, and return what it leads to")
        self.report(value, message)
