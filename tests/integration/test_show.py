"""`holdfast show` says what runs, since when and how far, and why a turn stopped."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from redis_server import RedisServer
from toy_cipher import ToyCipher
from writer import Writer, begin, call, fail_model, reply, start, suspend

from holdfast.cli import app
from holdfast.conversation.records.event_base import FailureReason
from holdfast.persistence import RedisStore, codec


@pytest.fixture
def server():
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture
async def writer(server):
    store = RedisStore(server.url)
    await store.open()
    yield await Writer.of(store, "c-1")
    await store.close()


def shown(server, *options):
    """What the command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "show", "c-1", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "HOLDFAST_REDIS_URL": server.url, "NO_COLOR": "1"},
    )
    return done.stdout


REPORT = '{"value": 0.5, "message": "half \\u001b[2J", "status": "saving", "loaded": 3, "total": 7.5}'


async def test_show_has_all_messages_or_the_last_ones(server, writer):
    await writer.do(start("first"), begin(), reply("second"))
    whole, last = (json.loads(shown(server, "--json", *more))["messages"] for more in ((), ("--last", "1")))
    assert [message["content"] for message in whole] == ["first", "second"]
    assert last == whole[1:]


async def test_show_draws_a_running_call_with_its_tool_arguments_since_when_and_progress(server, writer):
    await writer.do(start(), begin(), call(("lookup", '{"order": "A\\u001b[31m-7"}')))
    (effect_id,) = writer.effect_ids
    await writer.store.claim("c-1", effect_id, incarnation="i-1", worker="w-1")
    report = codec.pack(["progress", effect_id, 1, await writer.store.now(), REPORT])
    assert await writer.store.keep_progress("c-1", effect_id, report)

    drawn, said = shown(server), json.loads(shown(server, "--json"))

    (running,) = said["running"]
    assert (running["tool"], running["arguments"], running["attempt"]) == ("lookup", '{"order": "A\\u001b[31m-7"}', 1)
    assert running["since"] == writer.state.updated_at
    assert running["progress"]["value"] == 0.5
    assert "Running for" in drawn
    assert "lookup" in drawn
    assert "ago: saving half" in drawn
    assert "3 of 7.5" in drawn
    assert [running["progress"][name] for name in ("status", "loaded", "total")] == ["saving", 3, 7.5]
    assert "\x1b" not in drawn


async def test_show_says_why_the_last_turn_failed(server, writer):
    await writer.do(start(), begin(), fail_model("too slow", reason=FailureReason.MODEL_TIMEOUT))

    assert "The last turn failed (model_timeout): too slow" in shown(server)
    assert json.loads(shown(server, "--json"))["failed"] == "model_timeout"


async def test_show_says_what_cut_the_last_reply_off(server, writer):
    await writer.do(start(), begin(), lambda state: reply("half a")(state).model_copy(update={"finish_reason": "length"}))

    assert "The last reply was cut off: length" in shown(server)
    assert json.loads(shown(server, "--json"))["stopped"] == "length"


@pytest.fixture
def printed(server, monkeypatch, capsys):
    """Runs a command in this process, beside the test's loop: what it prints, and its exit code."""
    monkeypatch.setenv("HOLDFAST_REDIS_URL", server.url)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    async def run(*arguments):
        code = await asyncio.to_thread(app.run, [*arguments])
        return "".join(capsys.readouterr()), code

    return run


async def test_a_shell_without_the_cipher_lists_what_waits_and_is_told_what_it_lacks(server, printed, monkeypatch):
    store = RedisStore(server.url, cipher=ToyCipher())
    await store.open()
    waiting = await Writer.of(store, "c-1")
    await waiting.do(start("I am Marie"), begin(), call(("refund", '{"to":"Marie"}')))
    await store.close()

    assert (await printed("list"))[1] == 0
    blind, code = await printed("pending")
    assert (code, "encrypted" in blind, "HOLDFAST_CIPHER" in blind, "Marie" in blind) == (0, True, True, False)
    said, code = await printed("show", "c-1")
    assert (code, "HOLDFAST_CIPHER" in said, "Traceback" in said) == (2, True, False)
    said, code = await printed("show", "c-1", "--json")
    assert (code, json.loads(said)["error"]) == (2, "CipherMissing")
    monkeypatch.setenv("HOLDFAST_CIPHER", "toy_cipher:cipher")
    for command in (("pending",), ("show", "c-1")):
        said, code = await printed(*command)
        assert (code, "Marie" in said) == (0, True)


async def test_show_has_every_call_whole_however_large_they_are_together(server, writer):
    await writer.do(start(), begin(), call(*["lookup"] * 40))
    for run in [one.effect_id for one in writer.state.calls]:
        await writer.do(suspend(run, report_md="r" * 250_000))

    found = json.loads(await asyncio.to_thread(shown, server, "--json"))

    assert [len(one["report_md"]) for one in found["pending"]] == [250_000] * 40
    assert [one["cut"] for one in found["pending"]] == [{}] * 40
