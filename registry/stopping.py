"""Stopping Holdfast on a cluster that it did not start: all processes of one store, of every release, and no others."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from ray.exceptions import RayError

from holdfast.actors.actor_settings import ActorSettings
from holdfast.actors.ray_launcher import find
from holdfast.backoff import now_s
from holdfast.errors import ClusterError, ClusterUnavailable
from holdfast.persistence import EVERYWHERE, Directory

from .inventory import Process, Work, kill, processes, work_of

logger = logging.getLogger("holdfast.registry")

LOOK_EVERY_S = 1.0
ENDED_S = 60.0
"""How long killed processes may take to disappear."""
SETTLED = 2
"""How many looks in a row must find no process: a client may just be making a sweeper."""


class StartedAgain(ClusterError):
    """`holdfast up` started Holdfast again during a stop: processes that still run are left alone."""

    template = (
        "`holdfast up` has started Holdfast again for the namespace {0!r} while it was being stopped: processes that still "
        "run go on; to stop them all the same, run this command again"
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
    """Let workers finish for at most `grace_s` seconds, then end the sweeper, actors and workers; returns the ended processes.

    From the start until `holdfast up`, no process is made, not even by connected clients; after it, `StartedAgain` is raised
    and nothing more is ended. A stop may be interrupted and repeated. While work goes on, `told` is called every `LOOK_EVERY_S`
    with the numbers of runs, of model calls, and of workers that do not answer: these may be at work, and have the grace too.
    """
    await store.withhold(EVERYWHERE)
    found = await asyncio.to_thread(processes, settings)
    workers = [process for process in found if process.worker]
    for worker in workers:
        await _retire(worker)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace_s):
            while any(count := going_on(await work_of(workers))):
                await _check_stopped(store, settings)
                told(*count)
                await asyncio.sleep(LOOK_EVERY_S)
    ended = await _end(store, settings)
    for actor in await store.live():
        await store.deregister(actor)
        await store.offer(actor, None)
    await store.unbind(settings.cluster)
    return ended


def going_on(work: Mapping[str, Work]) -> tuple[int, int, int]:
    """The numbers of running runs and model calls in workers, and of workers that did not answer."""
    found = work.values()
    silent = sum(not one.known and not one.gone for one in found)
    return sum(one.runs for one in found), sum(one.model_calls for one in found), silent


async def _check_stopped(store: Directory, settings: ActorSettings) -> None:
    if EVERYWHERE not in await store.withheld():
        raise StartedAgain(settings.store.namespace)


async def _retire(worker: Process) -> None:
    with contextlib.suppress(RayError, AttributeError, ValueError, TimeoutError):  # the worker has ended, or hangs
        handle = await asyncio.to_thread(find, worker.name)
        if handle is not None:
            async with asyncio.timeout(LOOK_EVERY_S):
                await handle.retire.remote()


async def _end(store: Directory, settings: ActorSettings) -> list[Process]:
    """Kill and return all processes, new ones included, except those made after `holdfast up`."""
    ended: dict[str, Process] = {}
    give_up = now_s() + ENDED_S
    empty = 0
    while empty < SETTLED:
        found = await asyncio.to_thread(processes, settings)
        for process in sorted(found, key=lambda process: (not process.sweeper, process.worker)):
            await _check_stopped(store, settings)
            ended[process.name] = process
            await asyncio.to_thread(kill, process.name)
        empty = 0 if found else empty + 1
        if found and now_s() >= give_up:
            names = ", ".join(process.name for process in found[:3])
            raise ClusterUnavailable(f"{len(found)} actors still run ({names}, ...): run this command again")
        if empty < SETTLED:
            await asyncio.sleep(LOOK_EVERY_S)
    await _check_stopped(store, settings)
    return list(ended.values())
