"""`holdfast down`: stop the embedded stack of the home, and nothing else."""

import asyncio
import sys
from collections.abc import Sequence

from holdfast.conversation import StoreError
from holdfast.persistence import RedisStore
from holdfast.persistence.embedded import running_redis, stop_redis
from holdfast.persistence.home import Home
from holdfast.registry.embedded import gone_rays, stop_ray

from .display import clean
from .options import Where


def run(where: Where) -> None:
    """Stop the Ray and the Redis of the home, and nothing else. The conversations stay, and go on at the next start."""
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


async def _release(url: str, namespace: str, gone: Sequence[str]) -> None:
    """Give the store's binding up, if it is to a Ray of this home that is gone; another's may have the same address."""
    store = RedisStore(url, namespace=namespace)
    try:
        bound = await store.binding()
        if bound is not None and bound.cluster.partition("@")[0] in gone:
            await store.unbind(bound.cluster)
    except StoreError:
        pass  # this home's next Ray knows that this one is gone; any other waits until the binding is old
    finally:
        await store.close()
