"""A client whose embedded Ray died and was started again by somebody else before the client looked."""

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.client import stack as module
from holdfast.client.stack import Stack
from holdfast.embedded import local_ray as embedded
from holdfast.embedded.home import Home
from holdfast.settings import Settings


class Transport:
    """The way into one cluster."""

    def __init__(self, cluster_id):
        self.cluster = SimpleNamespace(cluster_id=cluster_id, joined_here=True)
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
