"""What is counted of one model call."""

import pytest

from holdfast import metrics
from holdfast.actors.worker.model_outcome import ModelCounts
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied
from holdfast.counting import Counts, families


@pytest.fixture
def counted():
    """The counts of one call, and a function that reads a metric of them."""
    counts = Counts()

    def read(metric):
        (found,) = families(counts.standing(), [metric])
        return {labels: sum(value.buckets) if metric.bounds else value for labels, value in found.values.items()}

    return ModelCounts(counts, "m"), read


def test_an_answer_counts_its_tokens_and_each_request_its_first_piece(counted):
    one, read = counted
    for _ in range(2):
        one.asked()
        one.answers()
        one.answers()
    one.repeated()
    one.ended(ModelReplied(effect_id="t1.m1", content="Hi.", input_tokens=7, output_tokens=0))

    assert read(metrics.MODEL_CALLS) == {("m", "answered"): 1}
    assert read(metrics.TOKENS) == {("m", "input"): 7}
    assert (read(metrics.MODEL_FIRST_S), read(metrics.MODEL_S), read(metrics.MODEL_RETRIES)) == (
        {("m",): 2},
        {("m",): 1},
        {("m",): 1},
    )


def test_an_answer_counts_what_it_costs_where_that_is_known(counted):
    one, read = counted
    for usd in (0.002, None, 0.0005, -1.0, 0.0, float("nan"), float("inf")):
        one.whole(usd)
    assert read(metrics.COST) == {("m",): pytest.approx(0.0025)}


def test_what_a_cache_had_and_what_is_thinking_is_counted_apart(counted):
    one, read = counted
    used = {"input_tokens": 900, "output_tokens": 40, "cached_tokens": 512, "reasoning_tokens": 32}
    one.ended(ModelReplied(effect_id="t1.m1", content="Hi.", **used))
    assert read(metrics.TOKENS) == {("m", "input"): 900, ("m", "output"): 40}
    assert read(metrics.TOKENS_OF) == {("m", "cached"): 512, ("m", "reasoning"): 32}


def test_an_answer_says_its_cost_its_time_and_that_of_its_own_first_piece(counted, monkeypatch):
    one, _ = counted
    assert one.measured == {"cost_usd": None, "duration_ms": None, "first_token_ms": None}
    began_s = one._began_s
    for now_s, step in [(1, one.asked), (2, one.answers), (3, one.asked), (3.25, one.answers), (4, lambda: one.whole(1 / 3))]:
        monkeypatch.setattr("time.monotonic", lambda now_s=now_s: began_s + now_s)
        step()
    assert one.measured == {"cost_usd": 0.333333333, "duration_ms": 4000, "first_token_ms": 250}


@pytest.mark.parametrize("usd", [-1.0, float("nan"), float("inf"), 1e12])
def test_a_cost_that_is_none_is_unknown(counted, usd):
    one, _ = counted
    one.whole(usd)
    assert one.measured["cost_usd"] is None


@pytest.mark.parametrize(("reason", "outcome"), [(FailureReason.MODEL_TIMEOUT, "model_timeout"), (None, "failed")])
def test_a_call_that_failed_is_counted_by_why_and_has_no_first_piece(counted, reason, outcome):
    one, read = counted
    one.asked()
    one.ended(ModelFailed(effect_id="t1.m1", error="no", reason=reason))
    assert (read(metrics.MODEL_CALLS), read(metrics.MODEL_FIRST_S)) == ({("m", outcome): 1}, {})
