"""Which pending calls the command line finds: by the options of `pending`, and by the beginning of a suspension's id."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Principal
from holdfast.persistence import MemoryStore, pages

DAY_MS = 86_400_000


@pytest.fixture
def writers(monkeypatch):
    """Two conversations that wait for an approval and an answer: one for 3 days and past its deadline, one since now."""
    store, made = MemoryStore(), dict[str, Writer]()
    now = asyncio.run(store.now())
    for name, since in (("old", now - 3 * DAY_MS), ("new", now)):
        writer = made[name] = asyncio.run(Writer.of(store, name))
        asyncio.run(writer.do(start(), begin(), call("refund", "ask"), now=since))

    @asynccontextmanager
    async def reached(where):
        stack = WithActors(store, *made.values())
        client = AsyncClient(StackGateway(stack, timeout_s=10)).acting_as(Principal("tester"))
        yield Reached(client, stack, where)

    monkeypatch.setattr(session, "reached", reached)
    return made


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], [("old", "refund"), ("old", "ask"), ("new", "refund"), ("new", "ask")]),
        (["--tool", "ask"], [("old", "ask"), ("new", "ask")]),
        (["--older-than", "1h"], [("old", "refund"), ("old", "ask")]),
        (["--older-than", "4d"], []),
        (["--expires-within", "30m"], [("old", "refund"), ("old", "ask")]),
        (["--expires-within", "2h", "--tool", "refund"], [("old", "refund"), ("new", "refund")]),
        (["--older-than", "1h", "--approver", "ana", "--role", "finance", "--tool", "ask"], [("old", "ask")]),
    ],
    ids=str,
)
def test_calls_are_listed_by_tool_age_deadline_and_approver(writers, capsys, options, found):
    assert run(["pending", "--json", *options]) == ExitCode.DONE

    assert {(one["conversation_id"], one["tool"]) for one in json.loads(capsys.readouterr().out)["items"]} == set(found)


def test_the_command_for_the_next_page_has_the_same_options(writers, capsys):
    assert run(["pending", "--older-than", "1h", "--limit", "1"]) == ExitCode.DONE

    assert "holdfast pending --limit 1 --older-than 1h --after " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["60", "1 h", "-1h", "1y", "999999w", ""])
@pytest.mark.parametrize("option", ["--older-than", "--expires-within"])
def test_what_is_no_time_is_refused(writers, capsys, option, text):
    assert run(["pending", f"{option}={text}"]) == ExitCode.BAD_INPUT

    assert option.removeprefix("--").replace("-", "_") in capsys.readouterr().err.replace("-", "_")


NAMING = (
    ["resolve", "--deny", "no"],
    ["approve"],
    ["deny", "no"],
    ["assign", "--to", "bo"],
    ["comment", "look"],
    ["snooze", "2h"],
)


@pytest.mark.parametrize("words", NAMING, ids=str)
def test_a_call_is_named_by_the_beginning_of_its_suspension(writers, capsys, words):
    command, *rest = words
    (whole, _) = writers["old"].suspension_ids

    assert run([command, whole[:8], *rest]) == ExitCode.DONE

    assert whole in capsys.readouterr().out


def test_a_question_and_a_review_are_answered_by_the_beginning_too(writers, capsys):
    (_, whole) = writers["old"].suspension_ids

    assert run(["review", whole[:8], "allow"]) == ExitCode.BAD_INPUT
    assert "answer" in capsys.readouterr().err
    assert run(["answer", whole[:8], '"ten"', "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["conversation_id"] == "old"


def test_a_beginning_that_several_share_decides_nothing_and_names_them(writers, capsys, monkeypatch):
    monkeypatch.setattr(pages, "SHORTEST_ID", 2)
    before = {name: writer.state for name, writer in writers.items()}

    assert run(["resolve", "s-", "--deny", "no"]) == ExitCode.BAD_INPUT

    said = capsys.readouterr().err
    assert all(one in said for writer in writers.values() for one in writer.suspension_ids)
    assert before == {name: writer.state for name, writer in writers.items()}
