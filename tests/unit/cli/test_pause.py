"""`holdfast pause`: whether there is anything that it can hold up is said in words, and to who reads JSON."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from writer import Writer, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient, stack_gateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore


class Stack:
    """Has one store, and no Ray: none is needed."""

    may_start = False

    def __init__(self, store):
        self._store = store

    async def store(self):
        return self._store


@pytest.fixture
def here(monkeypatch):
    store = MemoryStore()

    async def one():
        await (await Writer.of(store, "c-1")).do(start(agent="desk"))

    @asynccontextmanager
    async def reached(_):
        stack = Stack(store)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    async def at_once(_):
        pass

    asyncio.run(one())
    monkeypatch.setattr(session, "reached", reached)
    monkeypatch.setattr(stack_gateway.asyncio, "sleep", at_once)


@pytest.mark.parametrize(("agent", "known"), [("desk", True), ("dsek", False), (None, True)])
@pytest.mark.usefixtures("here")
def test_an_agent_that_no_conversation_has_is_named_as_such(capsys, agent, known):
    words = ["pause", *(["--agent", agent] if agent else [])]
    assert run(words) == 0
    said = capsys.readouterr()
    assert ("no conversation of an agent" in said.err) is not known

    assert run([*words, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["agent"], found["known"], found["duplicate"]) == (agent, known, True)
    assert said.err == ""
