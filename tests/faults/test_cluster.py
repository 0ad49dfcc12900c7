"""A cluster of two nodes loses one, and its GCS: conversations go on at the other, and with the next."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest
import ray
import two_nodes
from fault_stack import QUICK, WITHIN_S, environment_kept, host_pid, named
from lacking import lacking
from stack_fixture import FAST, RunningStack, Scenarios, gone, open_gate
from two_calls import APP, at_work, ended, waiting_for_two, watched

from holdfast.client import Answer, Approve, AsyncClient
from holdfast.registry import cluster
from holdfast.registry.inventory import processes
from holdfast.registry.ray_actors import RayActors
from holdfast.testing import ModelServer
from holdfast.testing.redis_server import RedisServer, binaries


class TwoNodes:
    """A cluster in a process of its own; `second` is the node that may be lost."""

    def __init__(self, folder, redis_address):
        self.env = two_nodes.environment(folder, redis_address)
        self._process = subprocess.Popen(
            [sys.executable, two_nodes.__file__, str(folder)],
            env={**os.environ, **self.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.address, self.second = self._process.stdout.readline().split()

    async def have(self, done):
        """Have it do something, and return when that is done."""
        self._process.stdin.write(f"{done}\n")
        self._process.stdin.flush()
        assert await asyncio.to_thread(self._process.stdout.readline) == "done\n"

    def end(self):
        self._process.stdin.close()
        self._process.wait(WITHIN_S)
        self._process.stdout.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def pair():
    """A store, a model server, and a cluster of two nodes whose GCS keeps its tables in a Redis of its own."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    port, scenarios = free_port(), Scenarios()
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment_kept())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-", dir="/tmp", ignore_cleanup_errors=True)))
        (folder / "runs").mkdir()
        store = stack.enter_context(RedisServer(appendonly="yes", appendfsync="always"))
        stack.enter_context(RedisServer(port=str(port), bind="127.0.0.1"))
        model = stack.enter_context(ModelServer(script=scenarios))
        os.environ.update(
            FAST
            | QUICK
            | {"HOLDFAST_TEST_RUNS": str(folder / "runs"), "OPENAI_API_BASE": model.url, "OPENAI_API_KEY": "sk-test"}
        )
        nodes = TwoNodes(folder, f"127.0.0.1:{port}")
        stack.callback(nodes.end)
        stack.callback(ray.shutdown)
        os.environ.update(nodes.env)
        os.environ.update({"HOLDFAST_REDIS_URL": store.url, "HOLDFAST_RAY_ADDRESS": nodes.address, "HOLDFAST_PUBLISH": "true"})
        cluster._observe_environment(ray)
        yield RunningStack(home=None, redis_url=store.url, model=model, scenarios=scenarios, runs=folder / "runs"), nodes


async def node_of(store, conversation):
    """The node of the actor that hosts a conversation."""
    holder = named((await store.owner(conversation.id)).holder)
    return await holder.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())


async def test_the_gcs_dies_and_comes_back_and_everything_ends_as_it_would_have(pair):
    stack, nodes = pair
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        running, asked = await at_work(stack, client, oracle, "gcs-running")
        waiting, pay, ask = await waiting_for_two(stack, client, "gcs-waiting")
        await nodes.have("kill the gcs")
        open_gate(stack, running.id)
        open_gate(stack, waiting.id)
        deciding = asyncio.create_task(client.resolve(waiting.id, pay.tool_call_id, Approve(), decision_id="d-1"))
        await nodes.have("start the gcs")
        await oracle.acknowledged(waiting.id, await deciding, by="d-1")
        await ask.resolve(Answer(False))
        await asked.resolve(Answer(False))
        for conversation in (running, waiting):
            await ended(oracle, client, conversation.id)
            assert len(oracle.bodies(conversation.id)) == 1


async def drained(node, *words):
    """What `holdfast drain` of a node said and how it ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "drain", *node, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def on(settings, node):
    return [process for process in processes(settings) if process.node == node]


async def spawned(settings, store):
    """A blank actor, wherever Ray places it."""
    await RayActors(settings, store).spawn(f"{settings.prefix}actor:{uuid.uuid4().hex[:12]}", offer=True)


async def test_a_drained_node_is_left_when_its_runs_are_done_and_nothing_new_comes_there_until_that_is_undone(pair):
    stack, _ = pair
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        running, asked = await at_work(stack, client, oracle, "drain-running")
        settings = client._stack._transport.settings
        (worker,) = [process for process in processes(settings) if process.worker]
        node, (other,) = worker.node, {found["NodeID"] for found in ray.nodes() if found["Alive"]} - {worker.node}
        code, _, said = await drained([node[:12]], "--wait", "1")
        assert (code, "1 runs" in said) == (5, True), said
        code, _, said = await drained([other])
        assert (code, "only node that is not drained" in said) == (2, True), said
        open_gate(stack, running.id)
        await asked.resolve(Answer(False))
        await ended(oracle, client, running.id)
        assert len(oracle.bodies(running.id)) == 1
        code, out, said = await drained([node], "--wait", str(WITHIN_S))
        assert (code, "already" in out) == (0, True), said
        for _ in range(4):
            await spawned(settings, oracle.store)
        conversation, ask = await at_work(stack, client, oracle, "drain-after")
        open_gate(stack, conversation.id)
        await ask.resolve(Answer(False))
        await ended(oracle, client, conversation.id)
        assert on(settings, node) == []
        assert [process.node for process in processes(settings) if process.sweeper] == [other]
        code, out, _ = await drained([node], "--undo")
        assert (code, await oracle.store.withheld()) == (0, {})
        async with asyncio.timeout(WITHIN_S):
            while not on(settings, node):
                await spawned(settings, oracle.store)


async def test_a_node_dies_and_its_conversations_go_on_at_the_other(pair):
    stack, nodes = pair
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        there, asks = [], {}
        for number in range(16):  # Ray places them as it likes
            conversation, ask = await at_work(stack, client, oracle, f"node-{number}")
            asks[conversation] = ask
            there += [conversation] * (await node_of(oracle.store, conversation) == nodes.second)
            if there and len(asks) > 2:
                break
        assert there
        epochs = {conversation.id: (await oracle.store.owner(conversation.id)).epoch for conversation in there}
        hosts = [await host_pid(oracle.store, conversation.id) for conversation in there]
        await nodes.have("kill the second raylet")
        for host in hosts:  # which it takes with it, after a moment in which they would still answer
            await gone(host)
        for conversation, ask in asks.items():
            open_gate(stack, conversation.id)
            receipt = await client.resolve(conversation.id, ask.tool_call_id, Answer(False), decision_id=conversation.id)
            await oracle.acknowledged(conversation.id, receipt, by=conversation.id)
        for conversation in asks:
            await ended(oracle, client, conversation.id)
        for conversation_id, epoch in epochs.items():
            assert (await oracle.store.owner(conversation_id)).epoch > epoch
