"""The words by which providers say that a request is too long."""

import pytest

from holdfast.actors.worker.overflow import says_overflow

TOO_LONG = (
    "This model's maximum context length is 8192 tokens.",
    "Error code: context_length_exceeded",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 200001 tokens.",
    "Please reduce the length of the messages or completion.",
    "too many tokens: size limit exceeded by 2000 tokens",
)
OTHERWISE = (
    *("", "Invalid value for 'temperature'.", "Unknown tool 'context'.", "Your credit balance is too low."),
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
    "Invalid 'user': string too long. Expected a string with maximum length 64.",
    "You exceeded your current quota, please check your plan.",
)


@pytest.mark.parametrize("words", TOO_LONG)
def test_a_request_that_is_too_long_is_told_by_its_refusal(words):
    assert says_overflow(400, words)
    assert says_overflow(400, words.upper())


@pytest.mark.parametrize("words", OTHERWISE)
def test_another_refusal_is_not(words):
    assert not says_overflow(400, words)


@pytest.mark.parametrize("status", [200, 401, 429, 500, None, "400"])
def test_another_status_says_something_else(status):
    assert not says_overflow(status, TOO_LONG[0])


def test_a_long_error_is_searched_at_its_beginning_in_little_time():
    assert not says_overflow(400, "input " * 200_000 + TOO_LONG[0])
    assert says_overflow(413, TOO_LONG[0] + "x" * 1_000_000)
