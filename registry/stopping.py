"""Stopping Holdfast on a cluster that is somebody's own: all of one store's, of every release, and nothing else."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

import ray
from ray.exceptions import RayError

from holdfast.actors import ActorSettings, find
from holdfast.conversation import ClusterUnavailable
from holdfast.persistence import EVERYWHERE, Store

from .inventory import Process, Work, processes, work_of

logger = logging.getLogger("holdfast.registry")

LOOK_EVERY_S = 1.0
ENDED_S = 60.0
"""How long what was ended may take to be gone."""
SETTLED = 2
"""How often, one look after the other, nothing must be there: somebody may just be making a sweeper."""


async def stop(
    store: Store, settings: ActorSettings, *, grace_s: float, told: Callable[[int, int], None] = lambda _runs, _calls: None
) -> list[Process]:
    """Let workers finish for at most `grace_s` seconds, then end the sweeper, the actors and the workers; what was ended.

    From the first moment on nothing new is made, also by whoever is connected, until `holdfast up`. It may be interrupted and
    repeated. `told` hears now and then how many runs and model calls go on.

    Raises:
        ClusterUnavailable: Some of it went on being there.
    """
    await store.withhold(EVERYWHERE)
    found = await asyncio.to_thread(processes, settings)
    for process in found:
        if process.worker:
            await _retire(process)
    give_up = _now() + grace_s
    while True:
        runs, calls = going_on(await work_of(process for process in found if process.worker))
        if not runs + calls or _now() >= give_up:
            break
        told(runs, calls)
        await asyncio.sleep(min(LOOK_EVERY_S, max(give_up - _now(), 0)))
    ended = await _end(settings)
    for actor in await store.living():
        await store.delist(actor)
        await store.withdraw(actor)
    await store.unbind(settings.cluster)
    return ended


def going_on(work: Mapping[str, Work]) -> tuple[int, int]:
    """How many runs and model calls go on in workers."""
    return sum(one.runs for one in work.values()), sum(one.model_calls for one in work.values())


async def _retire(worker: Process) -> None:
    with contextlib.suppress(RayError, AttributeError, ValueError, TimeoutError):  # it has ended, or hangs
        handle = await asyncio.to_thread(find, worker.name)
        if handle is not None:
            async with asyncio.timeout(LOOK_EVERY_S):
                await handle.retire.remote()


async def _end(settings: ActorSettings) -> list[Process]:
    """End all of it, and again what was made meanwhile; what there was."""
    ended: dict[str, Process] = {}
    give_up = _now() + ENDED_S
    empty = 0
    while empty < SETTLED:
        found = await asyncio.to_thread(processes, settings)
        for process in sorted(found, key=lambda process: (not process.sweeper, process.worker)):
            ended[process.name] = process
            await asyncio.to_thread(_kill, process.name)
        empty = 0 if found else empty + 1
        if found and _now() >= give_up:
            names = ", ".join(process.name for process in found[:3])
            message = f"{len(found)} actors go on being there ({names}, ...): run the same command again"
            raise ClusterUnavailable(message)
        if empty < SETTLED:
            await asyncio.sleep(LOOK_EVERY_S)
    return list(ended.values())


def _kill(name: str) -> None:
    with contextlib.suppress(RayError, ValueError):  # it has ended meanwhile
        handle = find(name)
        if handle is not None:
            ray.kill(handle)


def _now() -> float:
    return asyncio.get_running_loop().time()
