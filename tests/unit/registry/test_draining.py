"""What the words of `holdfast drain` stand for, and what is done then."""

import pytest

from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.errors import ConfigurationError
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.registry import draining, inventory
from holdfast.registry.draining import Target, target
from holdfast.registry.inventory import Process

WORKER = Process("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:0.3", "aaaa1111", "0.1.0")
ALONE = Process("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:alone-1", "bbbb2222", "0.1.0")
OLD = Process("holdfast:n:s:cluster:0.0.9+local:worker:abcdefghijkl:1", "", "0.0.9+local")
ACTOR = Process("holdfast:n:s:cluster:0.1.0:actor:123456", "aaaa1111", "0.1.0")
FOUND = [WORKER, ALONE, OLD, ACTOR]
NODES = {"aaaa1111": "10.0.0.1", "bbbb2222": "10.0.0.2", "aaab3333": "10.0.0.1"}


def test_a_worker_is_called_by_its_codes_digest_and_its_slot():
    assert [process.short for process in FOUND[:3]] == ["abcdefgh:0.3", "abcdefgh:alone-1", "abcdefgh:1"]
    assert WORKER.base == ("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:0", 3)
    assert ALONE.base == ("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:alone-1", 0)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (WORKER.name, Target("worker", WORKER.name)),
        ("abcdefgh:alone-1", Target("worker", ALONE.name)),
        ("aaaa", Target("node", "aaaa1111")),
        ("BBBB2222", Target("node", "bbbb2222")),
        ("10.0.0.2", Target("node", "bbbb2222")),
        ("0.1.0", Target("release", "0.1.0")),
        ("0.0.9", Target("release", "0.0.9")),
        ("0.0.9+local", Target("release", "0.0.9+local")),
        ("gone1", Target("node", "gone1234")),
    ],
)
def test_a_word_stands_for_the_one_thing_that_is_called_so(wanted, expected):
    assert target(wanted, FOUND, NODES, {"gone1234": 1, EVERYWHERE: 1}) == expected


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("10.0.0.1", "may be any of: node aaaa1111, node aaab3333"),
        ("aaa", "no worker, node or release"),  # too short to be meant
        ("9.9", "no worker, node or release"),
        (EVERYWHERE, "no worker, node or release"),
    ],
)
def test_a_word_that_stands_for_nothing_or_for_several_is_refused(wanted, said):
    with pytest.raises(ConfigurationError, match=said):
        target(wanted, FOUND, NODES, {EVERYWHERE: 1})


def test_nothing_stands_for_nothing_also_where_a_node_is_gone():
    for withheld in ({}, {"gone1234": 1}):
        with pytest.raises(ConfigurationError, match="it is empty"):
            target("", FOUND, NODES, withheld)


def test_what_belongs_to_a_target():
    assert [process.name for process in FOUND if Target("node", "aaaa1111").has(process)] == [WORKER.name, ACTOR.name]
    assert [process.name for process in FOUND if Target("release", "0.0.9").has(process)] == [OLD.name]
    assert [process.name for process in FOUND if Target("worker", ALONE.name).has(process)] == [ALONE.name]


BUILD = "0.2.0+abcdef012345"
CIPHERED = Process(f"holdfast:n:s:cluster:{BUILD}.cipher.abcdefgh:worker:zyx:0", "", f"{BUILD}.cipher.abcdefgh")
BARE = Process(f"holdfast:n:s:cluster:{BUILD}:worker:zyx:0", "", BUILD)


@pytest.mark.parametrize(
    ("wanted", "has"),
    [("0.2.0", [CIPHERED, BARE]), (BUILD, [BARE]), (CIPHERED.release, [CIPHERED])],
)
def test_a_build_without_a_cipher_is_drained_apart_from_the_same_with_one(wanted, has):
    found = target(wanted, [CIPHERED, BARE], NODES, {})
    assert found == Target("release", wanted)
    assert [process for process in (CIPHERED, BARE) if found.has(process)] == has


SETTINGS = ActorSettings(StoreAddress("redis://x", "n", "s"), release="0.1.0", cluster="cluster")


@pytest.fixture
def cluster(monkeypatch):
    """A cluster of which only names are real: what was retired, killed and made there, in order."""
    noted = []

    class Handle:
        def __init__(self, name):
            self.name = name
            self.retire = self

        async def remote(self):
            noted.append(("retire", self.name))

    monkeypatch.setattr(draining, "processes", lambda _: list(FOUND))
    monkeypatch.setattr(draining, "living_nodes", lambda: dict(NODES))
    for module in (draining, inventory):
        monkeypatch.setattr(module, "find", Handle)
    monkeypatch.setattr(inventory.ray, "kill", lambda handle: noted.append(("kill", handle.name)))
    monkeypatch.setattr(draining, "ensure_sweeper", lambda _, *, avoid: noted.append(("sweeper", set(avoid))))

    async def install(store, settings, worker, handle):
        noted.append(("install", worker.name, await store.generation(worker.base[0])))

    monkeypatch.setattr(draining, "_install", install)
    return noted


async def test_a_workers_successor_stands_in_the_store_before_the_worker_is_told_and_is_made_once(cluster):
    store, wanted = MemoryStore(), Target("worker", WORKER.name)
    assert await draining.drain(store, SETTINGS, wanted)
    assert await store.generation(WORKER.base[0]) == 4
    assert not await draining.drain(store, SETTINGS, wanted)
    assert await store.generation(WORKER.base[0]) == 4
    assert cluster == [("retire", WORKER.name), ("install", WORKER.name, 4), ("retire", WORKER.name)]


async def test_a_worker_that_has_died_meanwhile_is_drained_all_the_same(cluster, monkeypatch):
    monkeypatch.setattr(draining, "find", lambda _: None)
    store = MemoryStore()
    assert await draining.drain(store, SETTINGS, Target("worker", WORKER.name))
    assert await store.generation(WORKER.base[0]) == 4  # whoever Ray starts again under its name learns that it has a successor
    assert cluster == []


async def test_of_a_node_the_workers_are_drained_and_the_mark_stays_until_it_is_taken_back_or_the_node_is_gone(cluster):
    store, wanted = MemoryStore(), Target("node", "aaaa1111")
    await store.withhold("a-node-that-is-gone")
    assert await draining.drain(store, SETTINGS, wanted)
    assert set(await store.withheld()) == {"aaaa1111"}
    assert cluster == [("retire", WORKER.name), ("install", WORKER.name, 4)]
    assert not await draining.drain(store, SETTINGS, wanted)
    assert await draining.undo(store, wanted)
    assert not await draining.undo(store, wanted)
    assert await store.withheld() == {}


async def test_the_sweeper_of_a_drained_node_is_made_elsewhere(cluster, monkeypatch):
    sweeper = Process(SETTINGS.sweeper_name, "bbbb2222", "0.1.0")
    monkeypatch.setattr(draining, "processes", lambda _: [sweeper])
    await draining.drain(MemoryStore(), SETTINGS, Target("node", "bbbb2222"))
    assert cluster == [("kill", sweeper.name), ("sweeper", {"bbbb2222"})]


async def test_the_last_node_is_not_drained(cluster):
    store = MemoryStore()
    for node in ("aaaa1111", "bbbb2222"):
        assert await draining.drain(store, SETTINGS, Target("node", node))
    before = await store.withheld()
    with pytest.raises(ConfigurationError, match="only node that is not drained"):
        await draining.drain(store, SETTINGS, Target("node", "aaab3333"))
    assert await store.withheld() == before
    assert cluster


async def test_a_release_that_serves_is_not_drained_and_of_another_one_only_the_runs_are_seen_through(cluster, monkeypatch):
    actor = Process("holdfast:n:s:cluster:0.0.9+local:actor:1", "", "0.0.9+local")
    sweeper = Process("holdfast:n:s:cluster:0.0.9+local:sweeper", "", "0.0.9+local")
    monkeypatch.setattr(draining, "processes", lambda _: [*FOUND, actor, sweeper])
    store = MemoryStore()
    await store.serve("0.1.0", before=None)
    with pytest.raises(ConfigurationError, match="nothing could take over"):
        await draining.drain(store, SETTINGS, Target("release", "0.1.0"))
    assert cluster == []
    assert await draining.drain(store, SETTINGS, Target("release", "0.0.9"))
    assert cluster == [("kill", sweeper.name), ("retire", OLD.name), ("kill", actor.name)]


async def test_only_a_node_is_taken_back():
    with pytest.raises(ConfigurationError, match="already has its successor"):
        await draining.undo(MemoryStore(), Target("worker", WORKER.name))
