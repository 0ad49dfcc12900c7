"""The tables and goals of the benchmark of what remains of a turn, from what was measured."""

from collections.abc import Iterable
from statistics import median
from typing import Any

from benchmarks import usage
from benchmarks.result import Part, Row, Table, number

KINDS = {"flight": "one call", "look": "three tool rounds", "ask": "suspend and resolve"}
CALLS = {"flight": 1, "look": 4, "ask": 2}
"""Model calls of a turn of each kind; the floor is as many bare calls."""
COMPUTED = {1: 1.5, 8: 1.3, 64: 1.2}
"""What processor time may be reached by a one-call turn against the bare call, by how many go on at once."""
STARTED, ACKNOWLEDGED = 0.5, 0.1
SUMS = {
    "redis: round trips": "round trips to Redis",
    "redis: script": "scripts run by it",
    "redis: bytes sent": "bytes sent to it",
    "redis: bytes received": "bytes received from it",
    "ray": "actor calls of Ray",
    "pickle: by Holdfast": "values pickled by Holdfast",
    "unpickle: by Holdfast": "values unpickled by Holdfast",
    "pickle: by Ray": "values pickled by Ray",
    "validated: holdfast": "models of Holdfast validated",
    "validated: litellm": "models of litellm validated",
}
"""What is summed up, by how its names begin."""


def part_of(raw: dict[str, Any]) -> Part:
    """The goals and the tables."""
    rows = [goal(one) for one in raw["turns"] if one["kind"] == "flight"]
    rows += starting(raw["starts"], raw["flight"], raw["delay_s"])
    tables = [computing(raw["turns"], raw["starts"]), rates(raw["turns"], raw["starts"]), *counting(raw["counted"])]
    return Part(rows=rows, tables=tables, versions=raw["versions"], raw=raw)


def goal(one: dict[str, Any]) -> Row:
    """Processor time against the bare call, window by window."""
    ours, floor = ([usage.split(window["cpu_ms"])[0] for window in one[name]] for name in ("ours", "floor"))
    ratio = median(each / least for each, least in zip(ours, floor, strict=True))
    what = f"processor time of a one-call turn, {one['level']} at once, against bare calls beside it"
    samples = sum(window["count"] for window in one["ours"])
    spent = median(ours)
    return Row(what, spent, "ms", median(floor), ratio, COMPUTED[one["level"]], samples)


def starting(starts: list[Any], flight: dict[str, Any], delay_s: float) -> list[Row]:
    """Starts a second, and how soon many are acknowledged."""
    empty, ours = ([pair[place]["per_s"] for pair in starts] for place in (0, 1))
    ratio = median(each / most for each, most in zip(ours, empty, strict=True))
    acknowledged, took = median(flight["acknowledged_s"]), flight["took_s"]
    many = (
        f"{flight['count']:,} starts at once acknowledged (p50), whose model answers after {delay_s:g} s, against all answers"
    )
    return [
        Row(
            "durable starts a second, 64 at once, against empty Ray actor calls of the same client",
            median(ours),
            "/s",
            median(empty),
            ratio,
            STARTED,
            sum(ours["count"] for _, ours in starts),
            at_least=True,
        ),
        Row(many, acknowledged, "s", took, acknowledged / took, ACKNOWLEDGED, flight["count"]),
    ]


def computing(turns: list[dict[str, Any]], starts: list[Any]) -> Table:
    """Processor time of a turn, by kind of process."""
    empty, started = zip(*starts, strict=True)
    columns = {title(one): (one["ours"], one["floor"], CALLS[one["kind"]]) for one in turns}
    columns["start only, 64 at once"] = (started, empty, 0)
    medians = []
    for windows, _, _ in columns.values():
        kinds = {kind for window in windows for kind, spent in window["cpu_ms"].items() if spent}
        medians.append({kind: median(window["cpu_ms"].get(kind, 0.0) for window in windows) for kind in kinds})
    kinds = sorted({kind for each in medians for kind in each}, key=lambda kind: -max(each.get(kind, 0) for each in medians))
    lines = [[kind, *(milliseconds(each.get(kind, 0.0)) for each in medians)] for kind in kinds]
    ours = [ours_ms(windows) for windows, _, _ in columns.values()]
    floors = [calls * ours_ms(floor) for _, floor, calls in columns.values()]
    lines += [
        ["all but Ray's own", *map(milliseconds, ours)],
        ["Ray's own", *(milliseconds(usage.split(each)[1]) for each in medians)],
        ["as many bare model calls", *(milliseconds(floor) if floor else "" for floor in floors)],
        ["ratio", *(number(each / floor) if floor else "" for each, floor in zip(ours, floors, strict=True))],
        ["samples", *(count(windows) for windows, _, _ in columns.values())],
    ]
    return Table("Processor time of a turn, by kind of process (median of the windows)", ["kind", *columns], lines)


def ours_ms(windows: Iterable[dict[str, Any]]) -> float:
    """The processor time of one, without that of Ray's own processes."""
    return median(usage.split(window["cpu_ms"])[0] for window in windows)


def milliseconds(value: float) -> str:
    """With its unit."""
    return f"{number(value)} ms"


def title(one: dict[str, Any]) -> str:
    """What a column is of."""
    return f"{KINDS[one['kind']]}, {one['level']} at once"


def rates(turns: list[dict[str, Any]], starts: list[Any]) -> Table:
    """How many a second."""
    empty, started = zip(*starts, strict=True)
    lines = [
        [
            what,
            *(number(median(window["per_s"] for window in windows)) for windows in (ours, floor)),
            *(number(1000 / ours_ms(windows)) for windows in (ours, floor)),
            samples,
        ]
        for what, ours, floor, samples in (
            *((title(one), one["ours"], one["floor"], count(one["ours"])) for one in turns),
            ("start only, 64 at once, and empty Ray calls", started, empty, count(started)),
        )
    ]
    heads = ["turn", "Holdfast", "bare model calls", "Holdfast, by processor time", "bare calls, by processor time", "samples"]
    return Table("Turns a second, and in a second of processor time (median of the windows)", heads, lines)


def count(windows: Iterable[dict[str, Any]]) -> str:
    """Of how many conversations the windows are."""
    return str(sum(window["count"] for window in windows))


def counting(found: dict[str, Any]) -> list[Table]:
    """What each process does for a turn: sums, and each by its name."""
    columns = [*KINDS, "rest"]
    names = sorted({name for column in columns for name, many in found[column].items() if many >= 0.05})
    lines = [
        [
            *name.split("; ", 1),
            *(number(found[column][name]) if found[column].get(name, 0) >= 0.005 else "" for column in columns),
        ]
        for name in names
    ]
    processes = ("client", "actor", "worker")

    def total(kind: str, begins: str, among: tuple[str, ...]) -> str:
        split = [(*name.split("; ", 1), many) for name, many in found[kind].items()]
        return number(sum(many for process, name, many in split if process in among and name.startswith(begins)))

    sums = [
        [what, *(total("flight", begins, (one,)) for one in processes), *(total(kind, begins, processes) for kind in KINDS)]
        for begins, what in SUMS.items()
    ]
    heads = ["what", *(f"{KINDS['flight']}: {one}" for one in processes), *(f"{kind}: all three" for kind in KINDS.values())]
    return [
        Table("What client, actors and workers do for one turn, beyond what goes on at rest", heads, sums),
        Table("The same, each by its name", ["process", "what", *KINDS.values(), "at rest, a second"], lines),
    ]
