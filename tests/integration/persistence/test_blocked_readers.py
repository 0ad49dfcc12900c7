"""The first readers who wait for news of conversations block on the server; the rest share a connection."""

import asyncio

import pytest
from writer import Writer, send, start

from holdfast.errors import StoreUnavailable
from holdfast.persistence import RedisStore, redis_conversations

WAIT_S = 30


async def soon(fact):
    async with asyncio.timeout(WAIT_S):
        while not fact():
            await asyncio.sleep(0.01)


def blocked(raw):
    """The connections that block on the server, as it counts them."""
    return [one for one in raw.redis.client_list() if "b" in one["flags"]]


def waits(store, after=0, block_ms=60_000):
    return asyncio.create_task(store.read("c-1", after=after, block_ms=block_ms))


async def test_a_few_block_and_further_ones_listen_and_all_are_told(own_store, own_raw, monkeypatch):
    monkeypatch.setattr(redis_conversations, "MOST_BLOCKED", 2)
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start())
    waiting = [waits(own_store, writer.state.seq) for _ in range(5)]
    await soon(lambda: len(blocked(own_raw)) == 2)
    await soon(lambda: [int(one["sub"]) for one in own_raw.redis.client_list(_type="pubsub")] == [1])

    await writer.do(send("and then?"))

    found = await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
    assert [[seq for seq, _ in events] for events in found] == [[3]] * 5
    assert await own_store.read("c-1", after=3, block_ms=20) == []


async def test_all_events_of_one_write_come_together_and_those_before_at_once(own_store, own_raw):
    writer = await Writer.of(own_store, "c-1")
    waiting = waits(own_store)
    await soon(lambda: blocked(own_raw))
    await writer.do(start())
    assert [seq for seq, _ in await asyncio.wait_for(waiting, WAIT_S)] == [1, 2]
    assert [seq for seq, _ in await waits(own_store)] == [1, 2]
    assert [seq for seq, _ in await own_store.read("c-1", after=0, block_ms=60_000, limit=1)] == [1]


async def test_news_that_come_while_the_connection_is_broken_are_read_all_the_same(own_store, own_raw):
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start())
    for _ in range(5):
        waiting = waits(own_store, writer.state.seq)
        await soon(lambda: blocked(own_raw))
        for one in blocked(own_raw):
            own_raw.redis.client_kill_filter(_id=one["id"])

        await writer.do(send("and then?"))

        assert len(await asyncio.wait_for(waiting, WAIT_S)) == 1


async def test_who_leaves_makes_room(own_store, own_raw, monkeypatch):
    monkeypatch.setattr(redis_conversations, "MOST_BLOCKED", 1)
    for _ in range(3):
        waiting = waits(own_store)
        await soon(lambda: blocked(own_raw))
        waiting.cancel()
        await soon(lambda: not blocked(own_raw))


async def test_a_store_that_is_closed_or_gone_lets_nobody_block(own_server, own_store, own_raw, namespace):
    store = RedisStore(own_server.url, namespace=namespace)
    await store.open()
    waiting = waits(store)
    await soon(lambda: blocked(own_raw))
    await store.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(waiting, WAIT_S)
    waiting = waits(own_store)
    await soon(lambda: blocked(own_raw))
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(waiting, WAIT_S)
