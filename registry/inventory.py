"""What of a store's Holdfast runs in the cluster, and where: its workers, its conversation actors, its sweeper."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from ray._private import state as cluster_state
from ray.exceptions import ActorDiedError, RayError

from holdfast.actors import ActorSettings, find, named

from .upgrade import release_of

ANSWER_S = 5.0
"""How long a worker may take to say what it is at; one that says nothing is listed all the same."""
SHORT = 8
"""How much of a worker's digest stands in its short name."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a store: its actor's name, its node's id ('' until Ray has placed it), its release."""

    name: str
    node: str
    release: str

    @property
    def worker(self) -> bool:
        """Whether it runs an app's models and tools."""
        return ":worker:" in self.name

    @property
    def sweeper(self) -> bool:
        """Whether it is a sweeper."""
        return self.name.endswith(":sweeper")

    @property
    def short(self) -> str:
        """What tells a worker from the others of its store, in a few characters: its code's digest, its slot."""
        code, _, slot = self.name.partition(":worker:")[2].partition(":")
        return f"{code[:SHORT]}:{slot}"

    @property
    def base(self) -> tuple[str, int]:
        """The name that a worker and its successors have in common, and which of them this is."""
        slots, _, last = self.name.rpartition(":")
        slot, _, generation = last.partition(".")
        return f"{slots}:{slot}", int(generation or 0)


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker is at; `known` is false where it did not say, which an older release's cannot; `gone` if it has ended."""

    app: str = ""
    runs: int = 0
    model_calls: int = 0
    leaving: bool = False
    known: bool = False
    gone: bool = False


def processes(settings: ActorSettings) -> list[Process]:
    """All that runs of a store in this cluster, of whatever release, in the order of the names.

    Raises:
        ClusterUnavailable: This process is in no cluster (any more).
    """
    names = named(settings.family)
    table = cluster_state.actors(actor_state_name="ALIVE")  # Ray says where an actor runs nowhere else, without its dashboard
    nodes = {actor["Name"]: actor["Address"]["NodeID"] for actor in table.values()}
    return [Process(name, nodes.get(name, ""), release_of(settings, name)) for name in names]


async def work_of(workers: Iterable[Process]) -> dict[str, Work]:
    """By name: what workers are at, each asked by itself; one that hangs or has ended is not waited for."""
    found = list(workers)
    return dict(zip([worker.name for worker in found], await asyncio.gather(*map(_work, found)), strict=True))


async def _work(worker: Process) -> Work:
    try:
        handle = await asyncio.to_thread(find, worker.name)
        if handle is None:
            return Work(gone=True)
        async with asyncio.timeout(ANSWER_S):
            said = await handle.work.remote()
        return Work(said["app"], said["runs"], said["model_calls"], leaving=said["leaving"], known=True)
    except ActorDiedError:
        return Work(gone=True)
    except (RayError, TimeoutError, AttributeError, ValueError):  # it hangs, is not reached, or is too old to be asked
        return Work()
