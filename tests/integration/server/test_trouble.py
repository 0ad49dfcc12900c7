"""Redis behind the server dies and comes back: streams say so, requests say when to come back, and nothing is missing."""

import asyncio
import json

import httpx
import pytest
from lacking import lacking
from redis_server import RedisServer, binaries
from writer import Writer, begin, call, end, send, start

from holdfast.client import AsyncClient
from holdfast.persistence import RedisStore

from .conftest import served


@pytest.fixture
def redis():
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


def frames(lines, wanted):
    """The cursors of a stream up to the event of that kind, and its data."""
    cursors, kind = [], None
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            cursors.append(int(value))
        elif name == "event":
            kind = value
        elif name == "data" and kind == wanted:
            return cursors, json.loads(value)
    raise AssertionError(kind)


def test_redis_dies_under_a_stream_and_comes_back(redis):
    async def wrote(work):
        store = RedisStore(redis.url, namespace="trouble")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    async def began(store):
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin(), call("refund"), send())
        return writer

    writer = asyncio.run(wrote(began))
    client = AsyncClient.connect(redis_url=redis.url, namespace="trouble", timeout_s=2)
    with served(client) as server, httpx.Client(base_url=server.url, timeout=30) as http:
        place = "/v1/conversations/c-1"
        with http.stream("GET", f"{place}/events?live=false") as stream:
            lines = stream.iter_lines()
            seen, _ = frames(lines, "call_suspended")
            redis.kill()
            more, closed = frames(lines, "stream_closed")
        assert (closed["reason"], closed["problem"]["code"]) == ("failed", "store_unavailable")
        assert closed["after"] == [*seen, *more][-1]

        refused = http.get(place)
        assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
        assert refused.headers["retry-after"]
        assert http.get("/ready").status_code == 503
        assert http.get("/health").status_code == 200

        redis.start()
        assert http.get(place).json()["seq"] == writer.state.seq
        with http.stream("GET", f"{place}/events?live=false", headers={"Last-Event-ID": str(closed["after"])}) as stream:
            rest = []
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    rest.append(int(line[4:]))
                if rest and rest[-1] == writer.state.seq:
                    break
                if closed["after"] == writer.state.seq:
                    break
        assert [*seen, *more, *rest] == list(range(1, writer.state.seq + 1))
        server.close(client)


def told(lines):
    """The events of a stream: kind, cursor and data."""
    kind = cursor = None
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            cursor = value
        elif name == "event":
            kind = value
        elif name == "data":
            yield kind, cursor, json.loads(value)
            kind = cursor = None


def test_redis_dies_under_those_who_follow_the_lists_and_comes_back(redis):
    client = AsyncClient.connect(redis_url=redis.url, namespace="trouble", timeout_s=2)

    async def wrote(*names):
        store = RedisStore(redis.url, namespace="trouble")
        await store.open()
        for name in names:
            writer = await Writer.of(store, name)
            await writer.do(start(), begin(), call("refund"))
        await store.close()

    with served(client) as server, httpx.Client(base_url=server.url, timeout=30) as http:
        with http.stream("GET", "/v1/events") as stream:
            events = told(stream.iter_lines())
            assert next(events)[0] == "following"
            asyncio.run(wrote("c-1", "c-2"))
            seen = [next(events) for _ in range(4)]
            redis.kill()
            kind, _, closed = next(events)
        assert (kind, closed["reason"], closed["problem"]["code"]) == ("stream_closed", "failed", "store_unavailable")
        assert closed["after"] == [cursor for _, cursor, _ in seen if cursor][-1]

        redis.start()
        asyncio.run(wrote("c-3"))
        with http.stream("GET", "/v1/events", headers={"Last-Event-ID": closed["after"]}) as stream:
            events = told(stream.iter_lines())
            rest = [next(events) for _ in range(2)]
        assert [said["conversation_id"] for kind, _, said in seen if kind == "pending"] == ["c-1", "c-2"]
        assert [(kind, said["conversation_id"]) for kind, _, said in rest] == [("pending", "c-3"), ("status", "c-3")]
        server.close(client)


def test_a_hundred_listeners_of_lists_and_conversations_have_few_connections_to_redis(redis):
    client = AsyncClient.connect(redis_url=redis.url, namespace="trouble", timeout_s=10)

    async def followed():
        store = RedisStore(redis.url, namespace="trouble")
        await store.open()
        writers = []
        for number in range(50):
            writers.append(await Writer.of(store, f"c-{number}"))
            await writers[-1].do(start(), begin(), call("refund"))
        async with httpx.AsyncClient(base_url=server.url, timeout=60, limits=httpx.Limits(max_connections=200)) as http:
            paths = [*(f"/v1/conversations/c-{number}/events" for number in range(50)), *["/v1/events"] * 50]
            reached = asyncio.Queue()

            async def listen(path):
                async with http.stream("GET", path) as stream:
                    assert stream.status_code == 200, await stream.aread()
                    begun = False
                    async for line in stream.aiter_lines():
                        if not begun and line.startswith("event: "):
                            begun = True
                            reached.put_nowait(None)
                        if "conversation_ended" in line or ('"status":"ended"' in line and "c-49" in line):
                            return

            listening = [asyncio.create_task(listen(path)) for path in paths]
            async with asyncio.timeout(60):
                for _ in paths:
                    await reached.get()
            await asyncio.sleep(0.5)
            connections = (await store._redis.info("clients"))["connected_clients"]
            for writer in writers:
                await writer.do(end())
            await asyncio.wait_for(asyncio.gather(*listening), 60)
        await store.close()
        return connections

    with served(client, streams=1000) as server:
        assert asyncio.run(followed()) < 90
        server.close(client)
