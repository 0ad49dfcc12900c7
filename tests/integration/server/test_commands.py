"""The command line over a server: the same commands, with neither Redis nor Ray at hand."""

import json

import pytest

from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.client import http_exchange

from .conftest import served


@pytest.fixture
def command(monkeypatch, capsys):
    with served() as server:
        server.waiting("c-1")
        for name in ("REDIS_URL", "RAY_ADDRESS", "TOKEN", "APP", "HOME"):
            monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)
        monkeypatch.setenv("HOLDFAST_URL", server.url)

        def called(*arguments, code=ExitCode.DONE):
            assert run(arguments) == code
            said = capsys.readouterr()
            return json.loads(said.out) if "--json" in arguments else said.out + said.err

        yield called


def test_a_conversation_is_steered_over_a_server(command):
    assert "holdfast resolve c-1" in command("pending")
    (approval,) = command("pending", "--kind", "approval", "--json")["items"]
    assert approval["arguments"] == {"order": 7}
    assert [row["conversation_id"] for row in command("list", "--json")["items"]] == ["c-1"]
    shown = command("show", "c-1", "--json")
    assert (shown["status"], shown["agent"], len(shown["pending"])) == ("awaiting_input", "desk", 2)
    assert 0 < shown["created_at"] <= shown["updated_at"]
    assert "c-1: awaiting_input (agent desk of shop:app, started " in command("show", "c-1")

    place = ("resolve", "c-1", approval["tool_call_id"], "--suspension", approval["suspension_id"])
    assert command(*place, "--approve", "--decision-id", "d-1", "--json")["duplicate"] is False
    assert command(*place, "--approve", "--decision-id", "d-1", "--json")["duplicate"] is True
    assert "stale" in command(*place, "--deny", "late", code=ExitCode.STALE)

    assert command("send", "c-1", "And?", "--message-id", "m-2", "--json")["message_id"] == "m-2"
    assert command("cancel", "c-1", "--json")["turn_id"]
    assert command("retry", "c-1", "--json")["lifted"] is False
    assert command("end", "c-1", "--yes", "--json")["seq"]
    assert "has ended" in command("send", "c-1", "More", code=ExitCode.BAD_INPUT)
    assert "never started" in command("retry", "c-2", code=ExitCode.BAD_INPUT)


def test_work_is_paused_over_a_server(command):
    assert command("pause", "--agent", "desk", "--reason", "a look", "--json")["known"] is True
    assert "a look" in command("pending")
    assert command("resume", "--agent", "desk", "--json")["paused"] == []


def test_a_server_that_is_not_there_is_unreachable(command, monkeypatch):
    monkeypatch.setattr(http_exchange, "REACH_S", 0.2)
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1" in command("pending", code=ExitCode.UNREACHABLE)
