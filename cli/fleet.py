"""The actors behind a stack, asked whether they are ready. To be called once Ray was joined: asking imports it."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from holdfast.conversation import AppNotFound, ClusterUnavailable

if TYPE_CHECKING:
    from holdfast.actors import ActorSettings
    from holdfast.persistence import AppRecord, Store

_T = TypeVar("_T")


async def sweeper(settings: "ActorSettings", *, within_s: float) -> bool:
    """Whether there is a sweeper, and it ticks.

    Raises:
        ClusterUnavailable: It did not answer in time.
    """
    from holdfast.actors import find  # noqa: PLC0415 - see above

    handle = find(settings.sweeper_name)
    return handle is not None and await _within(within_s, handle.ping.remote(), "the sweeper")


def other_sweepers(settings: "ActorSettings") -> list[str]:
    """The names of the store's sweepers of other releases of Holdfast."""
    from holdfast.actors import named  # noqa: PLC0415 - as above

    return [name for name in named(settings.family) if name.endswith(":sweeper") and not name.startswith(settings.prefix)]


async def workers(store: "Store", settings: "ActorSettings", record: "AppRecord", *, within_s: float) -> list[int]:
    """The processes of an app's workers, once they have imported it.

    Raises:
        AppNotFound: They cannot import it, or open its resources.
        ClusterUnavailable: They did not answer in time.
    """
    from holdfast.actors import AppBroken, find, successor_name, worker_name  # noqa: PLC0415 - as above

    bases = [worker_name(settings, record.app, record.code, str(slot)) for slot in range(settings.fleet.workers)]
    names = [successor_name(base, await store.generation(base)) for base in bases]
    pids = []
    for handle in filter(None, map(find, names)):
        try:
            await _within(within_s, handle.prepare.remote(), "a worker")
        except AppBroken as error:
            fix = "correct it, or start from where it can be imported"
            raise AppNotFound("app", f"workers cannot run {record.app!r} ({error})", fix) from error
        pids.append(await _within(within_s, handle.pid.remote(), "a worker"))
    return pids


async def _within(seconds: float, answer: Awaitable[_T], who: str) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError as error:
        raise ClusterUnavailable(f"{who} did not answer within {seconds:g} s") from error
