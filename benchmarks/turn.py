"""What remains of a turn: processor time against bare model calls, what each process does for it, and how many a second.

Two drivers go on side by side, one with plain litellm and one with Holdfast, and have their windows in turns: a fixed number of
conversations from rest to rest, so that what is counted belongs to them. Round trips, bytes, pickles and validations are
counted in a second stack, whose processes load `counted/sitecustomize.py`, and there one conversation goes on at a time. The
bytes are those of commands and answers as the clients see them; Redis' own INFO counts the same.
"""

import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import stack, usage
from benchmarks.flight_driver import say
from benchmarks.flight_process import Driven, Stub, driven, model
from benchmarks.result import Part
from benchmarks.turn_tables import CALLS, KINDS, part_of
from holdfast.persistence import redis_scripts

SETTLE_S = 0.5
COUNTED = Path(__file__).parent / "counted"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; of each window the kind, how many at once, and how many in all."""

    turns: tuple[tuple[str, int, int], ...] = (
        ("flight", 1, 60),
        ("flight", 8, 120),
        ("flight", 64, 256),
        ("look", 1, 20),
        ("look", 8, 40),
        ("ask", 1, 40),
    )
    windows: int = 5
    warm_s: float = 6.0
    starts: int = 256
    calls: int = 2000
    at_once: int = 1000
    delay_s: float = 5.0
    counted: int = 40
    rest_s: float = 10.0


QUICK = Size(
    turns=(("flight", 1, 40), ("flight", 8, 40), ("flight", 64, 128), ("look", 1, 8), ("look", 8, 16), ("ask", 1, 10)),
    windows=3,
    warm_s=1.0,
    starts=128,
    calls=500,
    at_once=100,
    delay_s=3.0,
    counted=20,
    rest_s=5.0,
)


class Side:
    """One system and the process that drives it; each window begins and ends at rest."""

    def __init__(self, driver: Driven, watch: usage.Watch) -> None:
        self.driver, self._watch = driver, watch
        self.about = driver.until("ready")

    def window(self, kind: str, level: int, count: int) -> dict[str, Any]:
        """So many conversations: how long they took, and milliseconds of processor time for each, by kind of process."""
        before = self._watch.moment()
        self.driver.go_on(kind=kind, level=level, count=count)
        done = self.driver.until("done")
        spent = usage.used(before.processes, self._watch.moment().processes)
        self.driver.go_on()
        self.driver.until("ready")
        if done["ends"] != {"answered": count}:
            message = f"{kind}, {level} at once: {done['ends']}"
            raise RuntimeError(message)
        spent["client"] = done["cpu_s"]  # as it knows best: elsewhere a hundredth of a second is the least
        cpu_ms = {name: seconds / count * 1000 for name, seconds in spent.items()}
        return {**done, "per_s": count / done["took_s"], "cpu_ms": cpu_ms, "count": count}

    def warm(self, kind: str, level: int, warm_s: float) -> None:
        """Windows that nobody looks at, until all the processes are there that the width needs."""
        until = time.monotonic() + warm_s + level * warm_s / 20
        while time.monotonic() < until:
            self.window(kind, level, max(2 * level, 4))


@contextlib.contextmanager
def side(system: str, stub: Stub, python: str = sys.executable, **settings: str) -> Iterator[Side]:
    """A system in a home of its own, until the end."""
    with (
        stack.home() as home,
        driven(system, "orders", home, stub.url, python=python, settings=settings) as driver,
        usage.Watch(str(home), driver.pid) as watch,
    ):
        yield Side(driver, watch)


def timed(stub: Stub, size: Size) -> dict[str, Any]:
    """Processor time and rates, each window beside one of the floor."""
    turns, starts = [], []
    with side("floor", stub) as bare, side("turns", stub) as ours:
        for kind, level, count in size.turns:
            say(f"{KINDS[kind]}, {level} at once")
            ours.warm(kind, level, size.warm_s)
            bare.warm("flight", level, size.warm_s / 6)
            calls = count * CALLS[kind]
            pairs = [(bare.window("flight", level, calls), ours.window(kind, level, count)) for _ in range(size.windows)]
            turns.append({"kind": kind, "level": level, "floor": [one for one, _ in pairs], "ours": [one for _, one in pairs]})
        stub.control(delay_s=size.delay_s)
        for _ in range(size.windows + 1):
            say("starts beside empty calls")
            starts.append((ours.window("empty", 64, size.calls), ours.window("start", 64, size.starts)))
            drain(stub)
        say(f"{size.at_once:,} at once")
        flight = ours.window("flight", size.at_once, size.at_once)
        about = ours.about
        stub.control(delay_s=0)
        for each in (ours, bare):
            each.driver.go_on()
    return {"turns": turns, "starts": starts[1:], "flight": flight, "versions": about["versions"]}


def drain(stub: Stub) -> None:
    """Wait until the model has answered all that is open, and half a second more."""
    quiet = 0
    while quiet < 5:
        time.sleep(0.1)
        quiet = quiet + 1 if not stub.control()["open"] else 0


def counted(stub: Stub, size: Size) -> dict[str, Any]:
    """What the processes do for a turn of each kind, one at a time, and what goes on in a second of rest."""
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="hf-bench-", dir="/tmp") as kept,
        side("turns", stub, TURN_COUNTS=kept, PYTHONPATH=f"{COUNTED}:{stack.ROOT}") as ours,
    ):
        for kind in KINDS:
            ours.warm(kind, 1, size.warm_s)
        for kind in ("rest", *KINDS):
            say(f"counting: {kind}")
            before, began = counts(Path(kept), ours.driver.pid), time.monotonic()
            if kind == "rest":
                time.sleep(size.rest_s)
            else:
                ours.window(kind, 1, size.counted)
            more = counts(Path(kept), ours.driver.pid) - before
            took = time.monotonic() - began
            if kind == "rest":
                found[kind] = {name: many / took for name, many in more.items()}
            else:
                each = {name: many - found["rest"].get(name, 0.0) * took for name, many in more.items()}
                found[kind] = {name: max(0.0, many) / size.counted for name, many in each.items()}
        ours.driver.go_on()
    return found


def counts(folder: Path, client: int) -> Counter[str]:
    """All counts so far, by kind of process."""
    time.sleep(SETTLE_S)
    files = (Path(redis_scripts.__file__).parent / "lua").glob("[!_]*.lua")
    scripts = {f"redis: script {redis_scripts._digest(file.stem)}": f"redis: script {file.stem}" for file in files}
    found: Counter[str] = Counter()
    for file in folder.glob("*.json"):
        said = json.loads(file.read_text())
        kind = "client" if file.stem == str(client) else usage.kind_of(said["command"].split())
        for name, many in said["counts"].items():
            found[f"{kind}; {scripts.get(name, name)}"] += many
    return found


def measure(*, quick: bool) -> Part:
    """All of it."""
    size = QUICK if quick else Size()
    with model() as stub:
        raw = {**timed(stub, size), "counted": counted(stub, size), "delay_s": size.delay_s}
    return part_of(raw)
