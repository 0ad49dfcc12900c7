"""`holdfast down --cluster`: the list of what would end, the confirmation, and the stop."""

import asyncio
import sys
from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError

from .display import clean
from .errors import ExitCode
from .operated import Operated, operated
from .options import Where
from .redis_url import masked

if TYPE_CHECKING:
    from holdfast.registry.inventory import Process

LONGEST_GRACE_S = 86_400.0


async def stop_cluster(where: Where, *, yes: str | None, grace_s: float) -> int:
    """Stop Holdfast in the namespace of the settings after a confirmation; the exit code."""
    settings = where.settings()
    if not grace_s <= LONGEST_GRACE_S:  # NaN is refused too
        raise ConfigurationError("grace", f"{grace_s:g} s is no grace", f"use at most {LONGEST_GRACE_S:g}")
    if settings.ray_address is None:
        problem = "no Ray address is configured, and the embedded stack is stopped as a whole"
        raise ConfigurationError("ray_address", problem, "run: holdfast down; or name your cluster (HOLDFAST_RAY_ADDRESS)")
    if yes is not None and yes != settings.namespace:
        problem = f"{yes!r:.80} is not the namespace that would be stopped, which is {settings.namespace!r}"
        raise ConfigurationError("yes", problem, f"say --yes {settings.namespace}, or correct --namespace")
    async with operated(where) as found:
        return await _stop(found, yes=yes, grace_s=grace_s)


async def _stop(found: Operated, *, yes: str | None, grace_s: float) -> int:
    from holdfast.persistence import EVERYWHERE  # noqa: PLC0415 - beside the imports that follow
    from holdfast.registry import inventory, stopping  # noqa: PLC0415 - Ray is joined by now

    namespace = found.store.namespace
    running = await asyncio.to_thread(inventory.processes, found.settings)
    work = await inventory.work_of(process for process in running if process.worker)
    if not running and EVERYWHERE in await found.store.withheld():
        await found.store.unbind(found.settings.cluster)
        sys.stdout.write(clean(f"Holdfast is stopped already in {namespace} on {found.joined.address}.") + "\n")
        return ExitCode.DONE
    runs, calls, unknown = stopping.going_on(work)
    workers = sum(process.worker for process in running)
    for line in (
        f"This stops Holdfast in namespace {namespace} of store {found.store.store_id} ({masked(found.store.url)})",
        f"on the Ray cluster at {found.joined.address}, for everybody who uses it there:",
        f"  {workers} workers and {len(running) - workers} other actors, of release {_releases(running)}, end;",
        f"  {runs} runs and {calls} model calls go on now"
        + (f" ({unknown} workers did not say), and" if unknown else ", and")
        + f" have {grace_s:g} s to finish; runs that are cut short then count as lost, and each tool's on_lost applies.",
        "The conversations stay in Redis. Ray, and whatever else runs on it, goes on. `holdfast up` starts Holdfast again.",
    ):
        sys.stderr.write(clean(line) + "\n")
    sys.stderr.flush()
    if yes is None:
        _confirm(namespace)
    ended = await stopping.stop(found.store, found.settings, grace_s=grace_s, told=_told)
    sys.stdout.write(clean(f"Stopped Holdfast in {namespace} on {found.joined.address}: {len(ended)} actors ended.") + "\n")
    return ExitCode.DONE


def _confirm(namespace: str) -> None:
    if not sys.stdin.isatty():
        raise ConfigurationError("yes", "there is no terminal to confirm it on", f"say --yes {namespace}")
    sys.stderr.write(f"Type the namespace ({namespace}) to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != namespace:
        raise ConfigurationError("namespace", "it was not confirmed, and nothing was changed", f"type {namespace}")


def _told(runs: int, calls: int, silent: int) -> None:
    unsaid = f"; {silent} workers do not say what they are at" if silent else ""
    sys.stderr.write(f"{runs} runs and {calls} model calls go on{unsaid}\n")
    sys.stderr.flush()


def _releases(running: "list[Process]") -> str:
    return ", ".join(sorted({process.release for process in running})) or "none"
