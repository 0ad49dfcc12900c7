"""Whole conversations a second, suspended and resumed, against how many are held at once; Holdfast and its peers."""

from benchmarks import stack
from benchmarks.peers import contenders, process
from benchmarks.result import Chart, Part, Row, Series, Table


def measure(*, quick: bool) -> Part:
    """Every contender, one after the other, against the same stub model."""
    levels, count = ([1, 4], 16) if quick else ([1, 4, 16, 64], 150)
    results = {}
    with stack.model() as url:
        for name in contenders.present():
            with contenders.contender(name) as contender:
                results[name] = process.run(contender, "throughput", url, prefix="rate", count=count, levels=levels)
            rates = ", ".join(f"{level['per_s']:.1f} ({level['at_once']} at once)" for level in results[name]["levels"])
            stack.console.print(f"{name}: {rates} a second")
    best = {name: max(level["per_s"] for level in result["levels"]) for name, result in results.items()}
    ours, theirs = best[contenders.HOLDFAST], best[contenders.LANGGRAPH_SQLITE]
    samples = sum(level["conversations"] for level in results[contenders.HOLDFAST]["levels"])
    return Part(
        rows=[
            Row(
                "suspend and resume, conversations a second, against LangGraph's SQLite saver",
                ours,
                "/s",
                theirs,
                ours / theirs,
                1.0,
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
