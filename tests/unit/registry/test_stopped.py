"""Where Holdfast was stopped, nobody makes an actor."""

import pytest

from holdfast.actors import ActorSettings, StoreAddress
from holdfast.conversation import ClusterStopped
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.registry import ray_actors
from holdfast.registry.ray_actors import RayActors


async def test_no_actor_is_made_where_holdfast_was_stopped(monkeypatch):
    monkeypatch.setattr(ray_actors, "in_cluster", lambda: None)
    store = MemoryStore()
    await store.withhold(EVERYWHERE)
    actors = RayActors(ActorSettings(StoreAddress("redis://x", "shop", "store-1")), store)
    with pytest.raises(ClusterStopped, match="'shop'"):
        await actors.hire(actors.new_name(), offer=True)
