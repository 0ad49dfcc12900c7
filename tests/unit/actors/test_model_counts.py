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
        one.cost(usd)
    assert read(metrics.COST) == {("m",): pytest.approx(0.0025)}


@pytest.mark.parametrize(("reason", "outcome"), [(FailureReason.MODEL_TIMEOUT, "model_timeout"), (None, "failed")])
def test_a_call_that_failed_is_counted_by_why_and_has_no_first_piece(counted, reason, outcome):
    one, read = counted
    one.asked()
    one.ended(ModelFailed(effect_id="t1.m1", error="no", reason=reason))
    assert (read(metrics.MODEL_CALLS), read(metrics.MODEL_FIRST_S)) == ({("m", outcome): 1}, {})
