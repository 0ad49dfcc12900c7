"""Draining a worker, a node or a release: its current work goes on, and no new work comes to it.

The store keeps what must outlast the draining process: the successors in office, and the nodes on which nothing new is made.
Workers and actors read that every few seconds; a direct call to them only makes it faster.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayError

from holdfast.actors.actor_settings import ActorSettings
from holdfast.actors.placement import living_nodes
from holdfast.actors.published import Published
from holdfast.actors.ray_launcher import RayLauncher, find
from holdfast.actors.ray_workers import WorkerUnavailable, ensure_worker, worker_name
from holdfast.actors.vault import Vault
from holdfast.actors.worker.refusals import AppBroken
from holdfast.actors.workers import NoWorker
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.persistence import EVERYWHERE, Directory

from .inventory import Process, kill, processes
from .sweeper import ensure_sweeper

logger = logging.getLogger("holdfast.registry")

ANSWER_S = 20.0
_LATER = (RayError, TimeoutError, HoldfastError, NoWorker, WorkerUnavailable, AppBroken)
"""Errors after which no successor is made ahead of time; the first actor that needs it makes it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A drain's target: its `kind` (`worker`, `node` or `release`) and its full name or id."""

    kind: str
    name: str

    def has(self, process: Process) -> bool:
        """Whether a process belongs to the target."""
        match self.kind:
            case "worker":
                return process.name == self.name
            case "node":
                return process.node == self.name
            case _:
                return _of_release(process, self.name)


def target(wanted: str, found: list[Process], nodes: Mapping[str, str], withheld: Mapping[str, int]) -> Target:
    """The target of that name: a worker's name or short name; a node's id, start of an id or address; or a release.

    `ConfigurationError` if the text names none of these, or more than one.
    """
    if not wanted:  # nodes that are gone have the address ''
        raise ConfigurationError("target", "it is empty", "name a worker, a node or a release; `holdfast drain` lists them")
    targets = [
        Target("worker", process.name) for process in found if process.worker and wanted in (process.name, process.short)
    ]
    ids = {*nodes, *withheld} - {EVERYWHERE}
    targets += [Target("node", node) for node in sorted(ids) if _names(wanted, node, nodes.get(node, ""))]
    releases = {process.release for process in found}
    if wanted in releases or any(_of_release(process, wanted) for process in found):
        targets.append(Target("release", wanted))
    if len(targets) == 1:
        return targets[0]
    if targets:
        names = ", ".join(f"{one.kind} {one.name}" for one in targets)
        raise ConfigurationError("target", f"{wanted!r:.80} may be any of: {names}", "name one of them in full")
    raise ConfigurationError(
        "target",
        f"no worker, node or release here is called {wanted!r:.80}",
        "`holdfast drain` lists them; one that has ended counts as drained",
    )


async def drain(store: Directory, settings: ActorSettings, wanted: Target) -> bool:
    """Drain a target: its current work is finished, and no new work comes to it; false if it was drained already.

    `ConfigurationError` if nothing could take over: the target is the last node, or the release that serves the store.
    """
    if wanted.kind == "node":
        return await _drain_node(store, settings, wanted)
    if wanted.kind == "release":
        return await _drain_release(store, settings, wanted)
    return any([await _drain_worker(store, settings, process) for process in await left(settings, wanted)])


async def undo(store: Directory, wanted: Target) -> bool:
    """Undo the drain of a node, so that actors are made there again; false if the node was not drained.

    `ConfigurationError` if the target is no node: a drained worker has its successor already.
    """
    if wanted.kind != "node":
        raise ConfigurationError(
            "target", f"a drained {wanted.kind} already has its successor", "only the drain of a node can be undone"
        )
    return await store.withhold(wanted.name, lift=True)


async def left(settings: ActorSettings, wanted: Target) -> list[Process]:
    """The target's processes that still run."""
    return [process for process in await asyncio.to_thread(processes, settings) if wanted.has(process)]


async def _drain_worker(store: Directory, settings: ActorSettings, worker: Process) -> bool:
    base, generation = worker.base
    first = await store.generation(base) <= generation
    if first:
        await store.succeed(base, generation + 1)
    handle = await asyncio.to_thread(find, worker.name)
    if handle is None:
        return first
    with contextlib.suppress(RayError, AttributeError):  # the worker has ended, or will read it in the store
        async with asyncio.timeout(ANSWER_S):
            await handle.retire.remote()
    if first and worker.release == settings.release and ":alone-" not in worker.name:
        with contextlib.suppress(*_LATER):
            await _install(store, settings, worker, handle)
    return first


async def _install(store: Directory, settings: ActorSettings, worker: Process, handle: Any) -> None:
    """Make a drained worker's successor and have it import the app, before an actor needs it."""
    cluster = RayLauncher(Vault(settings.store))
    async with asyncio.timeout(ANSWER_S):
        said = await handle.work.remote()
        record = await Published(store, settings.store, cluster.key).record(said["app"])
        slot = worker.base[0].rpartition(":")[2]
        if record is None or worker_name(settings, record.app, record.code, slot) != worker.base[0]:
            return  # the app has other code now, and that has workers already
        _, _, successor = await ensure_worker(store, settings, cluster, record, slot)
        await successor.prepare()


async def _drain_node(store: Directory, settings: ActorSettings, wanted: Target) -> bool:
    nodes, withheld = await asyncio.to_thread(living_nodes), await store.withheld()
    if not set(nodes) - {wanted.name, *withheld}:
        problem = "it is the only node that is not drained: nothing would run anywhere"
        raise ConfigurationError("target", problem, "add a node first, or stop all of it: holdfast down --cluster")
    for gone in set(withheld) - {EVERYWHERE, *nodes}:  # ids are random, and never come back
        await store.withhold(gone, lift=True)
    first = await store.withhold(wanted.name)
    for process in await left(settings, wanted):
        if process.worker:
            await _drain_worker(store, settings, process)
        elif process.sweeper and process.release == settings.release:
            await asyncio.to_thread(kill, settings.sweeper_name)
            await asyncio.to_thread(ensure_sweeper, settings, avoid=await store.withheld())
    return first


async def _drain_release(store: Directory, settings: ActorSettings, wanted: Target) -> bool:
    serving = await store.serving()
    found = await left(settings, wanted)
    if any(process.release == serving for process in found):
        problem = f"release {serving} serves the store: nothing could take over from it"
        raise ConfigurationError("target", problem, "start another release with its `holdfast up`, or: holdfast down --cluster")
    for process in sorted(found, key=lambda process: not process.sweeper):  # the sweeper first: it would refill the pool
        if process.worker:
            await _drain_worker(store, settings, process)
            continue
        await asyncio.to_thread(kill, process.name)
    return bool(found)


def _names(wanted: str, node: str, address: str) -> bool:
    return wanted == address or (len(wanted) >= 4 and node.startswith(wanted.lower()))  # noqa: PLR2004 - fewer are an accident


def _of_release(process: Process, release: str) -> bool:
    return process.release == release or process.release.startswith(f"{release}+")
