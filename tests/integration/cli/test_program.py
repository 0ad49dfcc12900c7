"""A program as a client's handler: what it is given, what its output means, and how it is ended."""

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from holdfast.agent.cancellation import Cancellation
from holdfast.cli import program as module
from holdfast.cli.attach import _until_told_to_end
from holdfast.cli.program import Program, ProgramFailed
from holdfast.client.handlers import ClientContext, decision_of
from holdfast.client.results import PendingCall
from holdfast.errors import InvalidInput

CALL = PendingCall.model_construct(
    conversation_id="c-1", tool_call_id="call_1", suspension_id="s-1", tool="locate", arguments={"name": "Köln"}, created_at=0
)


def context(**more):
    return ClientContext(call=CALL, attempt=2, **more)


def python(script):
    """The command that runs this script."""
    return shlex.join([sys.executable, "-c", script])


async def run(command, arguments=CALL.arguments, **more):
    async with asyncio.timeout(60):
        return await Program(command)(arguments, context(**more))


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("7", 7),
        ('"ü"', "ü"),
        ("found it\n", "found it"),
        ("two\nlines\n", "two\nlines"),
        ("", ""),
        ("NaN", "NaN"),
        ('{"a": 1} {"b": 2}', '{"a": 1} {"b": 2}'),
        ("[" * 200, "[" * 200),
    ],
)
async def test_its_output_is_the_result_as_json_or_else_as_text(output, result):
    assert await run(python(f"import sys; sys.stdout.write({output!r})")) == result


async def test_it_gets_the_arguments_on_its_input_and_is_told_which_call_it_is(monkeypatch):
    for name in ("TOKEN", "LINK_KEYS", "REDIS_URL", "APP_KEY", "OIDC_CLIENT_SECRET", "ATTACHED_KEY"):
        monkeypatch.setenv(f"HOLDFAST_{name}", "hunter22-hunter22")
    monkeypatch.setenv("COLOUR", "blue")
    script = "import json, os, sys; print(json.dumps([json.load(sys.stdin), dict(os.environ)]))"
    arguments, environment = await run(python(script))
    assert arguments == {"name": "Köln"}
    told = {name: value for name, value in environment.items() if name.startswith("HOLDFAST_ATTACHED_")}
    assert told == {
        "HOLDFAST_ATTACHED_CONVERSATION": "c-1",
        "HOLDFAST_ATTACHED_TOOL": "locate",
        "HOLDFAST_ATTACHED_CALL": "call_1",
        "HOLDFAST_ATTACHED_ATTEMPT": "2",
    }
    assert environment["COLOUR"] == "blue"
    assert "hunter22-hunter22" not in json.dumps(environment)


async def test_its_words_are_no_shells():
    assert await run("echo '$HOME; $(id)' '*'") == "$HOME; $(id) *"


async def test_an_exit_code_fails_the_call_with_the_end_of_the_errors():
    script = "import sys; sys.stderr.write('x' * 100_000 + 'no disk'); sys.exit(3)"
    with pytest.raises(ProgramFailed, match=r"it exited with 3: x+no disk") as failed:
        await run(python(script))
    assert len(str(failed.value)) < module.ERRORS_BYTES + 100
    decision = await decision_of(Program(python("raise SystemExit(1)")), context())
    assert decision.error == "ProgramFailed: it exited with 1"


async def test_a_program_that_does_not_read_its_input_is_none_the_worse():
    assert await run("echo done", {"text": "x" * 1_000_000}) == "done"


async def test_output_that_is_not_utf8_fails_the_call():
    with pytest.raises(ProgramFailed, match="its output is not UTF-8"):
        await run(python(r"import sys; sys.stdout.buffer.write(b'\xff')"))


async def test_output_beyond_the_bound_fails_the_call_and_ends_the_program(monkeypatch):
    monkeypatch.setattr(module, "RESULT_BYTES", 100_000)
    with pytest.raises(ProgramFailed, match="its output has more than 100000 bytes"):
        await run("yes")


async def begun(folder):
    """Wait until a program has written its process id."""
    async with asyncio.timeout(60):
        while not (folder / "pid").exists() or not (folder / "pid").read_text().strip():
            await asyncio.sleep(0.01)


async def are_gone(folder, *names):
    """Wait until the processes whose ids these files have are gone."""
    async with asyncio.timeout(20):
        while any(alive(int((folder / name).read_text())) for name in names):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_it_is_ended_with_what_it_has_started_once_nobody_waits(tmp_path, stubborn, monkeypatch):
    monkeypatch.setattr(module, "END_S", 0.5)
    trap = "trap '' TERM; " if stubborn else ""
    below = f"(trap '' TERM; sleep 1000) & echo $! > {tmp_path}/below"
    command = f'sh -c "{trap}{below}; echo $$ > {tmp_path}/pid; wait; sleep 1000"'
    cancellation = Cancellation()
    running = asyncio.create_task(run(command, cancellation=cancellation))
    await begun(tmp_path)
    cancellation.set()
    with pytest.raises(ProgramFailed, match="nobody waits"):
        await running
    await are_gone(tmp_path, "pid", "below")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


async def test_it_is_ended_when_its_handler_is_cancelled(tmp_path):
    running = asyncio.create_task(run(f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000'"))
    await begun(tmp_path)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_what_it_has_left_running_with_its_output_open_is_ended_once_nobody_waits(tmp_path):
    cancellation = Cancellation()
    command = f"sh -c 'sleep 1000 & echo $! > {tmp_path}/pid; exit 0'"
    running = asyncio.create_task(run(command, cancellation=cancellation))
    await begun(tmp_path)
    cancellation.set()
    with pytest.raises(ProgramFailed, match="nobody waits"):
        await running
    await are_gone(tmp_path, "pid")


async def test_it_is_killed_though_its_end_is_cancelled_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "END_S", 1_000)
    running = asyncio.create_task(run(f"sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done'"))
    await begun(tmp_path)
    async with asyncio.timeout(60):
        running.cancel()
        while not running.done():
            await asyncio.sleep(0.05)
            running.cancel()
    await are_gone(tmp_path, "pid")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_that_ends_the_command_lets_it_give_its_calls_back(how):
    ended = []

    async def attached():
        async with _until_told_to_end():
            try:
                os.kill(os.getpid(), how)
                await asyncio.Event().wait()
            finally:
                ended.append("given back")

    before = signal.signal(how, signal.SIG_DFL)  # what has started the tests may ignore it
    try:
        async with asyncio.timeout(20):
            await asyncio.create_task(attached())
    finally:
        signal.signal(how, before)
    assert ended == ["given back"]


@pytest.mark.parametrize("command", ["", "   ", "'open", "no-such-program-anywhere x", "/dev/null"])
def test_a_command_that_is_none_is_refused_at_once(command):
    with pytest.raises(InvalidInput, match="--exec"):
        Program(command)
