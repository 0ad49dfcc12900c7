"""Turns of one model call and of three tool rounds, whose tool runs at once: Holdfast beside LangGraph, window by window."""

from statistics import median
from typing import Any

from benchmarks import turn
from benchmarks.flight_process import model
from benchmarks.result import Part, Row, Table, number
from benchmarks.turn_tables import KINDS, count, milliseconds, ours_ms, title
from peers import contenders
from peers.environment import python


def measure(*, quick: bool) -> Part:
    """Each window of ours has one of theirs beside it."""
    size, found = turn.QUICK if quick else turn.Size(), []
    with (
        model() as stub,
        turn.side("langgraph", stub, python()) as theirs,
        turn.side("turns", stub) as ours,
    ):
        for kind, level, many in size.turns:
            if kind == "ask":
                continue  # that is `throughput`
            for each in (ours, theirs):
                each.warm(kind, level, size.warm_s)
            pairs = [(ours.window(kind, level, many), theirs.window(kind, level, many)) for _ in range(size.windows)]
            found.append({"kind": kind, "level": level, "ours": [one for one, _ in pairs], "theirs": [one for _, one in pairs]})
        versions = ours.about["versions"] | theirs.about["versions"]
        for each in (ours, theirs):
            each.driver.go_on()
    return part_of(found, versions)


def part_of(found: list[dict[str, Any]], versions: dict[str, str]) -> Part:
    """The goals, and a table."""
    columns = ["turn", *(f"{name}, {what}" for what in ("a second", "processor time") for name in NAMES), "samples"]
    lines = [
        [
            title(one),
            *(number(median(window["per_s"] for window in one[side])) for side in ("ours", "theirs")),
            *(milliseconds(ours_ms(one[side])) for side in ("ours", "theirs")),
            count(one["ours"]),
        ]
        for one in found
    ]
    rows = [row(one) for one in found if one["kind"] == "look" for row in (goal, rate)]
    return Part(
        rows=rows,
        tables=[Table("Turns beside LangGraph (median of the windows)", columns, lines)],
        versions=versions,
        raw=found,
    )


def goal(one: dict[str, Any]) -> Row:
    """Processor time of a turn with tool rounds."""
    pairs = [(ours_ms([ours]), ours_ms([theirs])) for ours, theirs in zip(one["ours"], one["theirs"], strict=True)]
    spent, least = (median(side) for side in zip(*pairs, strict=True))
    what = f"processor time of a turn of {KINDS['look']}, {one['level']} at once, against {contenders.LANGGRAPH_SQLITE}"
    return Row(what, spent, "ms", least, median(ours / theirs for ours, theirs in pairs), 1.0, int(count(one["ours"])))


def rate(one: dict[str, Any]) -> Row:
    """Turns with tool rounds a second."""
    ours, theirs = ([window["per_s"] for window in one[side]] for side in ("ours", "theirs"))
    what = f"turns of {KINDS['look']} a second, {one['level']} at once, against {contenders.LANGGRAPH_SQLITE}"
    ratio = median(each / other for each, other in zip(ours, theirs, strict=True))
    return Row(what, median(ours), "/s", median(theirs), ratio, 1.2, int(count(one["ours"])), at_least=True)


NAMES = (contenders.HOLDFAST, contenders.LANGGRAPH_SQLITE)
