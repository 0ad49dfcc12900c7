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


class ArgumentsDelta(Record):
    """A piece of the arguments of a call, as the model writes it. Only `model_answered` says that the call is whole.

    Attributes:
        at: When the worker published it, in integer milliseconds UTC by the worker's clock.
        effect_id: The model call.
        attempt: Which try of the model call it is, from 1. The pieces of a new try begin with the arguments' beginning.
        index: The place of the call among those of the answer, from 0, as in `model_answered`.
        tool: The tool's name, as far as it has come.
        text: The piece of the arguments' JSON text; it may be empty where the call begins.
    """

    kind: Literal["arguments_delta"] = "arguments_delta"
    at: int
    effect_id: str
    attempt: int
    index: int
    tool: str
    text: str


class ProgressReported(Record):
    """What a tool's body reported by `ToolContext.report_progress`.

    Attributes:
        at: When the body reported it, in integer milliseconds UTC by the worker's clock.
        effect_id: The run: the call's id, `#` and the attempt.
        attempt: Which run of the call it is, from 1.
        value: The JSON value that the body reported.
        message: The text that the body reported with it.
        status: The body's word for what it is doing, if it gave one.
        loaded: How much is done, in a unit of the body's, if it said so.
        total: How much there is to do, in the same unit, if it said so.
    """

    kind: Literal["progress"] = "progress"
    at: int
    effect_id: str
    attempt: int
    value: Any = None
    message: str | None = None
    status: str | None = None
    loaded: float | None = None
    total: float | None = None


LiveEvent: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta | ProgressReported
LIVE_EVENTS: tuple[type[Record], ...] = (TextDelta, ReasoningDelta, ArgumentsDelta, ProgressReported)
