"""The embedded Ray or all of the embedded stack dies under living clients: it comes back, and conversations go on."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from stack_fixture import Scenarios, end_stack, eventually, open_gate, runs_of, start_stack

from holdfast.client import AsyncClient, Status
from holdfast.embedded.local_ray import ray_lives, running_ray
from holdfast.embedded.local_redis import running_redis
from holdfast.testing import ModelServer, call, calls


@pytest.fixture(scope="module")
def stack():
    scenarios = Scenarios()
    with ModelServer(script=scenarios) as model:
        running = start_stack(model, scenarios)
        yield running
        end_stack(running)


def kill_ray(stack):
    """End the daemons of the embedded Ray as a crash of the machine's memory does."""
    for pid in json.loads((stack.home.path / "ray.json").read_text())["pids"].values():
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not ray_lives(stack.home), what="the end of Ray")


@pytest.fixture
def python_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))


APPROVES = """
import asyncio, json, os, signal, sys
from pathlib import Path
from holdfast.client import Approve, AsyncClient

async def main():
    async with AsyncClient.connect("shop_app:app", timeout_s=90) as client:
        conversation = await client.start("support", sys.argv[1], conversation_id=sys.argv[2])
        (shown,) = (await conversation.wait(timeout_s=60)).pending
        home = Path(os.environ["HOLDFAST_HOME"])
        for pid in json.loads((home / "ray.json").read_text())["pids"].values():
            os.kill(pid, signal.SIGKILL)
        if "redis" in sys.argv:
            os.kill(int((home / "redis.pid").read_text()), signal.SIGKILL)
        receipt = await shown.resolve(Approve(), decision_id="d-1")
        again = await shown.resolve(Approve(), decision_id="d-1")
        state = await conversation.wait(after=receipt.seq, timeout_s=90)
        print(json.dumps([receipt.seq == again.seq, state.status, state.reply]))

asyncio.run(main())
"""


@pytest.mark.parametrize("also", [pytest.param("ray", marks=pytest.mark.slow), "redis"])
def test_a_living_client_commands_on_after_the_embedded_stack_was_killed(stack, also, python_path):
    text = stack.scenarios.add(f"revived-{also}", calls(call("refund", {"order": "A", "amount": 7})), "Done.")

    with stack.python("-c", APPROVES, text, f"revived-{also}", also) as process:
        out, err = process.communicate(timeout=300)

    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == [True, "idle", "Done."]
    assert [run["kind"] for run in runs_of(stack, f"revived-{also}")] == ["refund"]


@pytest.mark.gate
async def test_a_wait_alone_has_the_ray_that_died_started_again(stack):
    text = stack.scenarios.add("waited", calls(call("slow", {})), "Done.")
    async with AsyncClient.connect("shop_app:app", timeout_s=90) as client:
        conversation = await client.start("support", text, conversation_id="waited")
        await asyncio.to_thread(eventually, lambda: runs_of(stack, "waited"))
    async with AsyncClient.connect(timeout_s=90) as reader:
        waiting = asyncio.create_task(reader.conversation(conversation.id).wait(timeout_s=180))
        await asyncio.to_thread(kill_ray, stack)
        await asyncio.to_thread(eventually, lambda: running_ray(stack.home), 120, "the Ray that only a wait needs")
        open_gate(stack, "waited")

        state = await waiting

    assert (state.status, state.reply) == (Status.IDLE, "Done.")


async def test_when_only_actors_are_left_the_redis_that_died_comes_back_and_deadlines_are_kept(stack):
    text = stack.scenarios.add("deserted", calls(call("ask_briefly", {"question": "?"})), "Done.")
    async with AsyncClient.connect("shop_app:app", timeout_s=90) as client:
        conversation = await client.start("support", text, conversation_id="deserted")
        await conversation.wait(timeout_s=60)
    pid = int((stack.home.path / "redis.pid").read_text())
    os.kill(pid, signal.SIGKILL)

    await asyncio.to_thread(eventually, lambda: running_redis(stack.home), what="the Redis that nobody asked for")
    async with AsyncClient.connect(timeout_s=90) as reader:
        state = await reader.conversation(conversation.id).wait(after=conversation.receipt.seq, timeout_s=60)
        while state.status is Status.AWAITING_INPUT:
            state = await reader.conversation(conversation.id).wait(after=state.seq, timeout_s=60)

    assert (state.status, state.reply) == (Status.IDLE, "Done.")
