"""One connection hears for all who listen in a process: when it breaks, hangs, or nobody listens any more."""

import asyncio
import os
import signal

import pytest
from writer import Writer, begin, call, send, start

from holdfast.errors import StoreUnavailable, WrongStore
from holdfast.persistence import RedisStore, broadcasts, redis_conversations
from holdfast.persistence.keys import STORE_ID, Keys

WAIT_S = 30


@pytest.fixture(autouse=True)
def nobody_blocks(monkeypatch):
    """All readers share one connection, also the first few."""
    monkeypatch.setattr(redis_conversations, "MOST_BLOCKED", 0)


async def soon(fact):
    async with asyncio.timeout(WAIT_S):
        while not fact():
            await asyncio.sleep(0.01)


def listening(raw):
    """The connections that listen, as the server counts them."""
    return [one for one in raw.redis.client_list() if int(one["sub"]) > 0]


async def test_hundreds_who_wait_for_many_conversations_have_one_connection(own_store, own_raw):
    writers = [await Writer.of(own_store, f"c-{number}") for number in range(40)]
    for writer in writers:
        await writer.do(start())
    waiting = [
        asyncio.create_task(own_store.read(writer.conversation_id, after=writer.state.seq, block_ms=60_000))
        for writer in writers
        for _ in range(10)
    ]
    await soon(lambda: [int(one["sub"]) for one in listening(own_raw)] == [40])

    for writer in writers:
        await writer.do(send("and then?"))
    found = await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)

    assert [[seq for seq, _ in events] for events in found] == [[3]] * 400
    assert len(listening(own_raw)) == 1


async def test_news_that_come_while_the_connection_is_broken_are_read_all_the_same(own_store, own_raw):
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start())
    for _ in range(5):
        waiting = asyncio.create_task(own_store.read("c-1", after=writer.state.seq, block_ms=60_000))
        await soon(lambda: listening(own_raw))
        for one in listening(own_raw):
            own_raw.redis.client_kill_filter(_id=one["id"])

        await writer.do(send("and then?"))

        assert len(await asyncio.wait_for(waiting, WAIT_S)) == 1


async def test_live_events_go_on_after_the_connection_was_broken(own_store, own_raw):
    heard, live = [], own_store.listen("c-1")

    async def hear():
        async for payload in live:
            heard.append(payload)  # noqa: PERF401 - each as it comes

    hearing = asyncio.create_task(hear())
    await soon(lambda: listening(own_raw))
    await own_store.publish("c-1", b"one")
    await soon(lambda: heard == [b"one"])
    for one in listening(own_raw):
        own_raw.redis.client_kill_filter(_id=one["id"])
    await soon(lambda: not hearing.done() and listening(own_raw))
    await own_store.publish("c-1", b"two")
    await soon(lambda: heard == [b"one", b"two"])
    hearing.cancel()


async def test_a_connection_on_which_nothing_comes_any_more_is_given_up(own_store, own_raw, own_server, monkeypatch):
    monkeypatch.setattr(broadcasts, "PING_S", 0.05)
    monkeypatch.setattr(broadcasts, "SILENT_S", 0.8)
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start())
    waiting = asyncio.create_task(own_store.read("c-1", after=writer.state.seq, block_ms=60_000))
    await soon(lambda: listening(own_raw))
    before = {one["id"] for one in listening(own_raw)}
    os.kill(own_server._process.pid, signal.SIGSTOP)
    await asyncio.sleep(1.5)
    os.kill(own_server._process.pid, signal.SIGCONT)
    await soon(lambda: {one["id"] for one in listening(own_raw)} - before)
    await writer.do(send("and then?"))
    assert len(await asyncio.wait_for(waiting, WAIT_S)) == 1


async def test_where_nobody_listens_any_more_the_connection_is_closed(own_store, own_raw, monkeypatch):
    monkeypatch.setattr(broadcasts, "PING_S", 0.05)
    monkeypatch.setattr(broadcasts, "KEEP_S", 0.1)
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start())
    assert await own_store.read("c-1", after=writer.state.seq, block_ms=20) == []
    assert len(listening(own_raw)) == 1
    await soon(lambda: not listening(own_raw))
    waiting = asyncio.create_task(own_store.read("c-1", after=writer.state.seq, block_ms=60_000))
    await soon(lambda: listening(own_raw))
    await writer.do(send("and then?"))
    assert len(await asyncio.wait_for(waiting, WAIT_S)) == 1


async def test_a_server_that_is_gone_is_an_error_and_one_that_is_another_store_too(own_store, own_server, own_raw):
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start(), begin(), call("ask"))
    waiting = asyncio.create_task(own_store.read("c-1", after=writer.state.seq, block_ms=60_000))
    await soon(lambda: listening(own_raw))
    own_raw.redis.set(STORE_ID, "another")
    own_raw.redis.client_kill_filter(_type="normal", skipme=True)
    own_raw.redis.client_kill_filter(_type="pubsub")
    with pytest.raises(WrongStore):
        await asyncio.wait_for(waiting, WAIT_S)
    own_raw.redis.set(STORE_ID, own_store.store_id)
    waiting = asyncio.create_task(own_store.read("c-1", after=writer.state.seq, block_ms=60_000))
    await soon(lambda: listening(own_raw))
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(waiting, WAIT_S)


async def test_what_is_published_names_no_word_of_the_conversation(own_store, own_raw, namespace):
    told = own_raw.redis.pubsub(ignore_subscribe_messages=True)
    told.subscribe(Keys(namespace).live("c-1"))
    told.get_message(timeout=5)
    writer = await Writer.of(own_store, "c-1")
    await writer.do(start("Marie-Curie"))
    assert told.get_message(timeout=5)["data"] == b"#"
    told.close()


async def test_a_store_that_is_closed_listens_to_nothing(own_server, own_raw, namespace):
    store = RedisStore(own_server.url, namespace=namespace)
    await store.open()
    waiting = asyncio.create_task(store.read("c-1", after=0, block_ms=60_000))
    await soon(lambda: listening(own_raw))
    hearing = asyncio.create_task(anext(store.listen("c-2")))
    await soon(lambda: [int(one["sub"]) for one in listening(own_raw)] == [2])
    waiting.cancel()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(hearing, WAIT_S)
    await soon(lambda: not listening(own_raw))
    for again in (store.read("c-1", after=0, block_ms=60_000), anext(store.listen("c-1")), anext(store.outcomes())):
        with pytest.raises(StoreUnavailable):
            await again
    assert not listening(own_raw)


async def test_a_listener_that_has_too_much_to_hear_learns_that_it_missed_something():
    listener = broadcasts.Listener(None, "")
    listener.tell(b"#")
    for number in range(broadcasts.AHEAD):
        listener.tell(b"%d" % number)
    assert await listener.message() is None
    assert await listener.message() == b"1"
