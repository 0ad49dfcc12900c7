"""Stopping Holdfast on a cluster that is somebody's own: all of one store's, of every release, and nothing else."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

import ray
from ray.exceptions import RayError

from holdfast.actors import ActorSettings, find
from holdfast.errors import ClusterError, ClusterUnavailable
from holdfast.persistence import EVERYWHERE, Directory

from .inventory import Process, Work, processes, work_of

logger = logging.getLogger("holdfast.registry")

LOOK_EVERY_S = 1.0
ENDED_S = 60.0
"""How long what was ended may take to be gone."""
SETTLED = 2
"""How often, one look after the other, nothing must be there: somebody may just be making a sweeper."""


class StartedAgain(ClusterError):
    """Somebody has started Holdfast again while it was being stopped: what is there is theirs, and was left alone."""

    template = (
        "`holdfast up` has started Holdfast again for the namespace {0!r} while it was being stopped: what had not ended goes "
        "on; if it is to be stopped all the same, run this command again"
    )

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.namespace = namespace


async def stop(
    store: Directory,
    settings: ActorSettings,
    *,
    grace_s: float,
    told: Callable[[int, int, int], None] = lambda _runs, _calls, _silent: None,
) -> list[Process]:
    """Let workers finish for at most `grace_s` seconds, then end the sweeper, the actors and the workers; what was ended.

    From the first moment on nothing new is made, also by whoever is connected, until `holdfast up`. It may be interrupted and
    repeated. `told` hears now and then how many runs and model calls go on, and how many workers do not say: these may be at
    work, and have the grace too.

    Raises:
        ClusterUnavailable: Some of it went on being there.
        StartedAgain: Somebody ran `holdfast up` meanwhile; from then on nothing was ended.
    """
    await store.withhold(EVERYWHERE)
    found = await asyncio.to_thread(processes, settings)
    for process in found:
        if process.worker:
            await _retire(process)
    await _finished(store, settings, [process for process in found if process.worker], grace_s, told)
    ended = await _end(store, settings)
    for actor in await store.live():
        await store.deregister(actor)
        await store.withdraw(actor)
    await store.unbind(settings.cluster)
    return ended


def going_on(work: Mapping[str, Work]) -> tuple[int, int, int]:
    """How many runs and model calls go on in workers, and how many workers do not say."""
    found = work.values()
    silent = sum(not one.known and not one.gone for one in found)
    return sum(one.runs for one in found), sum(one.model_calls for one in found), silent


async def _finished(
    store: Directory, settings: ActorSettings, workers: list[Process], grace_s: float, told: Callable[[int, int, int], None]
) -> None:
    """Wait until nothing goes on in workers, for as long as they have."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace_s):
            while any(count := going_on(await work_of(workers))):
                await _check_stopped(store, settings)
                told(*count)
                await asyncio.sleep(LOOK_EVERY_S)


async def _check_stopped(store: Directory, settings: ActorSettings) -> None:
    if EVERYWHERE not in await store.withheld():
        raise StartedAgain(settings.store.namespace)


async def _retire(worker: Process) -> None:
    with contextlib.suppress(RayError, AttributeError, ValueError, TimeoutError):  # it has ended, or hangs
        handle = await asyncio.to_thread(find, worker.name)
        if handle is not None:
            async with asyncio.timeout(LOOK_EVERY_S):
                await handle.retire.remote()


async def _end(store: Directory, settings: ActorSettings) -> list[Process]:
    """End all of it, and again what was made meanwhile; what there was. What is made once the mark is lifted is not ours."""
    ended: dict[str, Process] = {}
    give_up = _now() + ENDED_S
    empty = 0
    while empty < SETTLED:
        found = await asyncio.to_thread(processes, settings)
        for process in sorted(found, key=lambda process: (not process.sweeper, process.worker)):
            await _check_stopped(store, settings)
            ended[process.name] = process
            await asyncio.to_thread(_kill, process.name)
        empty = 0 if found else empty + 1
        if found and _now() >= give_up:
            names = ", ".join(process.name for process in found[:3])
            message = f"{len(found)} actors go on being there ({names}, ...): run the same command again"
            raise ClusterUnavailable(message)
        if empty < SETTLED:
            await asyncio.sleep(LOOK_EVERY_S)
    await _check_stopped(store, settings)
    return list(ended.values())


def _kill(name: str) -> None:
    with contextlib.suppress(RayError, ValueError):  # it has ended meanwhile
        handle = find(name)
        if handle is not None:
            ray.kill(handle)


def _now() -> float:
    return asyncio.get_running_loop().time()
