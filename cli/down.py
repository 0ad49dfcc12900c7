"""`holdfast down`: stop the embedded stack of the home; or, when told to, Holdfast on a cluster of one's own."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import gone_rays, stop_ray
from holdfast.embedded.local_redis import running_redis, stop_redis
from holdfast.errors import ConfigurationError, StoreError
from holdfast.persistence import EVERYWHERE, opened

from .display import clean, many, tell
from .errors import ExitCode
from .operated import Operated, operated
from .options import Where
from .redis_url import masked

LONGEST_GRACE_S = 86_400.0


def run(
    where: Where,
    *,
    cluster: Annotated[bool, typer.Option("--cluster", help="Stop Holdfast on the configured Ray cluster instead.")] = False,
    yes: Annotated[
        str | None, typer.Option("--yes", metavar="NAMESPACE", help="With --cluster: stop this namespace, without asking.")
    ] = None,
    grace_s: Annotated[
        float,
        typer.Option(
            "--grace", metavar="SECONDS", help="With --cluster: how long runs may take to finish.", min=0, max=LONGEST_GRACE_S
        ),
    ] = 30.0,
) -> int:
    """Stop the Ray and the Redis of the home, and nothing else. The conversations stay, and continue at the next start.

    With `--cluster`, stop Holdfast on a Ray cluster of your own: the sweeper, the actors and the workers of this store and
    namespace end, of every release, once their runs are done or the grace is over. Ray and all other work on it keep running.
    Only `holdfast up` starts Holdfast there again; the conversations stay in Redis, and continue then.
    """
    if cluster:
        return asyncio.run(stop_cluster(where, yes=yes, grace_s=grace_s))
    if yes is not None:
        raise ConfigurationError("yes", "only --cluster asks for it", "leave it out, or add --cluster")
    settings = where.settings()
    home = Home.open(settings.home)
    url = settings.redis_url or running_redis(home)
    stopped = ["Ray"] if stop_ray(home) else []
    gone = gone_rays(home)
    if url is not None and gone:
        asyncio.run(_release(url, settings.namespace, gone))
    if stop_redis(home):
        stopped.append("Redis")
    said = f"Stopped the {' and the '.join(stopped)} of {home.path}." if stopped else f"Nothing runs for {home.path}."
    sys.stdout.write(clean(said) + "\n")
    return 0


async def _release(url: str, namespace: str, gone: Sequence[str]) -> None:
    """Release the store's binding, if its cluster is a Ray of this home that is gone: another's may have the same address."""
    store = opened(url, namespace=namespace)
    try:
        bound = await store.binding()
        if bound is not None and bound.cluster.partition("@")[0] in gone:
            await store.unbind(bound.cluster)
    except StoreError:
        pass  # the home's next Ray knows that this one is gone; other clusters wait until the binding is old
    finally:
        await store.close()


async def stop_cluster(where: Where, *, yes: str | None, grace_s: float) -> int:
    """Stop Holdfast in the namespace of the settings after a confirmation; gives the exit code."""
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
    releases = ", ".join(sorted({process.release for process in running})) or "none"
    for line in (
        f"This stops Holdfast in namespace {namespace} of store {found.store.store_id} ({masked(found.store.url)})",
        f"on the Ray cluster at {found.joined.address}, for everybody who uses it there:",
        f"  {many(workers, 'worker')} and {many(len(running) - workers, 'other actor')}, of release {releases}, end;",
        f"  {many(runs, 'run')} and {many(calls, 'model call')} are under way"
        + (f" ({many(unknown, 'worker')} did not say), and" if unknown else ", and")
        + f" have {grace_s:g} s to finish; runs that are cut short then count as lost, and each tool's on_lost applies.",
        "The conversations stay in Redis. Ray, and everything else on it, keeps running. `holdfast up` starts Holdfast again.",
    ):
        tell(f"{clean(line)}\n")
    if yes is None:
        _confirm(namespace)
    ended = many(len(await stopping.stop(found.store, found.settings, grace_s=grace_s, told=_told)), "actor")
    sys.stdout.write(clean(f"Stopped Holdfast in {namespace} on {found.joined.address}: {ended} ended.") + "\n")
    return ExitCode.DONE


def _confirm(namespace: str) -> None:
    if not sys.stdin.isatty():
        raise ConfigurationError("yes", "there is no terminal to confirm it on", f"say --yes {namespace}")
    tell(f"Type the namespace ({namespace}) to go on: ")
    if sys.stdin.readline().strip() != namespace:
        raise ConfigurationError("namespace", "it was not confirmed, and nothing was changed", f"type {namespace}")


def _told(runs: int, calls: int, silent: int) -> None:
    unsaid = f"; of {many(silent, 'worker')} it is not known" if silent else ""
    tell(f"{many(runs, 'run')} and {many(calls, 'model call')} are under way{unsaid}\n")
