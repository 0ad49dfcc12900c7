"""Workers see to the sweeper: again and again, whatever goes wrong, and only those of the release that serves."""

import asyncio
from functools import partial

import pytest

from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker import attestation
from holdfast.actors.worker.attestation import keep_sweeper
from holdfast.actors.worker.worker import Worker
from holdfast.persistence import EVERYWHERE, MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore

ADDRESS = StoreAddress("redis://x", "holdfast", "store-1")


@pytest.fixture
async def keep(monkeypatch):
    """The keeping of one release's sweeper: what was made, and by which release's workers."""
    monkeypatch.setattr(attestation, "LOOK_EVERY_S", 0.001)
    made, tasks = [], []

    def begin(store, release, *, fails=0):
        def ensure(settings, *, avoid):
            made.append(settings.release)
            if len(made) <= fails:
                raise RuntimeError("Ray is away")

        async def connected():
            return store

        settings = ActorSettings(ADDRESS, release=release)
        tasks.append(asyncio.create_task(keep_sweeper(partial(ensure, settings), release, connected)))
        return made

    yield begin
    for task in tasks:
        assert not task.done()
        task.cancel()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_it_is_looked_after_again_and_again_also_after_a_failure(keep):
    store = FaultyStore(MemoryStore(), Faults(serving={1: FailBefore(), 3: FailBefore()}))
    await store.inner.serve("0.2.0", before=None)
    made = keep(store, "0.2.0", fails=2)
    await until(lambda: len(made) > 5)


async def test_workers_of_a_release_that_does_not_serve_leave_it_alone_until_it_does_again(keep):
    store = FaultyStore(MemoryStore(), Faults())
    await store.serve("0.2.0", before=None)
    made = keep(store, "0.1.0")
    await until(lambda: store.calls["serving"] > 5)
    assert made == []
    await store.serve("0.1.0", before="0.2.0")
    await until(lambda: made)


async def test_where_holdfast_was_stopped_none_is_made_until_it_is_started(keep):
    store = FaultyStore(MemoryStore(), Faults())
    await store.serve("0.2.0", before=None)
    await store.withhold(EVERYWHERE)
    made = keep(store, "0.2.0")
    await until(lambda: store.calls["withheld"] > 5)
    assert made == []
    await store.withhold(EVERYWHERE, lift=True)
    await until(lambda: made)


async def test_whoever_was_not_told_how_it_is_made_keeps_none():
    assert Worker(WorkerSettings(ActorSettings(ADDRESS), "worker-0", "shop:app", "k"))._keeping is None
