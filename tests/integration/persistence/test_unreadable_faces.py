"""Client and command line over a store in which one conversation cannot be read: the others are as they were."""

import asyncio
import json
import os
import sys

import pytest
from writer import Writer, begin, call, start

from holdfast.client import AsyncClient
from holdfast.errors import CorruptStore, NewerRecord
from holdfast.persistence import codec
from holdfast.persistence.keys import Keys

NAMES = ["c-1", "c-2", "c-3"]
SPOILT = "c-2"
MOMENT = 1_700_000_000_000


def corrupt(raw, keys, _activation):
    raw.redis.delete(keys.log(SPOILT))
    raw.redis.rpush(keys.log(SPOILT), "not", "ours")


def newer(raw, keys, _activation):
    """All that a later release wrote: entries, snapshot and head."""
    entries = raw.redis.xrange(keys.log(SPOILT))
    raw.redis.delete(keys.log(SPOILT))
    for entry_id, fields in entries:
        _, kind, values = codec.unpack(fields[b"e"])
        raw.redis.xadd(keys.log(SPOILT), {"e": codec.pack([codec.VERSION + 1, kind, values | {"colour": "blue"}])}, id=entry_id)
    snapshot = raw.redis.hget(keys.head(SPOILT), "snapshot")
    if snapshot is not None:
        raw.redis.hset(keys.head(SPOILT), "snapshot", codec.pack([codec.VERSION + 1, *codec.unpack(snapshot)[1:]]))


SPOILS = {"corrupt": (corrupt, CorruptStore), "newer": (newer, NewerRecord)}


@pytest.fixture
def server(own_server):
    """A server that a client does not warn of."""
    return own_server


@pytest.fixture(params=SPOILS)
async def spoilt(request, store, raw):
    """Three conversations that wait, one of them spoilt, and the error that reading it raises."""
    spoil, error = SPOILS[request.param]
    for number, name in enumerate(NAMES):
        writer = await Writer.of(store, name)
        await writer.do(start(), begin(), call(("refund", '{"amount":5}')), now=MOMENT + number)
        if name == SPOILT:
            spoil(raw, Keys(raw.namespace), writer)
    return error


@pytest.fixture
async def client(server, namespace):
    async with AsyncClient.connect(redis_url=server.url, namespace=namespace) as opened:
        yield opened


async def test_a_client_lists_what_it_can_read_and_what_it_cannot(client, spoilt):
    for limit in (1, 50):
        calls, cursor = [], None
        while True:
            page = await client.pending(limit=limit, after=cursor)
            calls += page.items
            cursor = page.next
            if cursor is None:
                break
        assert [one.conversation_id for one in calls] == NAMES
        assert [one.problem is not None for one in calls] == [False, True, False]

    rows = (await client.conversations()).items
    assert [row.conversation_id for row in rows] == NAMES


async def test_reading_that_conversation_raises_an_error_that_names_it(client, spoilt):
    conversation = client.conversation(SPOILT)

    async def events():
        async for _ in conversation.events():
            pass

    for read in (conversation.messages, conversation.wait, conversation.state, conversation.pending, events):
        with pytest.raises(spoilt) as raised:
            await asyncio.wait_for(read(), 20)
        assert SPOILT in str(raised.value)


async def test_reading_the_others_goes_on(client, spoilt):
    for name in (NAMES[0], NAMES[2]):
        conversation = client.conversation(name)
        state = await conversation.state()
        assert [one.arguments for one in state.pending] == [{"amount": 5}]
        assert (await conversation.messages())[0]["content"] == "hello"


async def ran(server, namespace, *arguments):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", *arguments, "--redis-url", server.url, "--namespace", namespace),
        env={name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


async def test_the_command_line_lists_what_it_can_read_and_what_it_cannot(server, namespace, spoilt):
    code, drawn, _ = await ran(server, namespace, "pending")
    assert code == 0
    assert drawn.count("it cannot be read: ") == 1
    assert all(f" {name} " in drawn for name in NAMES)

    code, said, _ = await ran(server, namespace, "pending", "--json")
    items = json.loads(said)["items"]
    assert [item["conversation_id"] for item in items] == NAMES
    assert [item["problem"] is not None for item in items] == [False, True, False]

    code, said, _ = await ran(server, namespace, "list", "--json")
    assert [item["conversation_id"] for item in json.loads(said)["items"]] == NAMES


async def test_showing_that_conversation_is_one_line_that_names_it(server, namespace, spoilt):
    code, out, err = await ran(server, namespace, "show", SPOILT)

    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert SPOILT in err


async def test_a_live_event_that_cannot_be_read_is_passed_over(client, store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    seen = []

    async def listen():
        async for event in client.conversation("c-1").events(after=writer.state.seq):
            seen.append(event)
            return

    task = asyncio.create_task(listen())
    async with asyncio.timeout(20):
        while not seen:
            for payload in (b"\xc1", codec.pack("x"), codec.pack(["progress", "e", 1, 1, "[" * 5000])):
                await store.publish("c-1", payload)
            await store.publish("c-1", codec.pack(["text_delta", "e", 1, 1, "hi"]))
            await asyncio.sleep(0.02)
    await task

    assert seen[0].data["text"] == "hi"
