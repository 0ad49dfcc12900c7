"""`send`, `cancel` and `end`, `pause` and `unpause`: what a person at a terminal steers with."""

import asyncio
import io
import json
import signal
import sys
from contextlib import aclosing

import pytest

from holdfast.actors.actor_settings import StoreAddress
from holdfast.cli.options import Where
from holdfast.cli.store_checks import Looked, pause_checks
from holdfast.client import AsyncClient
from holdfast.persistence import opened
from holdfast.settings import Settings
from holdfast.testing import call, calls


@pytest.fixture(scope="module")
def steered(cli) -> str:
    """A conversation that waits for an answer."""
    cli.scenario("steered", calls(call("ask", {"question": "Which one?"})), "Then that.", "Once more.")
    path = cli.file({"agent": "support", "messages": ["steered"], "conversation_id": "steer-1"}, name="steered.jsonl")
    cli("submit", path, code=5)
    return "steer-1"


def test_a_conversation_is_sent_a_message_cancelled_and_ended_each_once_however_often_that_is_said(cli, inside, steered):
    # a message, through a pipe, with an id that is printed
    first = cli.shell(f"printf 'and then?\\n' | holdfast send {steered} - --json").json()
    again = cli("send", steered, "and then?\n", "--message-id", first["message_id"]).out
    assert (first["conversation_id"], first["duplicate"]) == (steered, False)
    assert again == f"Message {first['message_id']} to {steered} was recorded before (seq {first['seq']}).\n"

    # what became of it
    queued = cli("message", steered, first["message_id"]).out
    assert queued.startswith(f"Message {first['message_id']}, sent ")
    assert "ago, is queued." in queued
    assert cli("message", steered, first["message_id"], "--json").json()["status"] == "queued"
    assert "was never sent a message 'm-none'" in cli("message", steered, "m-none", code=2).err

    # the turn that waits
    cancelled = cli("cancel", steered, "--request-id", "stop-1").out
    assert cancelled.startswith("Turn t1 is cancelled, with ")
    assert f"(request stop-1 to {steered})." in cancelled
    repeated = cli("cancel", steered, "--request-id", "stop-1", "--json").json()
    assert (repeated["turn_id"], repeated["duplicate"], repeated["request_id"]) == ("t1", True, "stop-1")

    # the end, which is for good
    refused = inside("end", steered, code=2)
    assert "--yes" in refused.err
    ended = cli("end", steered, "--yes", "--request-id", "end-1").out
    assert ended.startswith(f"{steered} has ended (request end-1, seq ")
    once_more = cli("end", steered, "--yes", "--request-id", "end-1", "--json").json()
    assert (once_more["duplicate"], once_more["request_id"]) == (True, "end-1")
    late = cli("send", steered, "too late", "--json", code=2)
    assert '"ConversationEnded"' in late.err


def test_what_waits_is_cancelled_by_somebody_and_the_turn_goes_on(cli, inside, stack):
    asking = [calls(call("ask", {"question": question})) for question in ("Which one?", "And now?")]
    cli.scenario("stopped", *asking, "So be it.")
    path = cli.file({"agent": "support", "messages": ["stopped"], "conversation_id": "stop-1"}, name="stopped.jsonl")
    cli("submit", path, code=5)

    of_kind = ("--pending", "--kind", "elicitation", "--reason", "closed")
    said = cli("cancel", "stop-1", *of_kind, "--as", "ana", "--request-id", "x").out
    assert said.startswith("Cancelled in turn t1, which goes on: ")
    assert "no turn 't9'" in cli("cancel", "stop-1", "--turn", "t9", code=2).err
    assert "leave --turn" in inside("cancel", "stop-1", "--pending", "--turn", "t1", code=2).err
    assert "add --pending" in inside("cancel", "stop-1", "--reason", "why", code=2).err
    assert "principal.id" in inside("cancel", "stop-1", "--as", "\n", code=2).err
    cli("cancel", "stop-1", "--turn", "t1", "--wait", "5")

    async def who() -> list[tuple[str, str]]:
        async with AsyncClient.connect(redis_url=stack.redis_url) as client:
            events = client.conversation("stop-1").events(live=False)
            bodies = [(await anext(events)).body]
            while bodies[-1].kind != "turn_cancelled":
                bodies.append((await anext(events)).body)
            await events.aclose()
            return [(body.kind, body.principal.id) for body in bodies if getattr(body, "principal", None) is not None]

    found = asyncio.run(who())
    assert [kind for kind, _ in found if kind != "suspension_settled"] == [
        "message_accepted",
        "pending_cancelled",
        "turn_cancelled",
    ]
    assert dict(found)["pending_cancelled"] == "ana"
    assert "@" in dict(found)["turn_cancelled"]  # this user, where nobody is named


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "steer-1\n"])
def test_whoever_is_asked_and_does_not_say_yes_has_ended_nothing(inside, monkeypatch, answer):
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    said = inside("end", "steer-1", code=1)
    assert "[y/N]" in said.err
    assert said.err.endswith("Nothing was done.\n")
    assert said.out == ""


class Piped:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize(("data", "said"), [(b"\xff", "not UTF-8"), (b"x" * 101, "more than 100 bytes")])
def test_what_cannot_be_read_of_a_pipe_is_sent_to_nobody(inside, monkeypatch, data, said):
    monkeypatch.setattr("holdfast.cli.verbs.MOST_BYTES", 100)
    monkeypatch.setattr(sys, "stdin", Piped(data))
    refused = inside("send", "steer-1", "-", code=2)
    assert refused.err.startswith("error: text: ")
    assert said in refused.err


@pytest.mark.parametrize("arguments", [("send", "no such!", "x"), ("cancel", "no such!"), ("end", "no such!", "--yes")])
def test_what_is_no_conversation_is_bad_input(inside, arguments):
    assert "no such!" in inside(*arguments, code=2).err


async def paused_checks(stack):
    store = opened(stack.redis_url, namespace="quiet")
    await store.open()
    await store.close()
    async with aclosing(Looked(StoreAddress(stack.redis_url, "quiet", store.store_id), Settings.of(), Where())) as at:
        return await pause_checks(at)


def test_a_pause_is_said_wherever_somebody_looks_until_it_is_lifted(inside, stack, waiting, hostile):
    namespaced = ("--namespace", "quiet")  # nothing of the other tests is to wait for this
    made = inside("pause", "--agent", "support", "--reason", hostile, *namespaced)
    assert made.out.startswith("New work of agent support has been paused for ")
    assert "\x1b" not in made.out
    assert "To lift it: holdfast unpause --agent support --namespace quiet\n" in made.out
    assert "no conversation of an agent 'support' here" in made.err
    again = inside("pause", "--agent", "support", "--json", *namespaced).json()
    assert (again["duplicate"], again["reason"], again["known"]) == (True, hostile, False)
    assert "It was paused before; nothing was changed." in inside("pause", "--agent", "support", *namespaced).out
    inside("pause", "--reason", "the bill", *namespaced)

    for command in ("list", "pending"):
        said = inside(command, *namespaced).out.splitlines()
        assert said[0].startswith("New work of the namespace has been paused for ")
        assert said[0].endswith(": the bill (and 1 more; see `holdfast doctor`).")
        assert [one["agent"] for one in inside(command, "--json", *namespaced).json()["paused"]] == [None, "support"]
    checks = asyncio.run(paused_checks(stack))
    assert [(check.status, check.fix.rpartition(": ")[2]) for check in checks] == [
        ("warn", "holdfast unpause"),
        ("warn", "holdfast unpause --agent support"),
    ]

    lifted = inside("unpause", *namespaced).out
    assert lifted.startswith(
        "New work of the namespace is no longer paused.\nStill: New work of agent support has been paused for "
    )
    assert inside("unpause", *namespaced).out.startswith("New work of the namespace was not paused; nothing was done.\n")
    assert inside("unpause", "--agent", "support", *namespaced, "--json").json()["paused"] == []
    assert inside("list", *namespaced).out == "There are no conversations.\n"
    assert [check.status for check in asyncio.run(paused_checks(stack))] == ["ok"]


def test_a_conversation_says_that_its_work_is_paused(inside, stack, waiting):
    async def paused(agent):
        async with AsyncClient.connect(redis_url=stack.redis_url) as client:
            await client.pause(agent, "the bill")

    async def resumed(agent):
        async with AsyncClient.connect(redis_url=stack.redis_url) as client:
            await client.unpause(agent)

    asyncio.run(paused("clerk"))  # who has no conversation here
    try:
        assert "paused" not in inside("show", waiting).out
        assert inside("show", waiting, "--json").json()["paused"] is None
        asyncio.run(paused("support"))
        assert "New work of agent support has been paused for " in inside("show", waiting).out
        assert inside("show", waiting, "--json").json()["paused"]["reason"] == "the bill"
    finally:
        for agent in ("clerk", "support"):
            asyncio.run(resumed(agent))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("pause", "--agent", "no agent"), "agent"),
        (("unpause", "--agent", "a|b"), "agent"),
        (("pause", "--reason", "x" * 1025), "reason"),
    ],
)
def test_what_can_be_no_pause_is_bad_input(inside, arguments, field):
    assert inside(*arguments, code=2).err.startswith(f"error: {field}: ")


def test_what_waits_is_watched_until_somebody_has_seen_enough(cli, inside):
    cli.scenario("watched", calls(call("ask", {"question": "Which one?"})), "So be it.")
    path = cli.file({"agent": "support", "messages": ["watched"], "conversation_id": "watch-1"}, name="watched.jsonl")
    assert "--after" in inside("pending", "--watch", "--after", "1.c", code=2).err
    assert "conversation" in inside("pending", "watch-1", "--watch", code=2).err
    with (
        cli.start("pending", "--watch", "--kind", "elicitation", "--json") as as_json,
        cli.start("pending", "--watch") as drawn,
    ):
        cli("submit", path, code=5)
        waiting = next(one for one in map(json.loads, as_json.stdout) if one["data"].get("conversation_id") == "watch-1")
        assert "watch-1" in next(line for line in drawn.stdout if "watch-1" in line)
        cli("cancel", "watch-1", "--pending", "--as", "ana")
        settled = next(one for one in map(json.loads, as_json.stdout) if one["kind"] == "settled")
        assert (waiting["kind"], waiting["data"]["tool"]) == ("pending", "ask")
        assert waiting["data"]["arguments"] == {"question": "Which one?"}
        assert settled["data"]["suspension_id"] == waiting["data"]["suspension_id"]
        line = next(line for line in drawn.stdout if line.startswith("settled: "))
        assert line == f"settled: {settled['data']['suspension_id']} of watch-1 by cancellation (ana)\n"
        for process in (as_json, drawn):
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0, process.stderr.read()
