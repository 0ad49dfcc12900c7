"""The tables and goals of the benchmark of conversations in flight, from what was measured."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.result import Chart, Part, Row, Series, Table, number, percentile
from benchmarks.turn_tables import COMPUTED
from benchmarks.usage import actors, split

TOTAL = 1.1
"""Until all have answered, against plain litellm or a peer: most of it is the delay, which all wait for."""
BUSY = 5.0
"""The 99th percentile of an acknowledgement beside many that wait, against the median of an idle system."""
A_SECOND = {1: 0.9, 8: 1.5, 64: 2.5}
"""One-call conversations a second, by how many at once, against a peer in one process."""
AT_REST = 1.1
"""Processor time of an actor whose conversation rests, against one that does nothing."""
FLOWN = [
    "answered",
    "total",
    "against the floor",
    "start acknowledged (p50)",
    "start acknowledged (p99)",
    "processor time",
    "that of Ray's own processes",
    "that of all else on the machine, the model included",
    "memory at its peak (PSS)",
    "that of Ray's own processes then",
    "model requests of each conversation",
    "streams at once at the model",
    "settings",
]
MIB = 2**20
HEAVY = 1000
"""From how many in flight on the memory has a goal."""
MOST_MIB = 0.8e9 / MIB


def part_of(raw: dict[str, Any]) -> Part:
    """Everything that was measured; what was not is left out."""
    rows, tables = [], []
    for some_rows, some_tables in (
        _flights(raw["flights"]),
        _rates(raw["rates"]),
        _waiting(raw["waiting"]) if "waiting" in raw else ([], []),
        _idle(raw["idle"]) if "idle" in raw else ([], []),
        _killed(raw["killed"]) if "killed" in raw else ([], []),
    ):
        rows += some_rows
        tables += some_tables
    widths = raw.get("widths", [])
    charts = _charts(widths) if widths else []
    measured = [*raw["flights"], *raw["rates"], *widths]
    versions = {name: text for one in measured for name, text in one["versions"].items()}
    return Part(rows=rows, tables=tables, charts=charts, versions=versions, raw=raw)


def _flights(flights: list[dict[str, Any]]) -> tuple[list[Row], list[Table]]:
    if not flights:
        return [], []
    count, delay_s = flights[0]["count"], flights[0]["delay_s"]
    floor_s = min(one["took_s"] for one in flights if one["system"].startswith("plain"))
    tables = [
        Table(
            f"{count:,} conversations at once, whose model answers after {delay_s:g} s, until all have answered",
            ["what", *(one["system"] for one in flights)],
            [list(line) for line in zip(FLOWN, *(_flown(one, floor_s) for one in flights), strict=True)],
        )
    ]
    rows = []
    tables += [_processes(one) for one in flights if one["processes"]["after_linger"]]
    ours, theirs = ([one for one in flights if one["system"].startswith(name)] for name in ("Holdfast", "LangGraph"))
    for one in ours:
        what, held = (
            f"{count:,} conversations at once, {delay_s:g} s each, until all have answered",
            one["ends"].get("answered", 0),
        )
        rows.append(Row(f"{what}, against plain litellm", one["took_s"], "s", floor_s, one["took_s"] / floor_s, TOTAL, held))
        if count >= HEAVY:
            weighs, what_weighs = one["peak"]["ours"] / MIB, f"memory of all processes but Ray's own, {count:,} in flight (PSS)"
            rows.append(Row(what_weighs, weighs, "MiB", MOST_MIB, weighs / MOST_MIB, 1.0, held))
        for peer in theirs:
            ratio = one["took_s"] / peer["took_s"]
            rows.append(Row(f"{what}, against {peer['system']}", one["took_s"], "s", peer["took_s"], ratio, TOTAL, held))
    return rows, tables


def _flown(one: dict[str, Any], floor_s: float) -> list[str]:
    ours, rays = split(one["cpu_s"])
    started, requests = one["acknowledged_s"], one["requests"]
    each = requests["fewest"], requests["most"]
    return [
        f"{one['ends'].get('answered', 0):,} of {one['count']:,}",
        f"{one['took_s']:.1f} s",
        f"{one['took_s'] / floor_s:.2f}",
        *(f"{number(percentile(started, share) * 1000)} ms" if started else "none" for share in (50, 99)),
        f"{ours:.1f} s",
        f"{rays:.1f} s" if rays else "none",
        f"{one['cpu_elsewhere_s']:.1f} s",
        f"{one['peak']['ours'] / MIB:,.0f} MiB",
        f"{one['peak']['rays'] / MIB:,.0f} MiB" if one["peak"]["rays"] else "none",
        str(each[0]) if each[0] == each[1] else f"{each[0]} to {each[1]}",
        f"{one['most_open']:,}",
        one["settings"],
    ]


def _processes(one: dict[str, Any]) -> Table:
    processes, sizes = one["processes"], (one["none"], one["peak"]["by_kind"], one["peak"]["resident"])
    kinds = [kind for kind in one["cpu_s"] if one["cpu_s"][kind] or processes["most"].get(kind)]
    hosts = [str(actors(processes[when])) for when in ("most", "at_peak", "after_linger")]
    return Table(
        f"{one['system']}: its processes in that flight, by kind",
        [
            *("kind", "most", "at the peak of memory", "one linger after", "processor"),
            *("memory with none in flight (PSS)", "at its peak (PSS)", "resident then"),
        ],
        [
            *(
                [
                    kind,
                    *(str(processes[when].get(kind, 0)) for when in ("most", "at_peak", "after_linger")),
                    f"{one['cpu_s'].get(kind, 0.0):.2f} s",
                    *(f"{size.get(kind, 0) / MIB:,.0f} MiB" for size in sizes),
                ]
                for kind in kinds
            ),
            ["all that host conversations, or could", *hosts, "", "", "", ""],
            ["all but Ray's own", "", "", "", "", *(f"{split(size)[0] / MIB:,.0f} MiB" for size in sizes)],
        ],
    )


def _charts(widths: list[dict[str, Any]]) -> list[Chart]:
    """Time and memory against the number in flight."""
    delay_s = widths[0]["delay_s"]
    systems = list(dict.fromkeys(one["system"] for one in widths))

    def series(value: Callable[[dict[str, Any]], float]) -> list[Series]:
        return [Series(name, [(one["count"], value(one)) for one in widths if one["system"] == name]) for name in systems]

    label = f"conversations at once, whose model answers after {delay_s:g} s"
    return [
        Chart(
            "in-flight-time", "Until all have answered", label, "seconds", series(lambda one: float(one["took_s"])), x_log=True
        ),
        Chart(
            "in-flight-memory",
            "Memory of all processes at its peak (PSS), Ray's own included",
            label,
            "MiB",
            series(lambda one: float(one["peak"]["ours"] + one["peak"]["rays"]) / MIB),
            x_log=True,
        ),
    ]


def _rates(rates: list[dict[str, Any]]) -> tuple[list[Row], list[Table]]:
    if not rates:
        return [], []
    levels = [f"{level['level']} at once" for level in rates[0]["levels"]]
    floor = next(one for one in rates if one["system"].startswith("plain"))
    ours, theirs = ([one for one in rates if one["system"].startswith(name)] for name in ("Holdfast", "LangGraph"))
    rows = [
        _computed(level, bare, "the bare call's", COMPUTED.get(level["level"], 1.3))
        for one in ours
        for level, bare in zip(one["levels"], floor["levels"], strict=True)
    ]
    for one, peer in itertools.product(ours, theirs):
        for level, other in zip(one["levels"], peer["levels"], strict=True):
            rows.append(_computed(level, other, peer["system"], 1.0))
            what = f"one-call conversations a second, {level['level']} at once, against {peer['system']}"
            per_s, floor_per_s, samples = level["per_s"], other["per_s"], level["conversations"]
            goal = A_SECOND.get(level["level"], 1.0)
            rows.append(Row(what, per_s, "/s", floor_per_s, per_s / floor_per_s, goal, samples, at_least=True))
    tables = [
        Table(
            "One-call conversations a second, whose model answers at once",
            ["system", *levels, "settings"],
            [[one["system"], *(f"{level['per_s']:.1f}" for level in one["levels"]), one["settings"]] for one in rates],
        ),
        Table(
            "Processor time of one, in all processes of the system; Ray's own beside it",
            ["system", *levels],
            [[one["system"], *(_pair(level["cpu_ms"]) for level in one["levels"])] for one in rates],
        ),
        Table(
            "Processor time of all else on the machine meanwhile, a second, the model included",
            ["system", *levels],
            [[one["system"], *(_elsewhere(level) for level in one["levels"])] for one in rates],
        ),
        *(_by_kind(one, levels) for one in rates if len(one["levels"][0]["cpu_ms"]) > 1),
    ]
    unended = {
        f"{one['system']}, {level['level']} at once": {end: many for end, many in level["ends"].items() if end != "answered"}
        for one in rates
        for level in one["levels"]
    }
    if any(unended.values()):
        cells = [[what, ", ".join(f"{end}: {many}" for end, many in ends.items())] for what, ends in unended.items() if ends]
        tables.append(Table("What did not end with the model's answer", ["system", "ends"], cells))
    return rows, tables


def _computed(ours: dict[str, Any], other: dict[str, Any], against: str, goal: float) -> Row:
    spent, least = split(ours["cpu_ms"])[0], split(other["cpu_ms"])[0]
    what = f"processor time of a one-call turn, {ours['level']} at once, against {against}"
    return Row(what, spent, "ms", least, spent / least, goal, ours["conversations"])


def _pair(by_kind: Mapping[str, float]) -> str:
    ours, rays = split(by_kind)
    return f"{number(ours)} ms and {number(rays)} ms" if rays else f"{number(ours)} ms"


def _elsewhere(level: dict[str, Any]) -> str:
    return f"{number(level['cpu_elsewhere_s'] / level['took_s'] * 1000)} ms"


def _by_kind(one: dict[str, Any], levels: list[str]) -> Table:
    kinds = list(dict.fromkeys(kind for level in one["levels"] for kind, spent in level["cpu_ms"].items() if spent))
    shown = [[kind, *(_of_kind(level, kind) for level in one["levels"])] for kind in kinds]
    return Table(
        f"{one['system']}: processor time of one, by kind of process (and how many there are)", ["kind", *levels], shown
    )


def _of_kind(level: dict[str, Any], kind: str) -> str:
    return f"{number(level['cpu_ms'].get(kind, 0.0))} ms ({level['processes'].get(kind, 0)})"


def _waiting(found: dict[str, Any]) -> tuple[list[Row], list[Table]]:
    idle, busy = ([seconds * 1000 for seconds in found[name]] for name in ("idle_s", "busy_s"))
    p50, p99 = percentile(idle, 50), percentile(busy, 99)
    what = f"start acknowledged (p99) beside {found['count']:,} that are to wait for their model, against an idle system (p50)"
    cells = [
        [name, *(f"{number(percentile(each, share))} ms" for share in (50, 99, 100)), str(len(each)), str(late)]
        for name, each, late in (
            ("on an idle system", idle, 0),
            (f"beside {found['waits']:,} that wait, of {found['count']:,} started", busy, found["busy_late"]),
        )
    ]
    columns = ["start acknowledged", "p50", "p99", "slowest", "samples", "given up (counted as 30 s)"]
    return [Row(what, p99, "ms", p50, p99 / p50, BUSY, len(busy))], [Table("New conversations, five a second", columns, cells)]


def _killed(found: dict[str, Any]) -> tuple[list[Row], list[Table]]:
    requests, answered = found["requests"], found["ends"].get("answered", 0)
    what = f"model requests for each effect, the most, of {found['count']:,} conversations, actors killed at random"
    title = f"{found['count']:,} conversations, {found['delay_s']:g} s each, while one actor a second is killed at random"
    cells = [str(found["killed"]), f"{answered:,}", str(requests["fewest"]), str(requests["most"]), f"{found['took_s']:.1f} s"]
    return [Row(what, requests["most"], "requests", 1, requests["most"], 1.0, found["count"])], [
        Table(title, ["actors killed", "answered", "requests each, the fewest", "the most", "until all have answered"], [cells])
    ]


def _idle(found: dict[str, Any]) -> tuple[list[Row], list[Table]]:
    ours, empty = found["holdfast"], found["empty"]
    hosts, bare = actors(ours["processes"]), actors(empty["processes"])
    each, floor = _hosts_ms(ours) / max(hosts, 1), _hosts_ms(empty) / max(bare, 1)
    kinds = [
        kind for kind in {**ours["ms_per_s"], **empty["ms_per_s"]} if ours["processes"].get(kind, empty["processes"].get(kind))
    ]
    what = "processor time of an actor whose conversation rests, a second, against an actor that does nothing"
    cells = [[kind, *(_rests(one, kind) for one in (ours, empty))] for kind in kinds]
    cells.append(["all else on the machine", *(f"{number(one['elsewhere_ms_per_s'])} ms" for one in (ours, empty))])
    cells.append(["each that hosts, or does nothing", f"{number(each)} ms", f"{number(floor)} ms"])
    title = f"Processor time a second, of {found['conversations']} conversations at rest (and how many processes there are)"
    return [Row(what, each, "ms", floor, each / floor, AT_REST, hosts)], [
        Table(title, ["kind", "Holdfast", "empty actors"], cells)
    ]


def _hosts_ms(one: dict[str, Any]) -> float:
    """Of all actors, in a second."""
    return float(sum(spent for kind, spent in one["ms_per_s"].items() if actors({kind: 1})))


def _rests(one: dict[str, Any], kind: str) -> str:
    return f"{number(one['ms_per_s'].get(kind, 0.0))} ms ({one['processes'].get(kind, 0)})"
