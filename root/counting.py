"""Counters of one process: plain numbers by metric and labels, which the process adds to the store now and then.

A count is a name and a whole number to add. A counter has the name `metric|label|...`; a histogram has one name for each
bucket, `metric|label|...|<number of the bucket>`, and `metric|label|...|sum` in microseconds. All names of a histogram are sent
together, so a store without room for more names takes all of them or none. The store only adds, so counts outlive the process.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from .metrics import OTHER, Distribution, Family, Metric, MetricType, Value

SERIES = 200
"""How many label combinations a metric has in one process; further ones are counted under `other`."""
LABEL = 100
"""How many characters of a label value are kept."""
CUT = "|"
SUM = "sum"
MICROS = 1_000_000


class Counts:
    """The counts of a process since it last sent them."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._known: dict[str, dict[tuple[str, ...], str]] = {}
        self._waits = True

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add 1, or `by`, to a counter."""
        name = self._name(metric, labels)
        self._counts[name] = self._counts.get(name, 0) + round(by * metric.parts)
        self._waits = self._waits and metric.waits

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add a duration to a histogram; a negative one (of clocks that differ) counts as zero."""
        seconds = max(seconds, 0.0)
        bucket = next((place for place, bound in enumerate(metric.bounds) if seconds <= bound), len(metric.bounds))
        name = self._name(metric, labels)
        if f"{name}{CUT}{SUM}" not in self._counts:
            self._counts |= {f"{name}{CUT}{part}": 0 for part in (*range(len(metric.bounds) + 1), SUM)}
        self._counts[f"{name}{CUT}{bucket}"] += 1
        self._counts[f"{name}{CUT}{SUM}"] += round(seconds * MICROS)
        self._waits = self._waits and metric.waits

    def standing(self) -> Mapping[str, int]:
        """The current counts, without a reset."""
        return dict(self._counts)

    def taken(self) -> dict[str, int]:
        """The counts since the last call, and a reset. Empty while only metrics with `waits` have counts."""
        if self._waits:
            return {}
        taken, self._counts, self._waits = self._counts, {}, True
        return taken

    def put_back(self, counts: Mapping[str, int]) -> None:
        """Add counts back that were taken and could not be sent."""
        for name, by in counts.items():
            self._counts[name] = self._counts.get(name, 0) + by
        self._waits = self._waits and not counts

    def _name(self, metric: Metric, labels: tuple[str, ...]) -> str:
        known = self._known.setdefault(metric.name, {})
        name = known.get(labels)
        if name is None:
            if len(labels) != len(metric.labels):
                message = f"{metric.name} has the labels {metric.labels}"
                raise ValueError(message)
            full = len(known) >= SERIES
            name = CUT.join((metric.name, *(OTHER if full else _clean(label) for label in labels)))
            if not full:
                known[labels] = name
        return name


def families(counts: Mapping[str, int], metrics: Iterable[Metric]) -> list[Family]:
    """The values of these metrics. Counts of other metrics, such as a newer release's, are left out."""
    by_name = {metric.name: metric for metric in metrics}
    found: dict[str, dict[tuple[str, ...], Value]] = {name: {} for name in by_name}
    buckets: dict[tuple[str, tuple[str, ...]], dict[str, int]] = defaultdict(dict)
    for text, count in counts.items():
        name, *labels = text.split(CUT)
        metric = by_name.get(name)
        if metric is None:
            continue
        if metric.type is MetricType.HISTOGRAM and len(labels) == len(metric.labels) + 1:
            buckets[name, tuple(labels[:-1])][labels[-1]] = count
        elif metric.type is not MetricType.HISTOGRAM and len(labels) == len(metric.labels):
            found[name][tuple(labels)] = count if metric.parts == 1 else count / metric.parts
    for (name, of), parts in buckets.items():
        numbers = tuple(parts.get(str(place), 0) for place in range(len(by_name[name].bounds) + 1))
        found[name][of] = Distribution(numbers, parts.get(SUM, 0) / MICROS)
    return [Family(metric, found[name]) for name, metric in by_name.items()]


def _clean(label: str) -> str:
    text = "".join(char if char.isprintable() and char != CUT else "_" for char in label[:LABEL])
    return text.encode("utf-8", "replace").decode()
