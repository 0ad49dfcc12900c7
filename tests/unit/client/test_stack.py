"""A client whose Ray died: the embedded one, started again by somebody else before the client looked, or one of its own."""

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.client import stack as module
from holdfast.client.stack import Stack
from holdfast.embedded import local_ray as embedded
from holdfast.embedded.home import Home
from holdfast.errors import ClusterUnavailable
from holdfast.registry import cluster
from holdfast.registry.cluster import Presence
from holdfast.settings import Settings
from holdfast.single_flight import SingleFlight


class Transport:
    """The way into one cluster."""

    def __init__(self, cluster_id):
        self.cluster = SimpleNamespace(cluster_id=cluster_id, address="127.0.0.1:1", joined_here=True)
        self.closed = False

    async def close(self):
        self.closed = True


@pytest.fixture
async def stack(tmp_path, monkeypatch):
    """A client's stack that has joined the cluster `one`, whose place in the home the living cluster `two` has taken."""
    monkeypatch.setattr(embedded, "_has_daemons", lambda _record: True)
    home = Home.open(tmp_path / "home")
    joined = Stack(Settings.of(home=home.path), None)
    joined._transport = Transport("one")
    lives(home, "two")
    yield joined
    await joined.close()
    home.runtime.rmdir()


def lives(home, cluster_id):
    """The home's record of a Ray that runs."""
    record = embedded._Record(
        address="127.0.0.1:1",
        temp_dir=str(home.runtime / "ray"),
        session=1,
        pids={},
        ray_version="1",
        python_version="1",
        cluster_id=cluster_id,
    )
    home.write_file("ray.json", record.model_dump_json())


async def test_a_client_that_missed_the_moment_between_two_rays_leaves_the_one_that_died(stack):
    transport = stack._transport
    assert await stack.lost(transport)
    await stack.close()
    assert transport.closed


async def test_a_command_that_waits_for_the_ray_that_died_is_not_held_by_the_one_that_lives(stack, monkeypatch):
    monkeypatch.setattr(module, "WATCH_S", 0.001)
    transport = stack._transport
    stack._watching = asyncio.create_task(stack._watch())
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            async with stack.asking(asyncio.get_running_loop().time() + 3600):
                await asyncio.Event().wait()
    assert stack._transport is None
    assert await stack.lost(transport)


async def test_a_ray_that_is_still_the_one_that_was_joined_is_kept(stack):
    transport = stack._transport
    lives(Home.open(stack.settings.home), "one")
    assert not await stack.lost(transport)
    assert stack._transport is transport


# --- a Ray of one's own


class Own:
    """What stands at the address of one's own Ray: how the cluster that was joined answers, and whether one can be joined."""

    def __init__(self, stack):
        self.stack = stack
        self.presence = Presence.HERE
        self.joinable = False
        self.joins = 0

    def look(self, _cluster):
        if isinstance(self.presence, Exception):
            raise self.presence
        return self.presence

    async def join(self):
        self.joins += 1
        if not self.joinable:
            raise ClusterUnavailable("nothing answers at 127.0.0.1:1")
        self.presence = Presence.HERE
        self.stack._transport, self.stack.absent = Transport("two"), None
        return self.stack._transport


@pytest.fixture
async def own(monkeypatch):
    """A stack that has joined a Ray of its own, and watches it."""
    for name, seconds in (("WATCH_S", 0.001), ("JOIN_AGAIN_S", 0.001), ("LONGEST_PAUSE_S", 0.001)):
        monkeypatch.setattr(module, name, seconds)
    joined = Stack(Settings.of(redis_url="unix:///nowhere", ray_address="127.0.0.1:1"), None)
    joined._transport = Transport("one")
    there = Own(joined)
    monkeypatch.setattr(cluster, "presence", there.look)
    joined._joining = SingleFlight(there.join)
    joined._watching = asyncio.create_task(joined._watch_own())
    yield there
    await joined.close()


async def soon(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_cluster_of_ones_own_that_is_gone_is_left_and_the_next_one_joined_once_it_is_there(own):
    first = own.stack._transport
    own.presence = Presence.GONE
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            async with own.stack.asking(asyncio.get_running_loop().time() + 3600):
                await asyncio.Event().wait()
    await soon(lambda: own.joins > 2)
    assert (first.closed, own.stack.ready) == (True, None)
    assert own.stack.absent == "the cluster at 127.0.0.1:1 is gone, and no other was joined yet"

    own.joinable = True
    await soon(lambda: own.stack.ready is not None)
    assert (own.stack.absent, own.stack.ready.cluster.cluster_id) == (None, "two")
    assert await own.stack.lost(first)


@pytest.mark.parametrize("answer", [Presence.SILENT, RuntimeError("nobody foresaw this")])
async def test_a_cluster_that_is_silent_for_a_moment_is_kept_and_said_to_be_silent_meanwhile(own, answer):
    first = own.stack._transport
    own.presence = answer
    await soon(lambda: own.stack.absent == "the cluster at 127.0.0.1:1 does not answer")
    own.presence = Presence.HERE
    assert not await own.stack.lost(first)
    await soon(lambda: own.stack.absent is None)
    assert (own.stack.ready, own.joins) == (first, 0)


async def test_a_cluster_that_stays_silent_is_left_before_ray_ends_the_process(own, monkeypatch):
    monkeypatch.setattr(module, "SILENT_S", 0.01)
    own.presence = Presence.SILENT
    await soon(lambda: own.joins > 0)
    assert own.stack.ready is None


async def test_a_command_that_finds_its_cluster_gone_leaves_it_at_once(own):
    own.stack._watching.cancel()
    first = own.stack._transport
    own.presence = Presence.GONE
    assert await own.stack.lost(first)
    assert own.stack.ready is None
