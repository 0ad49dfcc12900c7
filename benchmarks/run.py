"""Running benchmarks one after the other: their tables on the screen, their results in a file of JSON."""

import argparse
import importlib
import json
import os
import platform
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table as RichTable

from benchmarks import stack
from benchmarks.result import GOALS, Part, Table
from holdfast.embedded import server_binary


def parser(prog: str, description: str, parts: dict[str, str]) -> argparse.ArgumentParser:
    """The options that every command of benchmarks has."""
    found = argparse.ArgumentParser(prog=prog, description=description)
    found.add_argument("names", nargs="*", metavar="NAME", help="; ".join(f"{name}: {what}" for name, what in parts.items()))
    found.add_argument("--quick", action="store_true", help="small numbers, for development: not to be quoted")
    found.add_argument("--json", type=Path, help="where the results go, beside those of earlier runs (out/results.json)")
    return found


def chosen(given: argparse.ArgumentParser, options: argparse.Namespace, parts: dict[str, str]) -> list[str]:
    """The benchmarks that are to run; all where none is named."""
    unknown = set(options.names) - set(parts)
    if unknown:
        given.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    return options.names or list(parts)


def file_of(options: argparse.Namespace, out: Path) -> Path:
    """Where results are kept."""
    return options.json or out / ("quick.json" if options.quick else "results.json")


def read(file: Path) -> dict[str, Any]:
    """The results of earlier runs."""
    return json.loads(file.read_text()) if file.exists() else {}


def measured(
    package: str, parts: dict[str, str], names: list[str], options: argparse.Namespace, *, out: Path, about: dict[str, str]
) -> dict[str, Any]:
    """Run these benchmarks of a package; their results, with those of earlier runs. `about` is said of the machine, too."""
    file = file_of(options, out)
    results = read(file)
    for name in names:
        stack.console.rule(f"{name}: {parts[name]}")
        began, load = time.monotonic(), os.getloadavg()[0]
        part: Part = importlib.import_module(f"{package}.{name}").measure(quick=options.quick)
        took_s = round(time.monotonic() - began)
        results[name] = entry(part, took_s=took_s, load_before=load, quick=options.quick, about=about)
        write(file, results)
        for table in part.tables:
            _show(table)
    show_goals(Part.from_json(results[name]) for name in parts if name in results and (not names or name in names))
    stack.console.print(f"written: {file}")
    return results


def entry(part: Part, *, took_s: int, load_before: float, quick: bool, about: dict[str, str]) -> dict[str, Any]:
    """What is kept of a benchmark: its result, and when and on what it ran."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": took_s,
        "quick": quick,
        "load_before": round(load_before, 1),
        "machine": _machine() | about,
        **part.to_json(),
    }


def write(file: Path, results: dict[str, Any]) -> None:
    """Keep the results."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=1) + "\n")


def _machine() -> dict[str, str]:
    """On what, without names."""
    names = ("holdfast", "ray", "redis", "litellm", "pydantic")
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
        "redis server": max((version for _, version in server_binary._all_usable()), key=lambda version: version.series).text,
        **{name: version(name) for name in names},
    }


def show(part: Part) -> None:
    """The tables of a benchmark and its goals, on the screen."""
    for table in part.tables:
        _show(table)
    show_goals([part])


def show_goals(parts: Iterable[Part]) -> None:
    """The goals of all of them in one table."""
    _show(Table("Goals", GOALS, [row.cells() for part in parts for row in part.rows]))


def _show(table: Table) -> None:
    rich = RichTable(*table.columns, title=table.title)
    for row in table.rows:
        rich.add_row(*row)
    stack.console.print(rich)
