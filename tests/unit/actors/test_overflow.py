"""The words by which providers say that a request is too long."""

import pytest
from overflow_words import MAPPED, MAPPED_OF_ONE, OTHERWISE, UNMAPPED

from holdfast.actors.worker.overflow import says_overflow

TOO_LONG = [*MAPPED.values(), *MAPPED_OF_ONE.values(), *UNMAPPED.values()]
ONE = TOO_LONG[0]


@pytest.mark.parametrize("words", TOO_LONG)
def test_a_request_that_is_too_long_is_told_by_its_refusal(words):
    assert says_overflow(400, words)
    assert says_overflow(400, words.upper())


@pytest.mark.parametrize("words", OTHERWISE.values(), ids=OTHERWISE)
def test_another_refusal_is_not(words):
    assert not says_overflow(400, words)
    assert not says_overflow(413, words)


def test_what_litellm_takes_for_it_counts_but_for_a_field_and_for_what_is_counted_by_time_or_by_answer():
    assert says_overflow(None, "words that nobody knows", known=True)
    assert not says_overflow(400, OTHERWISE["an id"], known=True)
    assert not says_overflow(400, OTHERWISE["groq, in a minute"], known=True)
    assert not says_overflow(400, OTHERWISE["groq, output"], known=True)


@pytest.mark.parametrize("status", [200, 401, 429, 500, None, "400"])
def test_another_status_says_something_else(status):
    assert not says_overflow(status, ONE)


def test_a_long_error_is_searched_at_its_beginning_in_little_time():
    assert not says_overflow(400, "input " * 200_000 + ONE)
    assert says_overflow(413, ONE + "x" * 1_000_000)


@pytest.mark.parametrize(
    "part", ["input length ", "prompt tokens ", "exceeds the maximum ", "max_tokens_", "current length is 1", "max_" + "a" * 20]
)
def test_words_that_almost_fit_again_and_again_do_not_fit(part):
    assert not any(says_overflow(400, part * 1000) for _ in range(100))
