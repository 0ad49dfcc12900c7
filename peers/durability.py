"""What is suspended, killed and resumed by Holdfast and its peers: bytes, lists, kill -9, and two answers at once."""

from typing import Any

from benchmarks import stack
from benchmarks.result import Chart, Part, Series, Table
from peers import contenders, process

RACES = 10


def measure(*, quick: bool) -> Part:
    """Each contender: suspend, list, kill, resume in a new process, then races."""
    count, races = (10, 3) if quick else (200, RACES)
    results: dict[str, dict[str, Any]] = {}
    with stack.model() as url:
        for name in contenders.present():
            with contenders.contender(name) as contender:
                results[name] = {
                    "suspend": process.killed(contender, "suspend", url, prefix="kill", count=count),
                    "resume": process.run(contender, "resume", url, prefix="kill", count=count),
                    "race": process.run(contender, "race", url, prefix="race", count=races),
                }
            resumed = results[name]["resume"]
            stack.console.print(f"{name}: {resumed['finished']} of {resumed['resumed']} finished after kill -9")
    return Part(
        tables=[
            Table(
                f"{count} conversations suspended, kill -9, resumed in a new process",
                [
                    "system",
                    "finished",
                    "new process ready",
                    "first, to its end",
                    "bytes of one at rest",
                    "process that holds them",
                ],
                [[name, *_life(each)] for name, each in results.items()],
            ),
            Table(
                f"Listing what is pending over all {count + 1} conversations",
                ["system", "found", "took", "how"],
                [
                    [name, str(each["found"]), f"{each['ms']:.0f} ms", each["how"]]
                    for name, each in ((name, result["suspend"]["pending"]) for name, result in results.items())
                ],
            ),
            Table(
                f"Two answers to one question at the same moment, {races} times",
                ["system", "both told that it is done", "one refused", "answers in the history", "model calls that followed"],
                [[name, *_race(result["race"])] for name, result in results.items()],
            ),
        ],
        charts=[
            Chart(
                "bytes",
                "A suspended conversation, bytes on disk",
                "",
                "bytes",
                [Series(name, [(0, each["suspend"]["bytes_each"]["disk"])]) for name, each in results.items()],
                bars=True,
            )
        ],
        versions={name: number for result in results.values() for name, number in result["suspend"]["versions"].items()},
        raw=results,
    )


def _life(result: dict[str, Any]) -> list[str]:
    suspended, resumed = result["suspend"], result["resume"]
    return [
        f"{resumed['finished']} of {resumed['resumed']}",
        f"{resumed['open_ms']:.0f} ms",
        f"{resumed['first_ms']:.0f} ms",
        ", ".join(f"{size:,.0f} in {kind}" for kind, size in suspended["bytes_each"].items()),
        suspended["held_by"],
    ]


def _race(race: dict[str, Any]) -> list[str]:
    refused = f"{race['one_refused']} ({', '.join(race['refusals'])})" if race["refusals"] else str(race["one_refused"])
    return [str(race["both_told_done"]), refused, f"{race['answers_kept']:g}", f"{race['model_calls']:g}"]
