"""`holdfast show --context`: what the model is sent of a conversation, and what is left out."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hosted import stored
from stores import WithActors
from writer import DESK, Writer, begin, call, finish, reply, send, start, summarize

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Compact, Context, ToolSpec


@pytest.fixture(params=[None, Context(budget=1500)], ids=["whole", "window"])
def terms(request, monkeypatch):
    """The terms of an agent whose conversation has had forty turns and is in the next one."""

    async def made():
        spec = DESK.model_copy(update={"context": request.param})
        store = await stored(spec)
        writer = await Writer.of(store, "c-1")
        writer.spec = spec
        await writer.do(start("0", spec=writer.spec), begin())
        for number in range(40):
            await writer.do(reply("yes " * 40), send(f"question {number}"), begin())
        return store, writer

    reach(monkeypatch, *asyncio.run(made()))
    return request.param


def reach(monkeypatch, store, writer):
    """Have commands reach this store."""

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, writer)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    monkeypatch.setattr(session, "reached", reached)


def test_the_messages_that_are_sent_and_a_line_for_what_is_not(terms, capsys):
    assert run(["show", "c-1", "--context"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert "question 39" in said
    assert ("question 2\n" in said) is (terms is None)
    assert ("Left out: messages 1 to " in said) is (terms is not None)
    assert (" of 1050 tokens" in said) is (terms is not None)
    assert run(["show", "c-1", "--json"]) == ExitCode.DONE
    assert "context" not in json.loads(capsys.readouterr().out)
    assert run(["show", "c-1", "--context", "--json"]) == ExitCode.DONE
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["messages"]) == 81
    assert (len(shown["context"]["messages"]) < 40) is (terms is not None)
    assert [one["rule"] for one in shown["context"]["left_out"]] == (["truncated"] if terms else [])


def test_a_result_of_which_a_preview_is_sent_is_named(monkeypatch, capsys):
    async def made():
        tools = (*DESK.tools, ToolSpec(name="read_result"))
        spec = DESK.model_copy(update={"context": Context(budget=50_000), "tools": tools})
        store = await stored(spec)
        writer = await Writer.of(store, "c-1")
        writer.spec = spec
        found = finish(content=json.dumps({"ok": True, "result": "row\n" * 5000}))
        await writer.do(start("0", spec=spec), begin(), call("lookup"), found, reply())
        return store, writer

    reach(monkeypatch, *asyncio.run(made()))
    assert run(["show", "c-1", "--context"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert "Left out: all but a preview of the result of call_4_1, about 7442 tokens (preview)" in said
    assert run(["show", "c-1", "--context", "--json"]) == ExitCode.DONE
    (left,) = json.loads(capsys.readouterr().out)["context"]["left_out"]
    assert (left["rule"], left["tool_call_id"]) == ("preview", "call_4_1")


@pytest.mark.parametrize("summarised", [False, True])
def test_what_is_summarised_next_and_what_was_is_said(monkeypatch, capsys, summarised):
    async def made():
        spec = DESK.model_copy(update={"context": Context(budget=3000, compact=Compact())})
        store = await stored(spec)
        writer = await Writer.of(store, "c-1")
        writer.spec = spec
        await writer.do(start("0", spec=spec), begin())
        for number in range(20):
            await writer.do(reply("yes " * 80), send(f"question {number}"), begin())
        if summarised:
            seq = next(seq for seq, event in enumerate(writer.events, 1) if getattr(event, "turn_id", "") == "t19") - 1
            await writer.do(summarize("it was 7", boundary=seq, messages=36, tokens_before=1900, tokens_after=300))
        return store, writer

    reach(monkeypatch, *asyncio.run(made()))
    assert run(["show", "c-1", "--context"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert (", the oldest of which are summarised first" in said) is not summarised
    assert ("Left out: messages 1 to 36, about 1600 tokens (compacted)" in said) is summarised
    assert ("it was 7" in said) is summarised
