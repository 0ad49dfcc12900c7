"""Stopping Holdfast on a cluster: what ends, in which order, and that nobody makes an actor then."""

import asyncio
import time

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.errors import ClusterStopped, ClusterUnavailable
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.registry import inventory, ray_actors, stopping
from holdfast.registry.inventory import Process, Work
from holdfast.registry.ray_actors import RayActors


async def test_no_actor_is_made_where_holdfast_was_stopped(monkeypatch):
    monkeypatch.setattr(ray_actors, "in_cluster", lambda: None)
    store = MemoryStore()
    await store.withhold(EVERYWHERE)
    actors = RayActors(ActorSettings(StoreAddress("redis://x", "shop", "store-1")), store)
    with pytest.raises(ClusterStopped, match="'shop'"):
        await actors.spawn(actors.new_name(), offer=True)


NAMES = [f"holdfast:shop:store-1:c:0.1.0:{kind}" for kind in ("actor:1", "sweeper", "worker:abc:0", "worker:abc:alone-1")]
SETTINGS = ActorSettings(StoreAddress("redis://x", "shop", "store-1"), cluster="c")


class Cluster:
    """Actors that are names; whoever is killed is gone, and one more comes late."""

    def __init__(self, late):
        self.there = list(NAMES)
        self.late = late
        self.noted = []
        self.runs = [2, 1, 0]
        self.silent = 0
        self.gone = False

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
        if self.silent:
            self.silent -= 1
            return {names[0]: Work(), names[1]: Work(gone=self.gone)}
        return {name: Work(runs=runs, known=True) for name in names[:1]}

    async def retire(self, worker):
        self.noted.append(f"retire {worker.name}")


@pytest.fixture
def given(monkeypatch):
    found = Cluster(late=[NAMES[1]])
    monkeypatch.setattr(stopping, "LOOK_EVERY_S", 0.001)
    for name in ("processes", "work_of"):
        monkeypatch.setattr(stopping, name, getattr(found, name))
    monkeypatch.setattr(stopping, "kill", found.kill)
    monkeypatch.setattr(stopping, "_retire", found.retire)
    return found


async def test_nothing_new_is_made_first_then_runs_finish_then_the_sweeper_ends_before_the_others_also_one_that_comes_late(
    given,
):
    store, told = MemoryStore(), []
    await store.bind("c", "a:1", 1000)
    await store.heartbeat(NAMES[0], limit=9)
    await store.offer(NAMES[0], 0)

    ended = await stopping.stop(store, SETTINGS, grace_s=60, told=lambda *counts: told.append(counts))

    assert told == [(2, 0, 0), (1, 0, 0)]
    assert given.noted == [f"retire {NAMES[2]}", f"retire {NAMES[3]}", NAMES[1], NAMES[0], NAMES[2], NAMES[3], NAMES[1]]
    assert sorted(process.name for process in ended) == sorted(NAMES)
    assert set(await store.withheld()) == {EVERYWHERE}
    assert (await store.binding(), await store.live(), await store.offers()) == (None, {}, 0)


async def test_runs_that_take_longer_than_the_grace_are_cut_short(given):
    given.runs = [1]
    await stopping.stop(MemoryStore(), SETTINGS, grace_s=0.01)
    assert given.there == []


async def test_a_worker_that_does_not_say_what_it_is_at_has_the_grace_too_and_one_that_has_ended_is_not_waited_for(given):
    given.runs, given.silent, given.gone, told = [0], 3, True, []
    await stopping.stop(MemoryStore(), SETTINGS, grace_s=60, told=lambda *counts: told.append(counts))
    assert told == [(0, 0, 1)] * 3


async def test_a_worker_that_never_says_it_is_ended_after_the_grace(given):
    given.silent = 10**9
    began = time.monotonic()
    await stopping.stop(MemoryStore(), SETTINGS, grace_s=0.1)
    assert time.monotonic() - began >= 0.1
    assert given.there == []


@pytest.mark.parametrize("died", [True, False])
async def test_a_worker_that_died_is_told_from_one_that_is_not_reached(monkeypatch, died):
    class Asked:
        @property
        def work(self):
            return self

        async def remote(self):
            raise ActorDiedError if died else ActorUnavailableError("it is not reached", None)

    monkeypatch.setattr(inventory, "find", lambda _: Asked())
    found = await inventory.work_of([Process(NAMES[2], "", "0.1.0")])
    assert stopping.going_on(found) == (0, 0, 0 if died else 1)
    monkeypatch.setattr(inventory, "find", lambda _: None)
    assert stopping.going_on(await inventory.work_of([Process(NAMES[2], "", "0.1.0")])) == (0, 0, 0)


async def started_again(store, given):
    """Somebody runs `holdfast up`."""
    await store.withhold(EVERYWHERE, lift=True)
    await store.bind("c", "a:1", 1000)
    given.there += ["new:sweeper", "new:worker:e:0"]


async def test_what_was_started_again_during_the_grace_is_left_alone(given):
    store = MemoryStore()
    given.runs = [1]
    stop = asyncio.create_task(stopping.stop(store, SETTINGS, grace_s=60))
    while not given.noted:
        await asyncio.sleep(0.001)
    await started_again(store, given)
    with pytest.raises(stopping.StartedAgain, match=r"`holdfast up` has started .*'shop'"):
        await stop
    assert given.there == [*NAMES, "new:sweeper", "new:worker:e:0"]


@pytest.mark.parametrize("killed", range(1, 6))
async def test_what_was_started_again_while_the_rest_ends_is_left_alone(given, monkeypatch, killed):
    store, count = MemoryStore(), 0

    def kill(name):
        nonlocal count
        count += 1
        given.kill(name)
        if count == killed:
            asyncio.run_coroutine_threadsafe(started_again(store, given), loop).result()

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(stopping, "kill", kill)
    with pytest.raises(stopping.StartedAgain):
        await stopping.stop(store, SETTINGS, grace_s=0)
    assert given.there[-2:] == ["new:sweeper", "new:worker:e:0"]
    assert count == killed
    assert await store.binding() is not None


async def test_what_cannot_be_ended_is_said_and_holdfast_stays_stopped(given, monkeypatch):
    monkeypatch.setattr(stopping, "kill", lambda _: None)
    monkeypatch.setattr(stopping, "ENDED_S", 0.01)
    store = MemoryStore()
    with pytest.raises(ClusterUnavailable, match="run this command again"):
        await stopping.stop(store, SETTINGS, grace_s=0)
    assert EVERYWHERE in await store.withheld()
