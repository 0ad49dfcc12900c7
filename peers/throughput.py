"""Whole conversations a second, suspended and resumed, against how many are held at once; Holdfast and its peers."""

from typing import Any

from benchmarks import stack
from benchmarks.result import Chart, Part, Row, Series, Table
from peers import contenders, process


def measure(*, quick: bool) -> Part:
    """Every contender, one after the other, against the same stub model."""
    levels, count = ([1, 4], 16) if quick else ([1, 4, 8, 16], 150)
    results: dict[str, dict[str, Any]] = {}
    names = contenders.present()
    with stack.model() as url:
        for level in levels:  # in turns, each over a fresh store, so that the machine's moods meet all of them
            for name in names:
                with contenders.contender(name) as contender:
                    warm_s = 1.0 if quick else 8 + level / 2  # until all the processes are there that the level needs
                    result = process.run(
                        contender, "throughput", url, prefix="rate", count=count, levels=[level], warm_s=warm_s
                    )
                results.setdefault(name, {**result, "levels": []})["levels"] += result["levels"]
                stack.console.print(f"{name}: {result['levels'][0]['per_s']:.1f} a second, {level} at once")
    best = {name: max(level["per_s"] for level in result["levels"]) for name, result in results.items()}
    ours, theirs = best[contenders.HOLDFAST], best[contenders.LANGGRAPH_SQLITE]
    samples = sum(level["conversations"] for level in results[contenders.HOLDFAST]["levels"])
    return Part(
        rows=[
            Row(
                "suspend and resume, conversations a second, against LangGraph's SQLite saver (best of 1 to 16 at once)",
                ours,
                "/s",
                theirs,
                ours / theirs,
                2.0,
                samples,
                at_least=True,
            )
        ],
        tables=[
            Table(
                "Whole conversations a second, by how many are held at once",
                ["system", *(f"{level} at once" for level in levels), "p50 of one, alone", "settings"],
                [
                    [
                        name,
                        *(f"{level['per_s']:.1f}" for level in result["levels"]),
                        f"{result['levels'][0]['p50_ms']:.0f} ms",
                        result["settings"],
                    ]
                    for name, result in results.items()
                ],
            ),
            Table(
                "Processor time of one conversation, in all processes of the system but the stub model's",
                ["system", *(f"{level} at once" for level in levels)],
                [[name, *(f"{level['cpu_ms']:.0f} ms" for level in result["levels"])] for name, result in results.items()],
            ),
        ],
        charts=[
            Chart(
                "throughput",
                "Conversations a second: suspend, resume, finish",
                "conversations held at once",
                "conversations a second",
                [Series(name, [(one["at_once"], one["per_s"]) for one in each["levels"]]) for name, each in results.items()],
                x_log=True,
            )
        ],
        versions={name: number for result in results.values() for name, number in result["versions"].items()},
        raw=results,
    )
