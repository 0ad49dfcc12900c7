"""The reasons of turns that end without the model's whole answer."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a completed turn lacks the rest of the model's answer."""

    LENGTH = "length"  # the answer reached the model's token limit: its text is cut off
    CONTENT_FILTER = "content_filter"  # the provider's filter cut the text off


class FailureReason(StrEnum):
    """Why a turn failed."""

    MODEL_ERROR = "model_error"  # the provider's error, after all retries
    MODEL_TIMEOUT = "model_timeout"  # no answer within Limits.model_timeout_s
    LENGTH = "length"  # the answer was cut off at the token limit inside a tool call, or before any text
    CONTENT_FILTER = "content_filter"  # the provider's filter left nothing to continue with
    MAX_MODEL_CALLS = "max_model_calls"  # Limits.max_model_calls is reached
    MAX_CALLS = "max_calls"  # one answer asked for more calls than Limits.max_calls
    REPLY_BYTES = "reply_bytes"  # one answer was larger than Limits.reply_bytes
    UNUSABLE = "unusable"  # an answer came, and cannot be recorded
    NO_AGENT = "no_agent"  # the store does not know the conversation's app or agent (any more)
