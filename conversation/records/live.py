"""Live events: sent while something happens, to current listeners only. They are lossy, and not in the log."""

from typing import Any, Literal, TypeAlias, get_args

from holdfast.conversation.record import Record

PROGRESS_BYTES = 64 << 10
"""The most bytes of JSON text in one report of progress."""


class LiveBase(Record):
    """The base of every live event.

    Attributes:
        at: When it was sent, in integer milliseconds UTC by the worker's clock.
        effect_id: The model call, or the run: the call's id, `#` and the attempt.
        attempt: Which try of the model call, or which run of the call, it is, from 1. A new try sends its pieces from the
            beginning.
    """

    kind: str
    at: int
    effect_id: str
    attempt: int


class TextDelta(LiveBase):
    """A piece of the model's text, as it comes.

    Attributes:
        text: The piece.
    """

    kind: Literal["text_delta"] = "text_delta"
    text: str


class ReasoningDelta(LiveBase):
    """A piece of the thinking that the model shows, as it comes.

    Attributes:
        text: The piece.
    """

    kind: Literal["reasoning_delta"] = "reasoning_delta"
    text: str


class ArgumentsDelta(LiveBase):
    """A piece of the arguments of a call, as the model writes it. Only `model_answered` says that the call is whole.

    Attributes:
        index: The place of the call among those of the answer, from 0, as in `model_answered`.
        tool: The tool's name, as far as it has come.
        text: The piece of the arguments' JSON text; it may be empty where the call begins.
    """

    kind: Literal["arguments_delta"] = "arguments_delta"
    index: int
    tool: str
    text: str


class ProgressReported(LiveBase):
    """A report of a tool's body by `ToolContext.report_progress`.

    Attributes:
        value: The JSON value that the body reported.
        message: The text that the body reported with it.
        status: The body's word for its current step, if it gave one.
        loaded: How much is done, in a unit of the body's, if it said so.
        total: How much there is to do, in the same unit, if it said so.
    """

    kind: Literal["progress"] = "progress"
    value: Any = None
    message: str | None = None
    status: str | None = None
    loaded: float | None = None
    total: float | None = None


LiveEvent: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta | ProgressReported
LIVE_EVENTS: tuple[type[LiveBase], ...] = get_args(LiveEvent)
