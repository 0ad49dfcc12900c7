"""One suite over both ways to a conversation, with a real server: a client over HTTP does what one on the stack does.

Each case plays on a fresh server by each way. What it observes is compared whole, but for the values of times.
"""

import asyncio
import uuid

import pytest
from both_ways import CASES, plain
from stack_fixture import eventually
from writer import send

from holdfast import events as events_of
from holdfast.client import AsyncClient, Client
from holdfast.conversation import Approve

from .conftest import served

WAYS = ("stack", "http")


def observed(case, way):
    """What a case observes by one way, on a server of its own."""
    with served() as server:
        server.waiting("c-1")
        if way == "stack":
            return plain(server.run(case(server.client, server)))

        async def over_http():
            async with AsyncClient.connect(url=server.url, timeout_s=20) as client:
                return await case(client, server)

        return plain(asyncio.run(over_http()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_both_ways_show_the_same(case, monkeypatch):
    drawn = iter(())
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(drawn)))  # ids that nobody gave are the same both times
    found = []
    for way in WAYS:
        drawn = iter(range(1, 10_000))
        found.append(observed(case, way))
    assert found[0] == found[1]


def test_a_blocking_client_works_over_http_too():
    with served() as server, Client.connect(url=server.url) as client:
        server.waiting("c-1")
        (approval,) = client.pending(kind="approval").items
        receipt = approval.resolve(Approve(), decision_id="d-1")
        assert client.conversation("c-1").wait(after=receipt.seq - 1, timeout_s=0).seq >= receipt.seq
        events = client.conversation("c-1").events(live=False)
        assert [next(events).seq for _ in range(receipt.seq)] == list(range(1, receipt.seq + 1))
        events.close()
        eventually(lambda: server.streams == 0)


def test_a_long_wait_is_several_polls():
    with served(wait_s=0.1) as server:
        writer = server.waiting("c-1")

        async def waited():
            async with AsyncClient.connect(url=server.url) as client:
                conversation = client.conversation("c-1")
                waiting = asyncio.ensure_future(conversation.wait(after=writer.state.seq))
                await asyncio.sleep(0.5)
                assert not waiting.done()
                await conversation.cancel()
                return await asyncio.wait_for(waiting, 10)

        assert asyncio.run(waited()).status == "idle"


def test_the_events_of_a_large_conversation_come_whole():
    with served() as server:
        writer = server.waiting("c-1")
        for number in range(6):
            server.run(writer.do(send("ü" * 400_000, message_id=f"m{number}")))

        async def read():
            async with AsyncClient.connect(url=server.url) as client:
                source = client.conversation("c-1").events(live=False)
                try:
                    return [await anext(source) for _ in range(writer.state.seq)]
                finally:
                    await source.aclose()

        events = asyncio.run(read())
    assert [event.body for event in events] == writer.events
    assert all(isinstance(event.body, events_of.MessageAccepted) for event in events[-6:])
