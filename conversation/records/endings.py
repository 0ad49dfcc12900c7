"""Why turns end otherwise than with the model's whole answer."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a turn was completed although the model had more to say."""

    LENGTH = "length"  # the answer reached the model's token limit: its text is cut off
    CONTENT_FILTER = "content_filter"  # the provider's filter cut the text off


class FailureReason(StrEnum):
    """Why a turn failed."""

    MODEL_ERROR = "model_error"  # the provider's error, after all retries
    MODEL_TIMEOUT = "model_timeout"  # no answer within Limits.model_timeout_s
    LENGTH = "length"  # the answer was cut off at the token limit inside a tool call, or before it said anything
    CONTENT_FILTER = "content_filter"  # the provider's filter left nothing to go on with
    MAX_MODEL_CALLS = "max_model_calls"  # Limits.max_model_calls is reached
    MAX_CALLS = "max_calls"  # one answer asked for more calls than Limits.max_calls
    REPLY_BYTES = "reply_bytes"  # one answer was larger than Limits.reply_bytes
    UNUSABLE = "unusable"  # the answer came, and cannot be recorded
    NO_AGENT = "no_agent"  # the app or agent of the conversation is not known to the store (any more)
