"""What the processes of one stack use, by kind of process: processor time, memory, and how many there are.

A process belongs to the stack if its command line, its environment or its directory names the stack's home. Processes that end
are not forgotten: of them counts what was last seen, at most one look before their end.
"""

import contextlib
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias

LOOK_EVERY_S = 0.25
WEIGH_SHARE = 20
"""Weighing reads the page tables of every process. So after a weighing there is a pause, so many times as long."""
YOUNG_S = 5.0
TICKS_S = os.sysconf("SC_CLK_TCK")
RAYS = frozenset({"gcs", "raylet", "agent", "idle", "starting"})
"""The kinds of processes that are Ray's own: its daemons, and processes that it keeps ready for anybody."""
BESIDE = frozenset({"client", "worker", "sweeper", "redis", "other"})
"""The kinds of our processes that host no conversations."""
_KINDS = {"IDLE": "idle", "ConversationActor": "actor", "DashboardAgent": "agent", "RuntimeEnvAgent": "agent"}

Key: TypeAlias = tuple[int, int]
"""A process: its id, and when it started, since ids come back."""


@dataclass(frozen=True, slots=True)
class Computed:
    """How long a process has computed until now, in seconds."""

    kind: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Moment:
    """What the stack's processes have computed until now, those that have ended too, and the machine as a whole."""

    processes: dict[Key, Computed]
    machine_s: float


@dataclass(slots=True)
class Peak:
    """The moment at which the processes that are not Ray's own took most memory: bytes and processes, by kind."""

    ours: int = 0
    rays: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)


def kind_of(command: list[str]) -> str:
    """The kind of a process by its command line; of an actor of Ray's its class, if there is no shorter word."""
    title, program = " ".join(command), Path(command[0]).name if command else ""
    if title.startswith("ray::"):
        name = (re.match(r"\w+", title.removeprefix("ray::")) or [""])[0]
        return _KINDS.get(name, name.lower())
    if program in {"gcs_server", "raylet"}:
        return program.removesuffix("_server")
    if "redis" in program or "valkey" in program:
        return "redis"
    if "default_worker.py" in title:
        return "starting"
    return "agent" if "ray/_private" in title or "ray/dashboard" in title else "other"


def used(before: Mapping[Key, Computed], after: Mapping[Key, Computed]) -> dict[str, float]:
    """Seconds computed between, by the kind that each process has in the end; the most first."""
    kinds: dict[str, float] = {}
    for key, now in after.items():
        more = now.seconds - (before[key].seconds if key in before else 0.0)
        kinds[now.kind] = kinds.get(now.kind, 0.0) + more
    return dict(sorted(kinds.items(), key=lambda item: -item[1]))


def elsewhere(before: Moment, after: Moment) -> float:
    """Seconds computed between by everything else on the machine: the stub model, who looks on, and what ought not to run."""
    return max(0.0, after.machine_s - before.machine_s - sum(used(before.processes, after.processes).values()))


def split(by_kind: Mapping[str, float]) -> tuple[float, float]:
    """The sum over all kinds but Ray's own, and the sum over these."""
    rays = sum(value for kind, value in by_kind.items() if kind in RAYS)
    return sum(by_kind.values()) - rays, rays


def actors(processes: Mapping[str, int]) -> int:
    """How many processes host conversations, or could: all Ray actors of ours but workers and the sweeper."""
    return sum(count for kind, count in processes.items() if kind not in RAYS | BESIDE)


class Watch:
    """Looks at a stack's processes from a thread, as long as it is entered.

    Args:
        mark: What the command line, the environment or the directory of each of them contains.
        client: The process that drives the stack; its kind is `client`.
    """

    def __init__(self, mark: str, client: int) -> None:
        self._mark = mark.encode()
        self._client = client
        self._known: dict[Key, bool] = {}
        self._seen: dict[Key, Computed] = {}
        self._alive: dict[Key, str] = {}
        self._weigh_at = 0.0
        self._looking = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self.peak = Peak()
        self.most: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def moment(self) -> Moment:
        """What has been computed until now."""
        with self._looking:
            self._look()
            return Moment(dict(self._seen), machine_s())

    def processes(self) -> Counter[str]:
        """How many there are now, by kind."""
        with self._looking:
            self._look()
            return Counter(self._alive.values())

    def pids(self, kind: str) -> list[int]:
        """The ids of the processes of a kind that are there now."""
        with self._looking:
            self._look()
            return [pid for (pid, _), found in self._alive.items() if found == kind]

    def forget(self) -> None:
        """Begin anew with the peaks."""
        with self._looking:
            self.peak, self.most, self._weigh_at = Peak(), Counter(), 0.0

    def _go_on(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            with self._looking:
                self._look()
                if time.monotonic() >= self._weigh_at:
                    began = time.monotonic()
                    weighed = self.weighed()
                    self.peak = max(self.peak, weighed, key=lambda one: one.ours)
                    self._weigh_at = time.monotonic() + WEIGH_SHARE * (time.monotonic() - began)

    def _look(self) -> None:
        self._alive = {}
        for pid, folder in _processes():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended, or is not ours to look at
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                key = (pid, int(fields[19]))
                if fields[0] in "ZX" or not self._is_known(key, folder):
                    continue
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
                kind = "client" if pid == self._client else kind_of(command)
                self._alive[key] = kind
                self._seen[key] = Computed(kind, (int(fields[11]) + int(fields[12])) / TICKS_S)
        for kind, count in Counter(self._alive.values()).items():
            self.most[kind] = max(self.most[kind], count)

    def _is_known(self, key: Key, folder: Path) -> bool:
        """Whether a process belongs to the stack. A young one is looked at again: until its program runs, it names nothing."""
        pid, started = key
        if key not in self._known:
            found = pid == self._client or self._belongs(folder)
            if not found and time.clock_gettime(time.CLOCK_BOOTTIME) - started / TICKS_S < YOUNG_S:
                return False
            self._known[key] = found
        return self._known[key]

    def _belongs(self, folder: Path) -> bool:
        if self._mark in (folder / "cmdline").read_bytes() or self._mark in (folder / "environ").read_bytes():
            return True
        return self._mark in os.fsencode((folder / "cwd").readlink())

    def weighed(self) -> Peak:
        """What the processes take now."""
        with self._looking:
            self._look()
            by_kind, resident = Counter[str](), Counter[str]()
            for (pid, _), kind in self._alive.items():
                sizes = bytes_of(pid)
                by_kind[kind] += sizes["Pss"]
                resident[kind] += sizes["Rss"]
            ours, rays = split(by_kind)
            return Peak(int(ours), int(rays), dict(by_kind), dict(resident), dict(Counter(self._alive.values())))


def machine_s() -> float:
    """How long all processors of this machine have computed until now, in seconds."""
    user, nice, system, _idle, _waiting, *interrupts = Path("/proc/stat").read_text().partition("\n")[0].split()[1:8]
    return sum(map(int, (user, nice, system, *interrupts))) / TICKS_S


def bytes_of(pid: int) -> Counter[str]:
    """What a process has resident (`Rss`), and with its share of pages that others have, too (`Pss`); 0 if it has ended."""
    sizes = Counter[str]()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            sizes[line.partition(":")[0]] = int(line.split()[1]) * 1024
    return sizes


def _processes() -> Iterator[tuple[int, Path]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            yield int(folder.name), folder
