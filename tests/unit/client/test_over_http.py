"""A client over HTTP returns and raises what one on the stack does; the same suite runs over a real server, too."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest
from asgi_transport import AsgiTransport
from both_ways import CASES, plain
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.agent import Agent, App, tool
from holdfast.client import AsyncClient
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, create_app

HERE = Address("http://127.0.0.1:8484")


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return order


async def before(way):
    """A client, and what it stands before."""
    store = MemoryStore()
    stack = WithActors(store, app=App(agents=[Agent(name="desk", tools=[refund])]))
    stack.writers["c-1"] = writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"order": 7}'), "ask"))
    client = AsyncClient(StackGateway(stack, timeout_s=30))
    if way == "http":
        anyone = Authentication(anyone=True)
        client = AsyncClient(
            HttpGateway(HERE, timeout_s=30, transport=AsgiTransport(create_app(client, authentication=anyone)))
        )
    return client, SimpleNamespace(store=store, stack=stack, _loop=asyncio.get_running_loop())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_both_ways_show_the_same(case, monkeypatch):
    drawn = iter(())
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(drawn)))  # ids that nobody gave are the same both times
    found = []
    for way in ("stack", "http"):
        drawn = iter(range(1, 10_000))
        client, behind = await before(way)
        found.append(plain(await case(client, behind)))
        await client.aclose()
    assert found[0] == found[1]
