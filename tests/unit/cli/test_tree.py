"""What the command line shows of trees: the conversations below one, their calls, and what stands above a call."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from family import asking, begun, child_of, delegated
from stores import WithActors
from writer import DESK, Writer, call, end

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore


@pytest.fixture
def clerk(monkeypatch):
    """The writer of a child that waits for a person, below a root with another child that has not begun."""
    store = MemoryStore()

    @asynccontextmanager
    async def reached(where):
        stack = WithActors(store)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack, where)

    async def made():
        root = await begun(store, "root", asking("root", "clerk", "other"), text="Refund order 7, please.")
        first, _ = await delegated(root, "clerk", "other")
        child = await child_of(root, first, DESK.model_copy(update={"name": "clerk"}))
        await child.do(call("refund"))
        return child

    monkeypatch.setattr(session, "reached", reached)
    return asyncio.run(made())


def test_a_tree_is_drawn_with_the_command_that_lists_what_waits_in_it(clerk, capsys):
    assert run(["tree", "root"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert f"{clerk.conversation_id}  clerk  awaiting_input, 1 pending" in said
    assert "other  (it has not started yet)" in said
    assert "holdfast pending --root root" in said
    assert run(["tree", "root", "--json"]) == ExitCode.DONE
    children = json.loads(capsys.readouterr().out)["children"]
    assert [(one["agent"], one["status"], one["pending"]) for one in children] == [
        ("clerk", "awaiting_input", 1),
        ("other", None, 0),
    ]


def test_the_events_of_a_tree_are_followed_and_resumed(clerk, capsys):
    asyncio.run(over(clerk))
    assert run(["tree", "root", "--watch", "--json"]) == ExitCode.DONE
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["conversation_id"] for one in events} == {"root", clerk.conversation_id}
    assert events[-1]["kind"] == "conversation_ended"
    assert run(["tree", "root", "--watch", "--after", events[-2]["cursor"]]) == ExitCode.DONE
    assert capsys.readouterr().out == f"{events[-1]['conversation_id']}  conversation_ended\n"
    assert run(["tree", "root", "--after", "1"]) == ExitCode.BAD_INPUT
    assert "--watch" in capsys.readouterr().err


async def over(child):
    """A child ends, and then its root."""
    await child.do(end())
    root = await Writer.of(child.store, "root", seen=(await child.store.owner("root")).token)
    await root.do(end())


def test_the_calls_of_a_tree_are_listed_with_what_stands_above_them(clerk, capsys):
    assert run(["pending", "--root", "root"]) == ExitCode.DONE
    assert "below root (root)" in capsys.readouterr().out
    assert run(["pending", "--root", "root", "--json"]) == ExitCode.DONE
    (found,) = json.loads(capsys.readouterr().out)["items"]
    assert found["path"] == [{"conversation_id": "root", "agent": "root"}]


def test_a_child_is_shown_with_its_task_and_the_last_words_above_it_and_a_parent_with_what_it_waits_for(clerk, capsys):
    assert run(["show", clerk.conversation_id]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert "look into it" in said
    assert "Above it, root (root): Refund order 7, please." in said
    assert run(["show", "root"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert f"clerk waits for {clerk.conversation_id}, " in said
    assert "holdfast tree root" in said


@pytest.mark.parametrize("command", [["tree", "nobody"], ["pending", "--root", "nobody"]], ids=str)
def test_a_tree_of_nothing_is_told_in_a_line(clerk, capsys, command):
    assert run(command) == ExitCode.BAD_INPUT
    assert "nobody" in capsys.readouterr().err
