"""The readiness of a stack's sweeper and workers. To be called after Ray was joined: these functions import it."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import AppNotFound, ClusterUnavailable

if TYPE_CHECKING:
    from holdfast.actors.actor_settings import ActorSettings
    from holdfast.persistence import Directory

_T = TypeVar("_T")

AGAIN_S = 0.2
"""Seconds before a worker that has ended is looked for again."""


async def sweeper(settings: "ActorSettings", *, within_s: float) -> bool:
    """Whether there is a sweeper, and it runs."""
    from holdfast.actors.ray_launcher import find  # noqa: PLC0415 - see above

    handle = find(settings.sweeper_name)
    return handle is not None and await _within(within_s, handle.ping.remote(), "the sweeper")


async def signs(settings: "ActorSettings", *, within_s: float) -> str | None:
    """The URL that the sweeper's links begin with; None if it makes none."""
    from holdfast.actors.ray_launcher import find  # noqa: PLC0415 - see above

    handle = find(settings.sweeper_name)
    return None if handle is None else await _within(within_s, handle.signs.remote(), "the sweeper")


def other_sweepers(settings: "ActorSettings") -> list[str]:
    """The names of the store's sweepers of other releases of Holdfast."""
    from holdfast.actors.ray_launcher import named  # noqa: PLC0415 - as above

    return [name for name in named(settings.family) if name.endswith(":sweeper") and not name.startswith(settings.prefix)]


async def workers(store: "Directory", settings: "ActorSettings", app: str, *, within_s: float) -> list[int]:
    """The process ids of a published app's workers, once they have imported it."""
    slots = map(str, range(settings.process_limits.workers))
    return [await _within(within_s, _prepared(store, settings, app, slot), "a worker") for slot in slots]


async def _prepared(store: "Directory", settings: "ActorSettings", app: str, slot: str) -> int:
    """The process id of a worker that has imported the app. A worker that ends meanwhile is replaced."""
    from holdfast.actors.published import Published  # noqa: PLC0415 - as above
    from holdfast.actors.ray_launcher import RayLauncher  # noqa: PLC0415 - as above
    from holdfast.actors.ray_workers import WorkerUnavailable, ensure_worker, successor_name  # noqa: PLC0415 - as above
    from holdfast.actors.vault import Vault  # noqa: PLC0415 - as above
    from holdfast.actors.worker.refusals import AppBroken  # noqa: PLC0415 - as above
    from holdfast.actors.workers import NoWorker  # noqa: PLC0415 - as above

    cluster = RayLauncher(Vault(settings.store))
    published = Published(store, settings.store, cluster.key)
    while True:
        try:
            record = await published.record(app)
            if record is None:
                raise AppNotFound("app", f"{app!r} is not known to the store any more", "run this command again")
            base, generation, worker = await ensure_worker(store, settings, cluster, record, slot)
            await worker.prepare()
            prepared = await cluster.find(successor_name(base, generation))
            if prepared is not None:
                return await prepared.pid()
        except AppBroken as error:
            fix = "correct it, or start from where it can be imported"
            raise AppNotFound("app", f"workers cannot run {app!r} ({error})", fix) from error
        except (NoWorker, WorkerUnavailable):  # another client has just published the app, or the worker was about to end
            await asyncio.sleep(AGAIN_S)


async def _within(seconds: float, answer: Awaitable[_T], who: str) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError as error:
        raise ClusterUnavailable(f"{who} did not answer within {seconds:g} s") from error
