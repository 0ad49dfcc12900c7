"""A sample of mutants, one after the other: each is put in place, tested, and taken back."""

import json
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from . import suites
from .mutants import Mutant, mutants_of
from .tree import Tree

SLOWER = 5
AT_LEAST_S = 60
"""A mutant that takes so many times as long as the unchanged product, and this much more, hangs: that is noticed, too."""


@dataclass(slots=True)
class Result:
    """What became of one mutant: `killed`, `timeout` or `survived`; `by` is the end of what the tests said."""

    mutant: Mutant
    status: str
    by: str
    seconds: float


class BaselineFails(Exception):
    """The unchanged product does not pass these tests here."""


def everything(root, only=""):
    """Every mutant of the modules whose path begins so."""
    return [
        mutant
        for path in suites.modules(root)
        if path.startswith(only)
        for mutant in mutants_of(path, (root / path).read_text())
    ]


def sample(root, number, seed, only=""):
    """So many of them, or all if there are no more; the same seed draws the same ones from the same tree.

    Each package has the same share, as far as it has that many.
    """
    rng = random.Random(seed)
    drawn = [[mutant for mutant in everything(root, only) if mutant.path.startswith(package)] for package in suites.PACKAGES]
    for mutants in drawn:
        rng.shuffle(mutants)
    chosen = []
    while len(chosen) < number and any(drawn):
        next_ones = [mutants.pop() for mutants in drawn if mutants]
        chosen += [mutant for mutant in next_ones if mutant.compiles((root / mutant.path).read_text())]
    return chosen[:number]


def run(root, mutants, *, known=None, told=print):
    """Test each mutant that is not known yet; the results, as they come.

    Raises:
        BaselineFails: Its tests fail without it, too.
    """
    known = known or {}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Tree(root, folder)
        baseline = {}
        for number, mutant in enumerate(mutants, 1):
            if mutant.name in known:
                continue
            commands = suites.commands(tree.root, mutant.path, sys.executable)
            for command in commands:
                if str(command) not in baseline:
                    baseline[str(command)] = _baseline(tree, command)
            source = (tree.root / mutant.path).read_text()
            tree.write(mutant.path, mutant.applied(source))
            try:
                result = _tested(tree, mutant, commands, baseline)
            finally:
                tree.write(mutant.path, source)
            told(f"{number}/{len(mutants)} {result.status:8} {result.seconds:5.1f} s  {_line(mutant)}")
            yield result


def _baseline(tree, command):
    began = time.monotonic()
    code, output = tree.run(command, 600)
    if code != 0:
        raise BaselineFails(f"{' '.join(command)}: exit code {code}\n{output[-3000:]}")
    return SLOWER * (time.monotonic() - began) + AT_LEAST_S


def _tested(tree, mutant, commands, limits):
    began = time.monotonic()
    for command in commands:
        code, output = tree.run(command, limits[str(command)])
        if code != 0:
            status = "timeout" if code is None else "killed"
            return Result(mutant, status, _last(output), time.monotonic() - began)
    return Result(mutant, "survived", "", time.monotonic() - began)


def _last(output):
    """The line that says which test failed."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("FAILED", "ERROR", "E  ", "seed", "  "))]
    return (telling or lines or [""])[-1][:300]


def _line(mutant):
    return f"{mutant.path}:{mutant.line} {mutant.what}: {_short(mutant.before)} -> {_short(mutant.after)}"


def _short(text):
    return " ".join(text.split())[:60]


def load(path):
    """The results in a file, by the mutants' names."""
    if not path.exists():
        return {}
    return {row["name"]: row for row in json.loads(path.read_text())["results"]}


def save(path, seed, rows):
    """Write the results where the next run finds them."""
    survived = sum(row["status"] == "survived" for row in rows.values())
    found = {"seed": seed, "mutants": len(rows), "survived": survived, "results": list(rows.values())}
    beside = Path(f"{path}.new")
    beside.write_text(json.dumps(found, indent=1))
    beside.replace(path)


def row(result):
    """A result as JSON has it."""
    return {"name": result.mutant.name, "status": result.status, "seconds": round(result.seconds, 1), "by": result.by} | asdict(
        result.mutant
    )
