"""Binding a store to a cluster, without Ray: a fresh binding refuses, whatever an address might answer."""

import asyncio
import sys

import pytest

from holdfast.client.transport import LOOK_AHEAD_S, LOOK_EVERY_S, Bond
from holdfast.errors import ClusterStopped, WrongCluster
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.registry import cluster as clusters
from holdfast.registry.cluster import BINDING_STALE_MS, Cluster, bind
from holdfast.testing import Delay, FailBefore, Faults, FaultyStore

NOWHERE = "192.0.2.1:6379"  # of TEST-NET-1, which leads nowhere
MINE = Cluster("f" * 56, "127.0.0.1:6379", joined_here=True)
OTHERS = [NOWHERE, MINE.address, "no-such-host.invalid:6379", "127.0.0.1:1"]


class Clock:
    def __init__(self):
        self.ms = 1_000_000_000

    def __call__(self):
        return self.ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock, monkeypatch):
    """A store on whose clock a second passes between two looks at the binding."""

    async def pass_(seconds):
        clock.ms += round(seconds * 1000)
        await asyncio.tasks.sleep(0)

    monkeypatch.setattr(clusters.asyncio, "sleep", pass_)
    return MemoryStore(clock=clock)


class Renewing(MemoryStore):
    """A store whose other cluster's sweeper renews its binding before every look at it."""

    address = NOWHERE

    async def bind(self, cluster, address, stale_ms, *, gone=()):
        if cluster == MINE.cluster_id:
            await super().bind("other", self.address, stale_ms)
        return await super().bind(cluster, address, stale_ms, gone=gone)


@pytest.mark.parametrize("address", OTHERS)
async def test_a_binding_that_is_renewed_is_refused_whatever_its_address_leads_to(store, clock, address):
    renewing = Renewing(clock=clock)
    renewing.address = address
    said = []
    async with asyncio.timeout(10):
        with pytest.raises(WrongCluster) as refused:
            await bind(renewing, MINE, say=said.append)
    assert (await renewing.binding()).cluster == "other"
    assert address in refused.value.bound
    assert said == []  # nothing is waited for
    if address == MINE.address:  # which tells nothing: the ids do
        assert "other" in refused.value.bound
        assert MINE.cluster_id[:12] in refused.value.found


@pytest.mark.parametrize("address", OTHERS)
async def test_only_silence_frees_a_binding_and_who_waits_for_it_is_told(store, clock, address):
    await store.bind("other", address, BINDING_STALE_MS)
    began, said = clock.ms, []
    async with asyncio.timeout(10):
        await bind(store, MINE, say=said.append)
    assert clock.ms - began >= BINDING_STALE_MS
    assert (await store.binding()).cluster == MINE.cluster_id
    (line,) = said
    assert line.endswith(f"bound to the Ray cluster at {address}, silent now: waiting up to 14 s")


async def test_a_cluster_that_is_proven_gone_gives_way_at_once_and_no_other_does(store, clock):
    await store.bind("other", MINE.address, BINDING_STALE_MS)
    began = clock.ms
    await bind(store, MINE, gone=["another", "other"])
    assert clock.ms == began
    await store.bind("third", MINE.address, BINDING_STALE_MS, gone=[MINE.cluster_id])
    await bind(store, MINE, gone=["another", "other"])
    assert clock.ms - began >= BINDING_STALE_MS


async def test_of_two_that_bind_at_once_one_is_refused_as_soon_as_the_other_renews(store, clock):
    second = Cluster("e" * 56, MINE.address, joined_here=True)
    await bind(store, MINE)

    async def sweeping():
        while True:
            await asyncio.tasks.sleep(0)
            await store.bind(MINE.cluster_id, MINE.address, BINDING_STALE_MS)

    sweeper = asyncio.create_task(sweeping())
    with pytest.raises(WrongCluster):
        await bind(store, second)
    sweeper.cancel()
    assert (await store.binding()).cluster == MINE.cluster_id


async def test_a_binding_is_renewed_whatever_happens_and_another_clusters_is_left_alone(clock, monkeypatch):
    monkeypatch.setattr(clusters, "RENEW_EVERY_S", 0.005)
    inner = MemoryStore(clock=clock)
    store = FaultyStore(inner, Faults(bind={1: FailBefore(), 2: FailBefore(RuntimeError("no cluster"))}))
    clusters_here = iter([RuntimeError("this process is in no cluster"), *[MINE] * 1000])

    def here():
        found = next(clusters_here)
        if isinstance(found, Exception):
            raise found
        return found

    await inner.bind(MINE.cluster_id, MINE.address, BINDING_STALE_MS)
    clock.ms += BINDING_STALE_MS - 1
    holding = asyncio.create_task(clusters.hold(store, here))
    async with asyncio.timeout(20):
        while (await inner.binding()).age_ms:
            await asyncio.sleep(0.01)
        await inner.bind("other", NOWHERE, BINDING_STALE_MS, gone=[MINE.cluster_id])
        tried = store.calls["bind"]
        while store.calls["bind"] < tried + 3:
            await asyncio.sleep(0.01)
    holding.cancel()
    assert (await inner.binding()).cluster == "other"


async def test_a_store_that_hangs_holds_nobody_beyond_his_time():
    seconds = 0.0
    store = FaultyStore(MemoryStore(), Faults(binding=Delay(until=asyncio.Event())))
    bond = Bond(store, MINE, clock=lambda: seconds)
    seconds += LOOK_EVERY_S
    async with asyncio.timeout(10):
        await bond.check(within_s=0.01)
        await bond.check(within_s=60)  # it is not looked at again at once
    assert store.calls["binding"] == 1


# -- a client that is connected ------------------------------------------------------------------------------------------


async def test_a_connected_client_notices_when_the_binding_is_another_clusters():
    seconds = 0.0
    store = MemoryStore()
    await store.bind(MINE.cluster_id, MINE.address, BINDING_STALE_MS)
    bond = Bond(store, MINE, clock=lambda: seconds)
    await bond.check(within_s=5)
    await store.bind("other", MINE.address, BINDING_STALE_MS, gone=[MINE.cluster_id])
    seconds += LOOK_EVERY_S
    for _ in range(2):  # and goes on to notice
        with pytest.raises(WrongCluster, match="connect there, or stop it first"):
            await bond.check(within_s=5)
    await store.unbind("other")
    await bond.check(within_s=5)  # nobody has it: the sweeper binds it again


async def test_a_connected_client_notices_that_holdfast_was_stopped_and_that_it_was_started():
    seconds = 0.0
    store = MemoryStore()
    bond = Bond(store, MINE, clock=lambda: seconds)
    await store.withhold("a-node")
    await store.withhold(EVERYWHERE)
    seconds += LOOK_EVERY_S
    for _ in range(2):
        with pytest.raises(ClusterStopped, match="holdfast up"):
            await bond.check(within_s=5)
    await store.withhold(EVERYWHERE, lift=True)
    await bond.check(within_s=5)


async def test_a_connected_client_asks_the_store_for_the_binding_only_now_and_then():
    seconds = 0.0
    store = FaultyStore(MemoryStore(), Faults(binding={2: FailBefore()}))
    bond = Bond(store, MINE, clock=lambda: seconds)
    for _ in range(100):
        await bond.check(within_s=5)
    assert store.calls["binding"] == 0
    seconds += LOOK_EVERY_S
    await bond.check(within_s=5)
    await bond.check(within_s=5)
    assert store.calls["binding"] == 1
    seconds += LOOK_EVERY_S
    await bond.check(within_s=5)  # the store is away: the command itself will say so
    assert store.calls["binding"] == 2


async def test_commands_that_follow_each_other_wait_for_no_look_at_the_binding():
    seconds, may_go_on = 0.0, asyncio.Event()
    store = FaultyStore(MemoryStore(), Faults(binding=Delay(until=may_go_on)))
    bond = Bond(store, MINE, clock=lambda: seconds)
    seconds += LOOK_AHEAD_S
    async with asyncio.timeout(10):
        for _ in range(10):
            await bond.check(within_s=5)
        while not store.calls["binding"]:
            await asyncio.sleep(0)
        may_go_on.set()
        await bond._looking.result()
    seconds += LOOK_EVERY_S - LOOK_AHEAD_S  # the look counts from its beginning
    await bond.check(within_s=5)
    await bond._looking.result()
    assert store.calls["binding"] == 2


async def test_a_look_ahead_that_finds_another_cluster_stops_the_commands_in_time():
    seconds = 0.0
    store = MemoryStore()
    bond = Bond(store, MINE, clock=lambda: seconds)
    await store.bind("other", MINE.address, BINDING_STALE_MS)
    seconds += LOOK_AHEAD_S
    await bond.check(within_s=5)
    with pytest.raises(WrongCluster):
        await bond._looking.result()
    seconds += LOOK_EVERY_S - LOOK_AHEAD_S
    with pytest.raises(WrongCluster):
        await bond.check(within_s=5)


async def test_callers_that_come_together_have_the_store_asked_once():
    seconds = 0.0
    store = FaultyStore(MemoryStore(), Faults(binding=Delay(seconds=0.01)))
    bond = Bond(store, MINE, clock=lambda: seconds)
    seconds += LOOK_EVERY_S
    await asyncio.gather(*(bond.check(within_s=5) for _ in range(100)))
    assert store.calls["binding"] == 1


def test_rays_workers_look_first_only_where_this_process_does(monkeypatch, tmp_path):
    ahead, behind = tmp_path / "script", tmp_path / "here"
    monkeypatch.setattr(sys, "path", [str(ahead), *sys.path, str(behind)])
    directories = clusters._Ahead()
    directories.extend([str(ahead), str(behind)])
    assert directories == [str(ahead)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    directories.extend([str(tmp_path)])
    assert directories == [str(ahead), str(tmp_path)]
