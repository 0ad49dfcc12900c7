"""Redis behind the server dies and comes back: streams say so, requests say when to come back, and nothing is missing."""

import asyncio
import json

import httpx
import pytest
from lacking import lacking

from holdfast.client import AsyncClient
from holdfast.persistence import RedisStore
from holdfast.testing.redis_server import RedisServer, binaries
from holdfast.testing.writer import Writer, begin, call, send, start

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
        server.run(client.aclose())
