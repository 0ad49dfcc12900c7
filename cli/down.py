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
from holdfast.persistence import RedisStore

from .display import clean
from .options import Where
from .stop_cluster import LONGEST_GRACE_S, stop_cluster


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
    """Stop the Ray and the Redis of the home, and nothing else. The conversations stay, and go on at the next start.

    With `--cluster`, stop Holdfast on a Ray cluster of your own: the sweeper, the actors and the workers of this store and
    namespace end, of every release, once their runs are done or the grace is over. Ray and all other work on it go on.
    Holdfast does not start there again before `holdfast up`; the conversations stay in Redis, and go on then.
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
    """Give the store's binding up if its cluster is a Ray of this home that is gone; another's may have the same address."""
    store = RedisStore(url, namespace=namespace)
    try:
        bound = await store.binding()
        if bound is not None and bound.cluster.partition("@")[0] in gone:
            await store.unbind(bound.cluster)
    except StoreError:
        pass  # the home's next Ray knows that this one is gone; any other cluster waits until the binding is old
    finally:
        await store.close()
