"""Conversations in flight: many that wait for a slow model at once, beside plain litellm; what a short one takes, and rest.

`python benchmarks/in_flight.py --count 200 --delay 5 [--json FILE] [--only PART ...]`

The model is a stub in a process of its own, reached by HTTP, which answers after the delay. Each system is driven by a process
of its own; Holdfast by its public client on the embedded stack, whose processes are told from others by the home's name. The
floor is the same model call made by plain litellm in one process. LangGraph runs in the environment of `peers/`.
"""

import argparse
import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import run, stack, usage
from benchmarks.flight_driver import START_TIMEOUT_S, say
from benchmarks.flight_process import Stub, driven, model
from benchmarks.flight_tables import part_of

PARTS = ("floor", "holdfast", "peer", "rate", "waiting", "idle", "widths", "killed")
LINGER_S = 30.0
"""How long an actor keeps a conversation that rests, where no setting says another time."""
AFTER_LINGER_S = 2.0
AT_ONCE_IN_LITELLM = 500
"""How many connections litellm makes to one host; beyond them its calls wait, unless it is told otherwise."""
MOST_IN_LITELLM = 2000
"""More calls at once are left to a litellm without that limit: with it, they would take many times the delay."""
UNBOUNDED = {"AIOHTTP_CONNECTOR_LIMIT": "100000", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "100000"}  # 0 would leave 100


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    count: int = 200
    delay_s: float = 5.0
    levels: tuple[int, ...] = (1, 8, 64, 200)
    widths: tuple[int, ...] = (25, 100, 400, 800)
    window_s: float = 15.0
    resting: int = 16
    quick: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the system under test that differ from its defaults."""
        return {"HOLDFAST_LINGER_S": "3"} if self.quick else {}

    @property
    def linger_s(self) -> float:
        """How long an actor keeps a conversation that rests."""
        return float({**os.environ, **self.settings}.get("HOLDFAST_LINGER_S") or LINGER_S)

    @property
    def options(self) -> list[str]:
        """For the driver."""
        return ["--window", f"{self.window_s}", *(["--quick"] if self.quick else [])]


@dataclass(frozen=True, slots=True)
class System:
    """Who is driven: the driver's name of it, with which interpreter, and settings of its own."""

    title: str
    name: str
    python: str = sys.executable
    settings: tuple[tuple[str, str], ...] = ()


FLOOR = System("plain litellm", "floor")
UNBOUNDED_FLOOR = System("plain litellm, its connections unbounded", "floor", settings=tuple(UNBOUNDED.items()))
HOLDFAST = System("Holdfast", "holdfast")


@contextlib.contextmanager
def peers() -> Iterator[list[System]]:
    """LangGraph with each of its savers, where its environment is there or can be made, until the end."""
    from peers import postgres
    from peers.environment import python

    try:
        interpreter = python()
    except (OSError, subprocess.CalledProcessError) as error:
        stack.console.print(f"[bold red]Left out, LangGraph: its environment cannot be made ({error})[/]")
        yield []
        return
    there = [System("LangGraph, SQLite", "langgraph", interpreter)]
    why = postgres.missing()
    if why is not None:
        stack.console.print(f"[bold red]Left out, LangGraph on Postgres: {why}[/]")
        yield there
        return
    with postgres.server() as database:
        yield [*there, System("LangGraph, Postgres", "langgraph", interpreter, (("IN_FLIGHT_STORE", database("flight")),))]


KILL_EVERY_S = 1.0


@contextlib.contextmanager
def killing(watch: usage.Watch, killed: list[int]) -> Iterator[None]:
    """Kill one of the stack's actors, at random, every `KILL_EVERY_S`, until the end; `killed` are their ids."""
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(KILL_EVERY_S):
            alive = watch.pids("actor")
            if alive:
                killed.append(random.choice(alive))  # noqa: S311 - no secret
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def flight(system: System, stub: Stub, size: Size, *, lingers: bool = True, kills: bool = False) -> dict[str, Any]:
    """So many conversations at once, until all have answered; for ours, also what is left one linger later."""
    killed: list[int] = []
    say(f"{system.title}: {size.count} at once, {size.delay_s:g} s each")
    stub.control(delay_s=0, forget=True)
    with (
        stack.home() as home,
        driven(
            system.name,
            "flight",
            home,
            stub.url,
            *("--count", str(size.count), *size.options),
            python=system.python,
            settings={**size.settings, **dict(system.settings)},
        ) as driver,
        usage.Watch(str(home), driver.pid) as watch,
    ):
        begin = driver.until("begin")
        stub.control(delay_s=size.delay_s, forget=True)
        none, before = watch.weighed(), watch.moment()
        watch.forget()
        with killing(watch, killed) if kills else contextlib.nullcontext():
            driver.go_on()
            end = driver.until("end")
        after = watch.moment()
        asked, peak, most = stub.control(), watch.peak, dict(watch.most)
        left: Counter[str] = Counter()
        if system is HOLDFAST and lingers:
            say(f"{system.title}: one linger of {size.linger_s:g} s")
            time.sleep(size.linger_s + AFTER_LINGER_S)
            left = watch.processes()
        driver.go_on()
        return {
            "system": system.title,
            "count": size.count,
            "delay_s": size.delay_s,
            **end,
            "cpu_s": usage.used(before.processes, after.processes),
            "cpu_elsewhere_s": usage.elsewhere(before, after),
            "peak": {"ours": peak.ours, "rays": peak.rays, "by_kind": peak.by_kind, "resident": peak.resident},
            "none": none.by_kind,
            "processes": {"at_peak": peak.processes, "most": most, "after_linger": dict(left)},
            "requests": requests_each(asked["requests"], size.count),
            "killed": len(killed),
            "most_open": asked["most_open"],
            "settings": begin["settings"],
            "versions": begin["versions"],
        }


def requests_each(requests: dict[str, int], count: int) -> dict[str, int]:
    """How many requests the conversations have made, the fewest and the most; those that made none count, too."""
    many = [requests.get(f"flight-{number}", 0) for number in range(count)]
    return {"fewest": min(many), "most": max(many), "all": sum(requests.values())}


def rate(system: System, stub: Stub, size: Size) -> dict[str, Any]:
    """One-call conversations a second, and what one takes, at each width."""
    stub.control(delay_s=0, forget=True)
    levels: list[dict[str, Any]] = []
    with (
        stack.home() as home,
        driven(
            system.name,
            "rate",
            home,
            stub.url,
            *("--levels", *map(str, size.levels), *size.options),
            python=system.python,
            settings={**size.settings, **dict(system.settings)},
        ) as driver,
        usage.Watch(str(home), driver.pid) as watch,
    ):
        for level in size.levels:
            begin = driver.until("begin")
            before = watch.moment()
            driver.go_on()
            end = driver.until("end")
            after, done = watch.moment(), end["conversations"]
            spent = usage.used(before.processes, after.processes)
            levels.append(
                {
                    **end,
                    "per_s": done / end["took_s"],
                    "cpu_ms": {kind: seconds / max(done, 1) * 1000 for kind, seconds in spent.items()},
                    "cpu_elsewhere_s": usage.elsewhere(before, after),
                    "processes": dict(watch.processes()),
                }
            )
            say(f"{system.title}: {done / end['took_s']:.1f} a second, {level} at once")
            driver.go_on()
    return {"system": system.title, "levels": levels, "settings": begin["settings"], "versions": begin["versions"]}


def waiting(stub: Stub, size: Size) -> dict[str, Any]:
    """The acknowledgement of new conversations while others wait for their model, and on an idle system."""
    stub.control(delay_s=0, forget=True)
    with (
        stack.home() as home,
        driven(
            "holdfast", "waiting", home, stub.url, "--count", str(size.count), *size.options, settings=size.settings
        ) as driver,
    ):
        idle = driver.until("idle")
        driver.go_on()
        held = driver.until("held")
        waits = stub.control()["open"]
        driver.go_on()
        busy = driver.until("busy")
        stub.control(release=True)
        driver.go_on()
        released = driver.until("released")
        driver.go_on()
    return {
        "count": size.count,
        "acknowledged": held["acknowledged"],
        "waits": waits,
        "idle_s": idle["acknowledged_s"],
        "idle_ends": idle["ends"],
        "busy_s": [*busy["acknowledged_s"], *[START_TIMEOUT_S] * busy["late"]],
        "busy_late": busy["late"],
        "busy_ends": busy["ends"],
        "released_ends": released["ends"],
    }


def idle(stub: Stub, size: Size) -> dict[str, Any]:
    """What actors take whose conversations rest, beside as many that do nothing."""
    stub.control(delay_s=0, forget=True)
    count = ("--count", str(size.resting), *size.options)
    with (
        stack.home() as home,
        driven("holdfast", "idle", home, stub.url, *count, settings={}) as driver,
        usage.Watch(str(home), driver.pid) as watch,
    ):
        held = driver.until("held")
        stub.control(release=True)
        driver.go_on()
        driver.until("begin")
        ours = _window(driver, watch)
    actors = max(1, usage.actors(ours["processes"]))
    say(f"empty Ray actors: {actors}")
    with (
        stack.home() as home,
        driven("empty", "empty", home, stub.url, "--count", str(actors), *size.options, settings={}) as driver,
        usage.Watch(str(home), driver.pid) as watch,
    ):
        driver.until("begin")
        empty = _window(driver, watch)
    return {"conversations": size.resting, "acknowledged": held["acknowledged"], "holdfast": ours, "empty": empty}


def _window(driver: Any, watch: usage.Watch) -> dict[str, Any]:
    """Milliseconds of processor time a second, by kind, between two marks, and the processes that are there throughout."""
    before, alive = watch.moment(), watch.processes()
    driver.go_on()
    end = driver.until("end")
    after, still = watch.moment(), watch.processes()
    spent = usage.used(before.processes, after.processes)
    driver.go_on()
    return {
        "took_s": end["took_s"],
        "ms_per_s": {kind: seconds / end["took_s"] * 1000 for kind, seconds in spent.items()},
        "elsewhere_ms_per_s": usage.elsewhere(before, after) / end["took_s"] * 1000,
        "processes": dict(alive),
        "processes_after": dict(still),
    }


def found(size: Size, wanted: Collection[str]) -> dict[str, Any]:
    """Everything that is wanted; a flight is always beside its floor, and a rate, too."""
    raw: dict[str, Any] = {"flights": [], "rates": []}
    with model() as stub, peers() if "peer" in wanted else contextlib.nullcontext([]) as others:
        if {"floor", "holdfast", "peer"} & set(wanted):
            flown = [FLOOR] if size.count <= MOST_IN_LITELLM else []
            flown += [UNBOUNDED_FLOOR] if size.count > AT_ONCE_IN_LITELLM else []
            flown += others
            flown += [HOLDFAST] if "holdfast" in wanted else []
            raw["flights"] = [flight(system, stub, size) for system in flown]
        if "rate" in wanted:
            raw["rates"] = [rate(system, stub, size) for system in (FLOOR, *others, HOLDFAST)]
        if "waiting" in wanted:
            raw["waiting"] = waiting(stub, size)
        if "idle" in wanted:
            raw["idle"] = idle(stub, size)
        if "killed" in wanted:
            raw["killed"] = flight(HOLDFAST, stub, size, lingers=False, kills=True)
        if "widths" in wanted:
            wide = [(system, replace(size, count=count)) for system in (FLOOR, *others, HOLDFAST) for count in size.widths]
            raw["widths"] = [flight(system, stub, each, lingers=False) for system, each in wide]
    return raw


def measure(*, quick: bool) -> Any:
    """All of it but the peer, which is outside the gate."""
    small = Size(count=8, delay_s=1.0, levels=(1, 4), widths=(4, 8), window_s=2.0, resting=4, quick=True)
    size = small if quick else Size()
    return part_of(found(size, [part for part in PARTS if part != "peer"]))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python benchmarks/in_flight.py", description="Measure conversations in flight.")
    parser.add_argument("--count", type=int, default=Size().count, help="how many at once")
    parser.add_argument("--delay", type=float, default=Size().delay_s, help="seconds until the model answers")
    parser.add_argument("--window", type=float, default=Size().window_s, help="seconds over which a rate or rest is measured")
    parser.add_argument("--levels", type=int, nargs="+", default=Size().levels, help="widths at which the rate is measured")
    parser.add_argument("--widths", type=int, nargs="+", default=Size().widths, help="how many at once, for widths")
    parser.add_argument("--resting", type=int, default=Size().resting, help="how many conversations rest, for idle")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part, and its floor; may be repeated")
    parser.add_argument("--json", type=Path, help="where the results go (out/in-flight.json)")
    options = parser.parse_args()
    levels, widths = tuple(options.levels), tuple(options.widths)
    size = Size(options.count, options.delay, levels, widths, options.window, options.resting)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # else what was started would go on
    load, began = os.getloadavg()[0], time.monotonic()
    part = part_of(found(size, options.only or PARTS))
    file = options.json or stack.OUT / "in-flight.json"
    took_s = math.ceil(time.monotonic() - began)
    run.write(file, {"in_flight": run.entry(part, took_s=took_s, load_before=load, quick=False, about={})})
    run.show(part)
    stack.console.print(f"written: {file}")


if __name__ == "__main__":
    main()
