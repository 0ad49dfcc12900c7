"""One real stack for all tests of the command line; each command runs as a process of its own, as a user starts it."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import folder_stack
import pytest
from stack_fixture import RunningStack, Scenarios, end_stack, start_stack

from holdfast.cli import app
from holdfast.client import AsyncClient, AsyncConversation
from holdfast.testing import ModelServer, call, calls

HOSTILE = "A1 \x1b[31mred\x1b[0m \x07 [bold]x[/bold] \u202egnp.exe \x9b2J\nnext"
SUPPORT = Path(__file__).parents[2] / "support"


@dataclass
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def hostile() -> str:
    """What a model may write to trick whoever reads it in a terminal."""
    return HOSTILE


@dataclass
class Cli:
    """Runs `holdfast` against the stack."""

    stack: RunningStack
    env: dict[str, str]

    def start(self, *arguments: str, **env: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *arguments],
            env=self.env | env,
            cwd=self.stack.runs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, code: int | None = 0, **env: str) -> Said:
        """Run a command; None as the code accepts any."""
        return self._said(self.start(*arguments, **env), code)

    def shell(self, line: str, code: int | None = 0) -> Said:
        """Run a line as a person pastes it into a shell."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", line], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return self._said(process, code)

    def pending(self, conversation_id: str) -> dict[str, dict[str, Any]]:
        """What waits in a conversation, by tool; read from Redis, without a command."""
        return {call.tool: call.to_dict() for call in self._read(conversation_id, lambda found: found.pending())}

    def rested(self, conversation_id: str) -> Any:
        """The state of a conversation once it rests, and waits for nobody."""
        return self._read(conversation_id, _end)

    def resolve(self, call: dict[str, Any], *decision: str, code: int | None = 0) -> Said:
        return self("resolve", call["suspension_id"], "--conversation", call["conversation_id"], *decision, code=code)

    def file(self, *jobs: Any, name: str = "jobs.jsonl") -> str:
        """A file to submit: a line for each job; text stands as it is."""
        path = self.stack.runs / name
        path.write_text("".join(f"{job if isinstance(job, str) else json.dumps(job)}\n" for job in jobs))
        return str(path)

    def scenario(self, name: str, *answers: Any) -> str:
        return self.stack.scenarios.add(name, *answers)

    def asked(self, text: str) -> int:
        """How many requests have reached the model for conversations that began with this text."""
        return sum(
            next(message["content"] for message in request.body["messages"] if message["role"] == "user") == text
            for request in self.stack.model.requests
        )

    def _read(self, conversation_id: str, read: Callable[[AsyncConversation], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with AsyncClient.connect(home=self.stack.home.path) as client:
                return await asyncio.wait_for(read(client.conversation(conversation_id)), 60)

        return asyncio.run(run())

    def _said(self, process: "subprocess.Popen[str]", code: int | None) -> Said:
        with process:
            out, err = process.communicate(timeout=120)
        said = Said(process.returncode, out, err)
        assert "Traceback" not in err, err
        assert code is None or said.code == code, said
        return said


async def _end(conversation: AsyncConversation) -> Any:
    state = await conversation.wait()
    while state.status == "awaiting_input":
        state = await conversation.wait(after=state.seq)
    return state


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    folder_stack.after(item, nextitem)


@pytest.fixture(scope="session")
def stack(request):
    scenarios = Scenarios()
    before = dict(os.environ)
    with folder_stack.ends_with_folder(request, Path(__file__).parent) as opened:
        running = start_stack(opened.enter_context(ModelServer(script=scenarios)), scenarios)
        opened.callback(shutil.rmtree, running.home.runtime, ignore_errors=True)
        opened.callback(end_stack, running)
        os.environ.clear()
        os.environ.update(before)  # the commands are told in their own environment
        yield running


@pytest.fixture(scope="session")
def cli(stack) -> Cli:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "RAY_", "OPENAI_"))}
    own = {
        "HOLDFAST_APP": "shop_app:app",
        "PYTHONPATH": str(SUPPORT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return Cli(stack, clean | stack.env | own)


@pytest.fixture
def inside(cli, monkeypatch, capsys):
    """Runs a command in this process: quicker, for what does not join Ray."""
    for name, value in cli.env.items():
        monkeypatch.setenv(name, value)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):  # of a stack that this process joined before
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(SUPPORT))

    def run(*arguments: str, code: int | None = 0) -> Said:
        ended = app.run(arguments)
        said = Said(ended, *capsys.readouterr())
        assert code is None or said.code == code, said
        return said

    return run


@pytest.fixture(scope="session")
def waiting(cli) -> str:
    """A conversation that awaits a person for an approval, an answer, and an approval of what a client is to run."""
    hostile = calls(
        call("refund", {"order": HOSTILE, "amount": 42}, id="--approve"),
        call("ask", {"question": "Which\x1b[2J one?"}),
        call("camera", {"mode": "front"}),
    )
    cli.scenario("waiting", hostile, "All done.")
    cli.scenario("edited", call("refund", {"order": "A1", "amount": 42}), "Done.")
    cli.scenario("listed", "Hello.")
    path = cli.file(
        {"agent": "support", "messages": ["waiting \x1b[31m [red]"], "conversation_id": "w-1"},
        {"agent": "support", "messages": ["edited"], "conversation_id": "edited-1"},
        {"agent": "support", "messages": ["listed"], "conversation_id": "listed-1"},
        name="waiting.jsonl",
    )
    said = cli("submit", path, code=5)
    expected = ["edited-1  awaiting_input  1 pending", "listed-1  idle  Hello.", "w-1  awaiting_input  3 pending"]
    assert sorted(said.out.splitlines()) == expected
    return "w-1"
