"""`holdfast usage`, and what `holdfast show` says of the last turn."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hosted import stored
from stores import WithActors
from writer import DESK, Writer, begin, call, finish, reply, send, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway

USED = {"input_tokens": 1000, "output_tokens": 200, "cached_tokens": 900, "reasoning_tokens": 150, "cost_usd": 0.25}


@pytest.fixture(autouse=True)
def two(monkeypatch):
    """Two conversations: one with a tool and two answers, one whose answer says nothing of what it used."""

    async def made():
        store = await stored(DESK)
        writers = {name: await Writer.of(store, name) for name in ("c-1", "c-2")}
        for one in writers.values():
            one.spec = DESK
        await writers["c-1"].do(start(spec=DESK), begin(), call("lookup", duration_ms=1500, **USED))
        await writers["c-1"].do(finish(), reply("Found.", duration_ms=500, **USED))
        await writers["c-2"].do(start(spec=DESK), begin(), reply("Hi."), send(), begin())
        return store, writers["c-1"]

    store, writer = asyncio.run(made())

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, writer)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    monkeypatch.setattr(session, "reached", reached)


def test_a_row_for_each_and_a_line_for_all(capsys):
    assert run(["usage", "c-1", "--by", "tool"]) == ExitCode.DONE
    head, *rows, total = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head == ["TOOL", "ANSWERS", "SENT", "CACHED", "RECEIVED", "THINKING", "USD", "SECONDS", "CALLS", "ERRORS"]
    assert rows == [
        ["-", "1", "1000", "900", "200", "150", "0.2500", "0.5", "0", "0"],
        ["lookup", "1", "1000", "900", "200", "150", "0.2500", "1.5", "1", "0"],
    ]
    said = "1 conversation with 1 turn: 2 answers, 2000 tokens sent (1800 cached), 400 tokens received (300 of thinking), "
    assert " ".join(total) == said + "0.5000 USD, 2.0 s"


def test_all_conversations_in_pages_of_which_each_names_the_next(capsys):
    assert run(["usage", "--limit", "1", "--json"]) == ExitCode.DONE
    first = json.loads(capsys.readouterr().out)
    assert (first["conversations"], first["total"]["cost_usd"]) == (1, 0.5)
    assert run(["usage", "--limit", "1"]) == ExitCode.DONE
    assert f"holdfast usage --by model --limit 1 --after {first['next']}" in capsys.readouterr().out
    assert run(["usage", "--after", first["next"]]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert f"{DESK.model}  1        ?     0       ?" in said
    assert "1 conversation with 2 turns: 1 answer\n" in said
    assert "There are more" not in said


def test_a_list_filter_does_not_go_with_one_conversation(capsys):
    assert run(["usage", "c-1", "--limit", "1"]) == ExitCode.BAD_INPUT
    assert "--limit" in capsys.readouterr().err


def test_show_says_what_the_last_turn_used(capsys):
    assert run(["show", "c-1"]) == ExitCode.DONE
    assert "The last turn used 2 answers, 2000 tokens sent (1800 cached)" in capsys.readouterr().out
    assert run(["show", "c-1", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["used"]["reasoning_tokens"] == 300
    assert run(["show", "c-2"]) == ExitCode.DONE
    assert "The last turn used" not in capsys.readouterr().out
