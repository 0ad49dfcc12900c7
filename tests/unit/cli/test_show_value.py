"""`holdfast show` of an agent whose replies have a shape: the object, and who told the model what was wrong."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hosted import stored
from stores import WithActors
from writer import DESK, Writer, begin, reply, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway


@pytest.fixture
def repaired(monkeypatch):
    """A conversation whose first reply did not fit."""

    async def made():
        spec = DESK.model_copy(update={"reply": '{"type":"object","properties":{"order":{"type":"integer"}}}'})
        store = await stored(spec)
        writer = await Writer.of(store, "c-1")
        writer.spec = spec
        await writer.do(start("Which?", spec=spec), begin(), reply("Seven."), reply('{"order":7}'))
        return store, writer

    store, writer = asyncio.run(made())

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, writer)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    monkeypatch.setattr(session, "reached", reached)


def test_the_object_is_shown_and_the_word_on_a_reply_is_nobodys_message(repaired, capsys):
    assert run(["show", "c-1", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["value"] == {"order": 7}
    assert run(["show", "c-1"]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in ("user", "assistant", "holdfast")] == [
        "user",
        "assistant",
        "holdfast",
        "assistant",
    ]
