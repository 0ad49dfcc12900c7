"""`python -m benchmarks [NAME ...] [--quick] [--json PATH] [--write-docs | --draw]`."""

import argparse
import importlib
import json
import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.table import Table as RichTable

from benchmarks import docs, postgres, stack
from benchmarks.result import GOALS, Part, Table
from holdfast.embedded import server_binary

PARTS = {
    "core": "the hot path against its floors",
    "memory": "a live actor, a suspended conversation at rest",
    "pages": "a page of what is pending, by how much is pending",
    "history": "bytes and revival by the length of the history",
    "command": "`holdfast pending` as a process",
    "rehearsal": "three turns of an agent's unit test, without a stack",
    "throughput": "conversations a second, against the peers",
    "durability": "kill, resume, bytes, lists and races, against the peers",
}


def machine() -> dict[str, str]:
    """On what, without names."""
    names = ("holdfast", "ray", "redis", "litellm", "pydantic")
    has_postgres = postgres.missing() is None
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
        "redis server": max((version for _, version in server_binary._all_usable()), key=lambda version: version.series).text,
        **({"postgres server": postgres.version().partition(") ")[2].partition(" ")[0]} if has_postgres else {}),
        **{name: version(name) for name in names},
    }


def show(table: Table) -> None:
    """Print a table."""
    rich = RichTable(*table.columns, title=table.title)
    for row in table.rows:
        rich.add_row(*row)
    stack.console.print(rich)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Holdfast against floors and peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(f"{name}: {what}" for name, what in PARTS.items()))
    parser.add_argument("--quick", action="store_true", help="small numbers, for development: not to be quoted")
    parser.add_argument("--json", type=Path, help="where the results go, beside those of earlier runs (out/results.json)")
    parser.add_argument("--write-docs", action="store_true", help="write tables and charts of the results into docs/")
    parser.add_argument("--draw", action="store_true", help="measure nothing: write docs/ from the results of earlier runs")
    options = parser.parse_args()
    unknown = set(options.names) - set(PARTS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    options.json = options.json or stack.OUT / ("quick.json" if options.quick else "results.json")
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    if options.draw and not results:
        parser.error(f"there are no results to draw in {options.json}")
    names = [] if options.draw else options.names or list(PARTS)
    for name in names:
        stack.console.rule(f"{name}: {PARTS[name]}")
        began, load = time.monotonic(), os.getloadavg()[0]
        part: Part = importlib.import_module(f"benchmarks.{name}").measure(quick=options.quick)
        results[name] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "took_s": round(time.monotonic() - began),
            "quick": options.quick,
            "load_before": round(load, 1),
            "machine": machine(),
            **part.to_json(),
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
        for table in part.tables:
            show(table)
    parts = {name: Part.from_json(results[name]) for name in PARTS if name in results and (not names or name in names)}
    show(Table("Goals", GOALS, [row.cells() for part in parts.values() for row in part.rows]))
    stack.console.print(f"written: {options.json}")
    if options.write_docs or options.draw:
        docs.write(results)


if __name__ == "__main__":
    main()
