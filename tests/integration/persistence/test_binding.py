"""The binding to a cluster, as a clock that steps or somebody else has left it."""

import pytest

from holdfast.errors import CorruptStore
from holdfast.persistence import MemoryStore
from holdfast.persistence.keys import Keys

STALE_MS = 15_000


async def test_a_clock_that_was_set_back_does_not_keep_the_binding_of_a_silent_cluster(store, raw):
    key = Keys(store.namespace).meta("cluster")
    await store.bind("cluster-1", "a", STALE_MS)
    ahead = await store.now() + 3_600_000
    raw.redis.hset(key, "at", ahead)

    refused = await store.bind("cluster-2", "b", STALE_MS)

    assert (refused.cluster, refused.age_ms) == ("cluster-1", 0)
    at = int(raw.redis.hget(key, "at"))
    assert ahead - 3_600_000 <= at <= await store.now()  # from here on its silence counts
    raw.redis.hset(key, "at", at - STALE_MS)
    assert await store.bind("cluster-2", "b", STALE_MS) is None


async def test_the_store_in_memory_does_the_same():
    now = 10_000_000
    store = MemoryStore(clock=lambda: now)
    await store.bind("cluster-1", "a", STALE_MS)
    now -= 3_600_000

    assert (await store.bind("cluster-2", "b", STALE_MS)).age_ms == 0
    now += STALE_MS - 1
    assert await store.bind("cluster-2", "b", STALE_MS) is not None
    now += 1
    assert await store.bind("cluster-2", "b", STALE_MS) is None


@pytest.mark.parametrize("fields", [{"at": "soon"}, {"at": "-1"}, {"at": ""}])
async def test_a_binding_that_cannot_be_read_is_refused_and_left_as_it_is(store, raw, fields):
    key = Keys(store.namespace).meta("cluster")
    await store.bind("cluster-1", "a", STALE_MS)
    raw.redis.hset(key, mapping=fields)
    before = raw.redis.hgetall(key)

    for use in (store.bind("cluster-2", "b", STALE_MS), store.bind("cluster-1", "a", STALE_MS), store.binding()):
        with pytest.raises(CorruptStore, match="the binding"):
            await use

    assert raw.redis.hgetall(key) == before
