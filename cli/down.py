"""`holdfast down`: stop the embedded stack of the home, and nothing else."""

import asyncio
import sys

from holdfast.conversation import StoreError
from holdfast.persistence import Binding, RedisStore
from holdfast.persistence.embedded import running_redis, stop_redis
from holdfast.persistence.home import Home
from holdfast.registry.embedded import RayAddress, running_ray, stop_ray

from .binding import standing_of
from .display import clean
from .options import Where


def run(where: Where) -> None:
    """Stop the Ray and the Redis of the home, and nothing else. The conversations stay, and go on at the next start."""
    settings = where.settings()
    home = Home.open(settings.home)
    url = settings.redis_url or running_redis(home)
    ray = running_ray(home)
    bound = asyncio.run(_bound(url, settings.namespace, ray)) if url is not None and ray is not None else None
    stopped = ["Ray"] if stop_ray(home) else []
    if url is not None and bound is not None:
        asyncio.run(_release(url, settings.namespace, bound))
    if stop_redis(home):
        stopped.append("Redis")
    said = f"Stopped the {' and the '.join(stopped)} of {home.path}." if stopped else f"Nothing runs for {home.path}."
    sys.stdout.write(clean(said) + "\n")


async def _bound(url: str, namespace: str, ray: RayAddress) -> Binding | None:
    """The store's binding, if it is to this home's Ray, told by its id: another machine's may have the same address."""
    try:
        binding = (await standing_of(url, namespace)).bound
    except StoreError:
        return None  # the next Ray of this home knows that this one is gone
    return binding if binding is not None and binding.cluster.partition("@")[0] == ray.cluster_id else None


async def _release(url: str, namespace: str, bound: Binding) -> None:
    store = RedisStore(url, namespace=namespace)
    try:
        await store.unbind(bound.cluster)
    except StoreError:
        pass  # as above
    finally:
        await store.close()
