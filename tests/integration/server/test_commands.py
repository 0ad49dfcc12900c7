"""The command line over a server: the same commands, with neither Redis nor Ray at hand."""

import json

import pytest
from writer import suspend

from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.client import http_exchange

from .conftest import served


@pytest.fixture
def command(monkeypatch, capsys):
    with served() as server:
        writer = server.waiting("c-1")
        for name in ("REDIS_URL", "RAY_ADDRESS", "TOKEN", "APP", "HOME"):
            monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)
        monkeypatch.setenv("HOLDFAST_URL", server.url)

        def called(*arguments, code=ExitCode.DONE):
            assert run(arguments) == code
            said = capsys.readouterr()
            return json.loads(said.out) if "--json" in arguments else said.out + said.err

        called.server, called.writer = server, writer
        yield called


def test_a_conversation_is_steered_over_a_server(command):
    assert "--conversation c-1 --approve" in command("pending")
    (approval,) = command("pending", "--kind", "approval", "--json")["items"]
    assert approval["arguments"] == {"order": 7}
    assert [row["conversation_id"] for row in command("list", "--json")["items"]] == ["c-1"]
    shown = command("show", "c-1", "--json")
    assert (shown["status"], shown["agent"], len(shown["pending"])) == ("awaiting_input", "desk", 2)
    assert 0 < shown["created_at"] <= shown["updated_at"]
    assert "c-1: awaiting_input (agent desk of shop:app, started " in command("show", "c-1")

    place = ("resolve", approval["suspension_id"], "--conversation", "c-1")
    assert command(*place, "--approve", "--decision-id", "d-1", "--json")["duplicate"] is False
    assert command(*place, "--approve", "--decision-id", "d-1", "--json")["duplicate"] is True
    assert "stale" in command(*place, "--deny", "late", code=ExitCode.STALE)

    assert command("send", "c-1", "And?", "--message-id", "m-2", "--json")["message_id"] == "m-2"
    assert command("cancel", "c-1", "--json")["turn_id"]
    assert command("retry", "c-1", "--json")["lifted"] is False
    assert command("end", "c-1", "--yes", "--json")["seq"]
    assert "has ended" in command("send", "c-1", "More", code=ExitCode.BAD_INPUT)
    assert "never started" in command("retry", "c-2", code=ExitCode.BAD_INPUT)


def test_a_review_is_shown_and_given_over_a_server_and_what_it_does_not_take_is_refused(command):
    (approval,) = command("pending", "--kind", "approval", "--json")["items"]
    place = ("resolve", approval["suspension_id"], "--conversation", "c-1")
    assert "does not settle" in command(*place, "--review", "allow", code=ExitCode.BAD_INPUT)
    command(*place, "--approve", "--reason", "The mug is broken.")
    asked = {"message": "May it?", "report_md": "# Why\n\x1b[2J", "payload": '{"amount":[900]}', "action": "confirm"}
    command.server.run(command.writer.do(suspend(title="A refund of 900", **asked)))

    (review,) = command("pending", "--kind", "review", "--json")["items"]
    assert (review["title"], review["action"], review["payload"]) == ("A refund of 900", "confirm", {"amount": [900]})
    assert (review["decisions"], review["batch_id"], review["report_md"]) == (["review", "cancel"], "t1.m1", "# Why\n\x1b[2J")
    assert "look first: holdfast show c-1" in command("pending")
    drawn = command("show", "c-1")
    assert all(part in drawn for part in ("Review: refund", "A refund of 900", "# Why", "\\x1b[2J", "--review VERDICT"))

    place = ("resolve", review["suspension_id"], "--conversation", "c-1")
    assert "is no verdict; give one of allow, block, review" in command(*place, "--review", "maybe", code=ExitCode.BAD_INPUT)
    assert "4096 are allowed" in command(*place, "--review", "allow", "--notes", "x" * 5000, code=ExitCode.BAD_INPUT)
    assert "Review for" in command(*place, "--review", "review", "--notes", "halve it", "--decision-id", "d-2")
    assert "stale" in command(*place, "--cancel", "nobody needs it", code=ExitCode.STALE)
    (question,) = command("pending", "--json")["items"]
    place = ("resolve", question["suspension_id"], "--conversation", "c-1")
    assert "Cancel for" in command(*place, "--cancel", "nobody is there")
    settled = [one for one in command.writer.events if one.kind == "suspension_settled"]
    assert [(one.decision, one.reason) for one in settled] == [
        ("approve", "The mug is broken."),
        ("review", ""),
        ("cancel", "nobody is there"),
    ]


def test_work_is_paused_over_a_server(command):
    assert command("pause", "--agent", "desk", "--reason", "a look", "--json")["known"] is True
    assert "a look" in command("pending")
    assert command("unpause", "--agent", "desk", "--json")["paused"] == []


def test_a_server_that_is_not_there_is_unreachable(command, monkeypatch):
    monkeypatch.setattr(http_exchange, "REACH_S", 0.2)
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1" in command("pending", code=ExitCode.UNREACHABLE)


def test_a_grant_is_given_listed_and_revoked_over_a_server(command):
    (approval,) = command("pending", "--kind", "approval", "--json")["items"]
    assert approval["targets"] is None
    place = ("resolve", approval["suspension_id"], "--conversation", "c-1", "--approve")
    scope = ("--scope", "tool:refund", "--level", "execute", "--for", "2h")
    given = command(*place, *scope, "--decision-id", "d-1", "--json")
    assert command(*place, *scope, "--decision-id", "d-1", "--json") == {**given, "duplicate": True}

    (grant,) = command("grants", "c-1", "--json")["items"]
    assert (grant["kind"], grant["pattern"], grant["level"], grant["seq"]) == ("tool", "refund", "execute", given["seq"])
    assert f"Runs without asking by {grant['grant_id']}: tool refund up to execute, for " in command("show", "c-1")
    revoking = ("grants", "c-1", "--revoke", grant["grant_id"], "--reason", "enough", "--request-id", "r-1")
    assert f"{grant['grant_id']} of c-1 is revoked (seq" in command(*revoking)
    assert "was revoked before" in command(*revoking)
    assert "grant_id: " in command("grants", "c-1", "--revoke", "g99", code=ExitCode.BAD_INPUT)
    assert command("grants", "c-1", "--json") == {"items": []}
    assert "never started" in command("grants", "c-2", code=ExitCode.BAD_INPUT)
