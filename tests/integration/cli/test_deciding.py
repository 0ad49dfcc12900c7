"""From the list of what waits to its answer, as a person at a terminal goes."""

import asyncio
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

import pytest
import redis

from holdfast.conversation import RunFinished
from holdfast.persistence import RedisStore, Takeover, TakeoverReason, codec

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_a_terminal(cli, columns: int, *arguments: str) -> str:
    """What a command prints on a terminal of so many columns."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [sys.executable, "-m", "holdfast.cli", *arguments]
    with subprocess.Popen(command, env=cli.env | {"TERM": "xterm"}, stdin=side, stdout=side, stderr=side) as process:
        os.close(side)
        printed = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            printed += piece
    os.close(main)
    assert process.returncode == 0, printed
    return printed.decode().replace("\r\n", "\n")


def harmless(text: str) -> bool:
    return not any((ord(char) < 0x20 and char != "\n") or 0x7F <= ord(char) < 0xA0 or char == "\u202e" for char in text)


def test_the_list_has_a_line_and_a_whole_command_for_each_call(cli, waiting, hostile):
    said = cli("pending")
    by_tool = cli.pending(waiting)

    assert said.out.splitlines()[0].split() == ["AGE", "LEFT", "CONVERSATION", "AGENT", "KIND", "TOOL", "ARGUMENTS"]
    for tool in ("ask", "camera"):
        assert f"resolve {by_tool[tool]['suspension_id']} --conversation {waiting} --a" in said.out
    assert by_tool["refund"]["suspension_id"] not in said.out, "its arguments are full of escapes"
    assert f"look first: holdfast show {waiting}" in said.out
    assert "[bold]x[/bold]" in said.out
    assert harmless(said.out)
    assert max(map(len, said.out.splitlines())) > 100, "a pipe has no width"
    assert by_tool["refund"]["arguments"] == {"order": hostile, "amount": 42}


@pytest.mark.parametrize("columns", [40, 200])
def test_commands_stay_whole_on_a_terminal_however_narrow(cli, waiting, columns):
    printed = ESCAPES.sub("", on_a_terminal(cli, columns, "pending", waiting))

    by_tool = cli.pending(waiting)
    for found in (by_tool["ask"], by_tool["camera"]):
        lines = [line for line in printed.splitlines() if found["suspension_id"] in line]
        assert len(lines) == 1
        assert waiting in shlex.split(lines[0])
    assert harmless(printed)


def test_filters_and_pages(cli, inside, waiting):
    first = inside("pending", "--limit", "1", "--agent", "support").out
    (hint,) = [line.partition(": ")[2] for line in first.splitlines() if line.startswith("There are more: ")]

    assert [one["kind"] for one in inside("pending", "--kind", "elicitation", "--json").json()["items"]] == ["elicitation"]
    assert inside("pending", "--agent", "nobody").out == "Nothing is pending.\n"
    assert "--agent support" in hint
    second = cli.shell(f"{hint} --json").json()
    assert len(second["items"]) == 1
    assert second["items"][0]["suspension_id"] not in first
    assert second["next"] is not None


def test_shown_commands_lead_where_the_list_came_from(cli, inside, waiting, stack):
    url = inside("pending", waiting, "--redis-url", stack.redis_url, "--namespace", "holdfast").out
    home = inside("pending", waiting, "--home", f"{stack.home.path}/../{stack.home.path.name}").out

    assert url.count(f" --redis-url {stack.redis_url} --namespace holdfast") == 3
    assert home.count(f" --home {stack.home.path}/../{stack.home.path.name}") == 3
    assert "--namespace" not in home


def test_show_draws_approvals_questions_and_clients_calls_apart(cli, inside, waiting):
    said = inside("show", waiting)
    shown = inside("show", waiting, "--json").json()

    frames = {corner: said.out.count(corner) for corner in "┏╭╔"}
    assert frames == {"┏": 2, "╭": 1, "╔": 0}  # the client's call is first to be approved
    assert "Approval: refund" in said.out
    assert "Question: ask" in said.out
    assert "Approval: camera" in said.out
    assert "It waits for 3 decisions" in said.out
    assert harmless(said.out)
    assert shown["status"] == "awaiting_input"
    assert shown["agent"] == "support"
    assert {one["tool"] for one in shown["pending"]} == {"refund", "ask", "camera"}
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert shown["messages"][0]["content"] == "waiting \x1b[31m [red]"


def test_show_is_readable_on_a_narrow_terminal(cli, waiting):
    printed = ESCAPES.sub("", on_a_terminal(cli, 50, "show", waiting))

    assert "May refund run" in printed
    assert harmless(printed)


def test_the_list_of_conversations_is_filtered_by_status(cli, inside, waiting):
    idle = inside("list", "--status", "idle", "--json").json()["items"]
    listed = inside("list").out

    assert "listed-1" in {row["conversation_id"] for row in idle}
    assert {row["status"] for row in idle} == {"idle"}
    assert "listed-1" in listed
    assert waiting in listed
    assert inside("list", "--agent", "nobody").out == "There are no such conversations.\n"


def test_what_is_in_quarantine_is_listed_shown_with_its_reason_and_taken_up_again_when_told(cli, inside, waiting, stack):
    async def struck():
        store = RedisStore(stack.redis_url)
        await store.open()
        before = await store.owner("listed-1")
        where = {"actor": "nobody", "lease_ms": 1000, "because": TakeoverReason.ASKED}
        await store.acquire("listed-1", Takeover(seen_token=before.token, new_token="mine", **where))
        assert await store.strike("listed-1", "mine", process="p-1", reason="tool crash took it down", limit=1) is None
        outcome = codec.encode(RunFinished(effect_id="call_1#1", ok=True, content='{"ok": true, "result": "paid"}'))
        assert not await store.finish("listed-1", "call_1#1", incarnation="gone", outcome=outcome)
        await store.close()

    asyncio.run(struck())

    rows = inside("list", "--status", "quarantined", "--json").json()["items"]
    assert [row["conversation_id"] for row in rows] == ["listed-1"]
    shown = inside("show", "listed-1")
    assert "tool crash took it down" in shown.out
    assert "Came late and changed nothing: call_1#1" in shown.out
    (late,) = inside("show", "listed-1", "--json").json()["late"]
    assert (late["effect_id"], "paid" in late["content"]) == ("call_1#1", True)
    assert inside("retry", "listed-1").out == "listed-1 is taken up again.\n"
    assert inside("retry", "listed-1", "--json").json() == {"conversation_id": "listed-1", "lifted": False}
    assert inside("list", "--status", "quarantined").out == "There are no such conversations.\n"


def test_the_shown_commands_decide_the_calls_and_the_conversation_ends(cli, inside, waiting):
    shown = [line for line in inside("show", waiting).out.splitlines() if "holdfast resolve " in line]
    commands = {line.split("holdfast resolve ")[1].split()[0]: line for line in reversed(shown)}  # of each call the first
    by_tool = cli.pending(waiting)

    refund = cli.shell(commands[by_tool["refund"]["suspension_id"]])  # the id of its call looks like an option
    assert refund.out.startswith(f"Approve for {by_tool['refund']['suspension_id']} of w-1 is recorded (seq ")
    assert cli.resolve(by_tool["camera"], "--approve", "--json").json()["duplicate"] is False
    too_late = cli.resolve(by_tool["camera"], "--deny", "no", "--json", code=3)
    assert json.loads(too_late.err)["reason"] == "superseded"

    picture = cli.pending(waiting)["camera"]
    assert picture["kind"] == "client_exec"
    assert inside("show", waiting).out.count("╔") == 1
    once = cli.resolve(picture, "--answer", '{"picture": null}', "--decision-id", "d-1", "--json").json()
    twice = cli.resolve(picture, "--answer", '{"picture": null}', "--decision-id", "d-1", "--json").json()
    assert twice == once | {"duplicate": True}

    cli.resolve(by_tool["ask"], "--answer", "false")
    assert cli.rested(waiting).reply == "All done."
    assert inside("pending", waiting).out == "Nothing is pending.\n"
    contents = [message["content"] for message in inside("show", waiting, "--json").json()["messages"]]
    assert '{"ok":true,"result":false}' in contents
    assert any("refunded 42" in (content or "") for content in contents)


def test_a_decision_that_does_not_fit_changes_nothing_and_edited_arguments_are_what_runs(cli, inside, waiting):
    refund = cli.pending("edited-1")["refund"]

    wrong = cli.resolve(refund, "--approve", "--arguments", '{"order": "A1", "amount": "much"}', code=2)
    cli.resolve(refund, "--approve", "--arguments", '{"order": "A1", "amount": 7}')

    assert wrong.err.startswith("error: ")
    assert "amount" in wrong.err
    assert cli.rested("edited-1").reply == "Done."
    assert "refunded 7 of A1" in inside("show", "edited-1").out


def test_lists_that_something_else_has_emptied_are_made_anew(cli, inside, waiting, stack):
    before = inside("pending", "--json").json()
    with redis.Redis.from_url(stack.redis_url) as raw:
        for key in raw.scan_iter("{holdfast:*}:pending*"):
            raw.delete(key)
    assert inside("pending").out == "Nothing is pending.\n"

    said = inside("reindex", "--json").json()

    assert said["conversations"] >= 3
    assert said["problems"] == []
    assert inside("pending", "--json").json() == before
    assert inside("reindex").out == f"{said['conversations']} conversations indexed, 0 stale entries removed.\n"
