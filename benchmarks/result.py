"""What a benchmark found: goals, tables and charts, as plain values that go into JSON and come back."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Row:
    """A goal: what was measured over what it is compared with."""

    what: str
    value: float
    unit: str
    floor: float
    ratio: float
    must_reach: float
    samples: int
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.ratio >= self.must_reach if self.at_least else self.ratio <= self.must_reach

    def cells(self) -> list[str]:
        """As text, for a table."""
        goal = f"at {'least' if self.at_least else 'most'} {self.must_reach:g}"
        return [
            self.what,
            f"{number(self.value)} {self.unit}",
            f"{number(self.floor)} {self.unit}",
            f"{number(self.ratio)}",
            goal,
            "yes" if self.met else "no",
            str(self.samples),
        ]


GOALS = ["what", "measured", "against", "ratio", "ratio to reach", "reached", "samples"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; `file` has no suffix. With `bars`, each series is one bar of one point."""

    file: str
    title: str
    x_label: str
    y_label: str
    series: list[Series]
    x_log: bool = False
    y_log: bool = False
    bars: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What one benchmark found."""

    rows: list[Row] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    raw: Any = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Back from JSON values."""
        series = lambda many: [Series(one["name"], [tuple(point) for point in one["points"]]) for one in many]  # noqa: E731
        return cls(
            rows=[Row(**row) for row in value["rows"]],
            tables=[Table(**table) for table in value["tables"]],
            charts=[Chart(**{**chart, "series": series(chart["series"])}) for chart in value["charts"]],
            versions=value["versions"],
            raw=value["raw"],
        )


def number(value: float) -> str:
    """With three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def percentile(samples: Iterable[float], share: float) -> float:
    """The least sample that so many of a hundred do not exceed (the nearest rank); not a number without samples."""
    ranked = sorted(samples)
    return ranked[max(math.ceil(share / 100 * len(ranked)), 1) - 1] if ranked else math.nan
