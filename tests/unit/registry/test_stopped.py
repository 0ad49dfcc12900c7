"""Stopping Holdfast on a cluster: what ends, in which order, and that nobody makes an actor then."""

import pytest

from holdfast.actors import ActorSettings, StoreAddress
from holdfast.conversation import ClusterStopped, ClusterUnavailable
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.registry import ray_actors, stopping
from holdfast.registry.inventory import Process, Work
from holdfast.registry.ray_actors import RayActors


async def test_no_actor_is_made_where_holdfast_was_stopped(monkeypatch):
    monkeypatch.setattr(ray_actors, "in_cluster", lambda: None)
    store = MemoryStore()
    await store.withhold(EVERYWHERE)
    actors = RayActors(ActorSettings(StoreAddress("redis://x", "shop", "store-1")), store)
    with pytest.raises(ClusterStopped, match="'shop'"):
        await actors.hire(actors.new_name(), offer=True)


NAMES = [f"holdfast:shop:store-1:c:0.1.0:{kind}" for kind in ("actor:1", "sweeper", "worker:abc:0", "worker:abc:alone-1")]
SETTINGS = ActorSettings(StoreAddress("redis://x", "shop", "store-1"), cluster="c")


class Cluster:
    """Actors that are names; whoever is killed is gone, and one more comes late."""

    def __init__(self, late):
        self.there = list(NAMES)
        self.late = late
        self.noted = []
        self.runs = [2, 1, 0]

    def processes(self, _):
        found = [Process(name, "", "0.1.0") for name in self.there]
        if not found and self.late:
            self.there, self.late = self.late, []
        return found

    def kill(self, name):
        self.there.remove(name)
        self.noted.append(name)

    async def work_of(self, workers):
        names = [worker.name for worker in workers]
        assert names == NAMES[2:]
        runs = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        return {name: Work(runs=runs, known=True) for name in names[:1]}

    async def retire(self, worker):
        self.noted.append(f"retire {worker.name}")


@pytest.fixture
def given(monkeypatch):
    found = Cluster(late=[NAMES[1]])
    monkeypatch.setattr(stopping, "LOOK_EVERY_S", 0.001)
    for name in ("processes", "work_of"):
        monkeypatch.setattr(stopping, name, getattr(found, name))
    monkeypatch.setattr(stopping, "_kill", found.kill)
    monkeypatch.setattr(stopping, "_retire", found.retire)
    return found


async def test_nothing_new_is_made_first_then_runs_finish_then_the_sweeper_ends_before_the_others_also_one_that_comes_late(
    given,
):
    store, told = MemoryStore(), []
    await store.bind("c", "a:1", 1000)
    await store.enlist(NAMES[0], limit=9)
    await store.offer(NAMES[0], 0)

    ended = await stopping.stop(store, SETTINGS, grace_s=60, told=lambda *counts: told.append(counts))

    assert told == [(2, 0), (1, 0)]
    assert given.noted == [f"retire {NAMES[2]}", f"retire {NAMES[3]}", NAMES[1], NAMES[0], NAMES[2], NAMES[3], NAMES[1]]
    assert sorted(process.name for process in ended) == sorted(NAMES)
    assert set(await store.withheld()) == {EVERYWHERE}
    assert (await store.binding(), await store.living(), await store.offers()) == (None, [], 0)


async def test_runs_that_take_longer_than_the_grace_are_cut_short(given):
    given.runs = [1]
    await stopping.stop(MemoryStore(), SETTINGS, grace_s=0.01)
    assert given.there == []


async def test_what_cannot_be_ended_is_said_and_holdfast_stays_stopped(given, monkeypatch):
    monkeypatch.setattr(stopping, "_kill", lambda _: None)
    monkeypatch.setattr(stopping, "ENDED_S", 0.01)
    store = MemoryStore()
    with pytest.raises(ClusterUnavailable, match="run the same command again"):
        await stopping.stop(store, SETTINGS, grace_s=0)
    assert EVERYWHERE in await store.withheld()
