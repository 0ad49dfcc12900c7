"""The inventory of a store in the cluster: workers, conversation actors and sweepers, with nodes and releases."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray._private import state as cluster_state
from ray.exceptions import ActorDiedError, RayError

from holdfast.actors.actor_settings import ActorSettings
from holdfast.actors.ray_launcher import find, named

from .releases import release_of

ANSWER_S = 5.0
"""How long a worker may take to report its work; one that does not answer is listed all the same."""
SHORT = 8
"""How many characters of its code's digest a worker's short name has."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a store: its name in Ray, its node's id ('' until Ray has placed it) and its release."""

    name: str
    node: str
    release: str

    @property
    def worker(self) -> bool:
        """Whether the process is a worker, which runs an app's models and tools."""
        return ":worker:" in self.name

    @property
    def sweeper(self) -> bool:
        """Whether the process is a sweeper."""
        return self.name.endswith(":sweeper")

    @property
    def short(self) -> str:
        """A worker's short name, unique in its store: the start of its code's digest, and its slot."""
        code, _, slot = self.name.partition(":worker:")[2].partition(":")
        return f"{code[:SHORT]}:{slot}"

    @property
    def base(self) -> tuple[str, int]:
        """The name that a worker shares with its successors, and this worker's generation."""
        slots, _, last = self.name.rpartition(":")
        slot, _, generation = last.partition(".")
        return f"{slots}:{slot}", int(generation or 0)


@dataclass(frozen=True, slots=True)
class Work:
    """A worker's work; `known` is false if it did not answer (an older release does not); `gone` if it has ended.

    `breakers` are those of models that are not closed there, as `Breakers.shown` gives them.
    """

    app: str = ""
    runs: int = 0
    model_calls: int = 0
    leaving: bool = False
    known: bool = False
    gone: bool = False
    breakers: tuple[Mapping[str, Any], ...] = ()


def kill(name: str) -> None:
    """Kill a process, if it still runs."""
    with contextlib.suppress(RayError, ValueError):
        handle = find(name)
        if handle is not None:
            ray.kill(handle)


def processes(settings: ActorSettings) -> list[Process]:
    """All processes of a store in this cluster, of every release, by name."""
    names = named(settings.family)
    table = cluster_state.actors(actor_state_name="ALIVE")  # without a dashboard, only this names an actor's node
    nodes = {actor["Name"]: actor["Address"]["NodeID"] for actor in table.values()}
    return [Process(name, nodes.get(name, ""), release_of(settings, name)) for name in names]


async def work_of(workers: Iterable[Process]) -> dict[str, Work]:
    """The work of each worker, by name; all are asked at once, so a hanging one costs at most `ANSWER_S`."""
    found = list(workers)
    return dict(zip([worker.name for worker in found], await asyncio.gather(*map(_work, found)), strict=True))


async def _work(worker: Process) -> Work:
    try:
        handle = await asyncio.to_thread(find, worker.name)
        if handle is None:
            return Work(gone=True)
        async with asyncio.timeout(ANSWER_S):
            said = await handle.work.remote()
        shown = {"leaving": said["leaving"], "breakers": tuple(said.get("breakers", ()))}
        return Work(said["app"], said["runs"], said["model_calls"], **shown, known=True)
    except ActorDiedError:
        return Work(gone=True)
    except (RayError, TimeoutError, AttributeError, ValueError):  # the worker hangs, is out of reach, or is too old
        return Work()
