"""Live events: what is told while it happens, to those who listen. They are lossy, and the log does not hold them."""

from typing import Any, Literal, TypeAlias

from .record import Record


class TextDelta(Record):
    """A piece of the model's text, as it comes.

    Attributes:
        at: When the worker published it, in integer milliseconds UTC by the worker's clock.
        effect_id: The model call.
        attempt: Which try of the model call it is, from 1. The pieces of a new try begin with the text's beginning.
        text: The piece.
    """

    kind: Literal["text_delta"] = "text_delta"
    at: int
    effect_id: str
    attempt: int
    text: str


class ReasoningDelta(Record):
    """A piece of what the model shows of its thinking, as it comes.

    Attributes:
        at: When the worker published it, in integer milliseconds UTC by the worker's clock.
        effect_id: The model call.
        attempt: Which try of the model call it is, from 1.
        text: The piece.
    """

    kind: Literal["reasoning_delta"] = "reasoning_delta"
    at: int
    effect_id: str
    attempt: int
    text: str


class ProgressReported(Record):
    """What a tool's body reported by `ToolContext.report_progress`.

    Attributes:
        at: When the body reported it, in integer milliseconds UTC by the worker's clock.
        effect_id: The run: the call's id, `#` and the attempt.
        attempt: Which run of the call it is, from 1.
        value: The JSON value that the body reported.
        message: The text that the body reported with it.
    """

    kind: Literal["progress"] = "progress"
    at: int
    effect_id: str
    attempt: int
    value: Any = None
    message: str | None = None


LiveEvent: TypeAlias = TextDelta | ReasoningDelta | ProgressReported
LIVE_EVENTS: tuple[type[Record], ...] = (TextDelta, ReasoningDelta, ProgressReported)
