"""Counting in a process: names, histograms, and bounds on what they may be called."""

import pytest

from holdfast import metrics
from holdfast.counting import LABEL, SERIES, Counts, families
from holdfast.metrics import Distribution, MetricType


def family(counts, metric):
    (found,) = families(counts, [metric])
    return found.values


def test_what_is_counted_is_read_again_by_its_labels():
    counts = Counts()
    counts.add(metrics.MESSAGES, "desk")
    counts.add(metrics.MESSAGES, "desk", by=2)
    counts.add(metrics.MESSAGES, "shop")

    assert family(counts.standing(), metrics.MESSAGES) == {("desk",): 3, ("shop",): 1}


def test_a_histogram_has_each_value_in_one_bucket_and_their_sum():
    counts = Counts()
    for seconds in (0.5, 1, 1.1, 10_000_000, -3):
        counts.observe(metrics.WAIT, seconds, "desk", "approval")

    found = family(counts.standing(), metrics.WAIT)["desk", "approval"]

    assert isinstance(found, Distribution)
    assert found.buckets[:2] == (3, 1)
    assert (found.buckets[-1], sum(found.buckets)) == (1, 5)
    assert found.sum == pytest.approx(10_000_002.6)


def test_what_was_taken_is_counted_once_more_only_if_it_is_put_back():
    counts = Counts()
    counts.add(metrics.FENCED)
    taken = counts.taken()
    assert (counts.taken(), taken) == ({}, {"holdfast_fenced_writes_total": 1})

    counts.add(metrics.FENCED)
    counts.put_back(taken)

    assert counts.taken() == {"holdfast_fenced_writes_total": 2}


def test_beyond_so_many_series_all_labels_are_other():
    counts = Counts()
    for number in range(SERIES + 5):
        counts.add(metrics.MESSAGES, f"agent-{number}")
    counts.add(metrics.MESSAGES, "agent-0")

    found = family(counts.standing(), metrics.MESSAGES)

    assert (len(found), found["other",], found["agent-0",]) == (SERIES + 1, 5, 2)


def test_what_a_process_that_does_nothing_counts_too_is_said_with_the_next_of_other_counts():
    counts = Counts()
    counts.observe(metrics.REDIS_S, 0.002)
    assert counts.taken() == {}
    counts.add(metrics.FENCED)

    taken = counts.taken()
    assert sum(family(taken, metrics.REDIS_S)[()].buckets) == family(taken, metrics.FENCED)[()] == 1

    counts.observe(metrics.REDIS_S, 0.002)
    assert counts.taken() == {}
    counts.put_back(taken)
    assert sum(family(counts.taken(), metrics.REDIS_S)[()].buckets) == 2


def test_parts_of_a_unit_add_up():
    counts = Counts()
    for _ in range(3):
        counts.add(metrics.COST, "m", by=0.000_000_25)
    assert family(counts.standing(), metrics.COST) == {("m",): pytest.approx(0.000_000_75)}


def test_a_histogram_says_all_its_buckets_each_time_so_that_a_full_store_has_it_whole_or_not_at_all():
    counts = Counts()
    for _ in range(2):
        counts.observe(metrics.WAIT, 2, "desk", "approval")
        taken = counts.taken()
        parts = {name.rpartition("|")[2] for name in taken}
        assert parts == {*map(str, range(len(metrics.WAIT.bounds) + 1)), "sum"}
        assert sum(by for name, by in taken.items() if not name.endswith("sum")) == 1


@pytest.mark.parametrize("label", ["a|b", "line\nbreak", "x" * 1000, "\ud800", ""])
def test_a_label_of_any_text_stays_one_label(label):
    counts = Counts()
    counts.add(metrics.MESSAGES, label)
    ((found,),) = family(counts.standing(), metrics.MESSAGES)
    assert len(found) <= LABEL
    assert found.isprintable()
    assert "|" not in found


def test_a_metric_has_all_its_labels_or_is_not_counted():
    with pytest.raises(ValueError, match="holdfast_messages_total has the labels"):
        Counts().add(metrics.MESSAGES)


def test_counts_of_what_this_release_does_not_know_are_left_out():
    strange = {"holdfast_later_total|x": 1, "holdfast_messages_total": 1, "holdfast_messages_total|a|b": 1, "": 1}
    assert family(strange, metrics.MESSAGES) == {}
    histogram = {"holdfast_decision_wait_seconds|desk|approval|99": 1, "holdfast_decision_wait_seconds|desk": 1}
    (found,) = family(histogram, metrics.WAIT).values()
    assert sum(found.buckets) == 0


def test_every_metric_has_a_name_a_unit_and_bounds_as_prometheus_wants_them():
    every = [*metrics.COUNTED, *metrics.READ, *metrics.SERVED]
    assert len({metric.name for metric in every}) == len(every)
    for metric in every:
        assert metric.name.startswith("holdfast_")
        assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
        assert (metric.type is MetricType.HISTOGRAM) == bool(metric.bounds)
        assert list(metric.bounds) == sorted(metric.bounds)
        assert not metric.bounds or metric.name.endswith("_seconds")
        assert metric.help.endswith(".")
        assert not {"conversation", "le"} & set(metric.labels)
