"""Ray breaks: a node, the GCS, single calls, or all of it; and a second Ray wants the same store."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import ray
import two_nodes
from fault_stack import QUICK, WITHIN_S, environment_kept, named, trapped_stack
from lacking import lacking
from oracle import Oracle
from stack_fixture import FAST, RunningStack, Scenarios, end_stack, eventually, kill, open_gate, start_stack

from holdfast.client import Answer, Approve, AsyncClient, Status, WrongCluster
from holdfast.persistence import RedisStore
from holdfast.persistence.home import Home
from holdfast.registry import cluster
from holdfast.registry.embedded import ensure_ray, stop_ray
from holdfast.testing import ModelServer, call, calls
from holdfast.testing.redis_server import RedisServer, binaries

APP = "fault_app:app"


@contextlib.asynccontextmanager
async def watched(stack):
    """An oracle over a stack's store."""
    store = RedisStore(stack.redis_url)
    await store.open()
    try:
        yield Oracle(store, stack.runs)
    finally:
        await store.close()


async def waiting_for_two(stack, client, name, tool="pay_by_key"):
    """A conversation that waits for an approval and for an answer."""
    text = stack.scenarios.add(name, calls(call(tool, {}), call("ask", {"question": "?"})), "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    return conversation, *(await conversation.wait(timeout_s=WITHIN_S)).pending


async def at_work(stack, client, oracle, name):
    """A conversation whose call runs for as long as its gate is closed, and which waits for an answer beside."""
    conversation, pay, ask = await waiting_for_two(stack, client, name)
    await pay.resolve(Approve())
    await asyncio.to_thread(eventually, lambda: oracle.bodies(conversation.id), WITHIN_S)
    return conversation, ask


async def ended(oracle, client, conversation_id):
    """The conversation has ended as it would have."""
    conversation = client.conversation(conversation_id)
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.status is not Status.IDLE:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert state.reply == "Done."
    await oracle.at_rest(conversation_id)
    found = [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]
    assert found == [{"ok": True, "result": "pay_by_key is done"}, {"ok": True, "result": False}]


# -- two nodes ----------------------------------------------------------------------------------------------------------


class TwoNodes:
    """A cluster in a process of its own; `second` is the node that may be lost."""

    def __init__(self, folder, redis_address):
        self.env = two_nodes.environment(folder, redis_address)
        self._process = subprocess.Popen(
            [sys.executable, two_nodes.__file__, str(folder)],
            env={**os.environ, **self.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "log").open("w"),
            text=True,
            start_new_session=True,
        )
        try:
            self.address, self.second = self._process.stdout.readline().split()
        except ValueError as error:
            raise RuntimeError((folder / "log").read_text()[-2000:]) from error

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
        os.environ.update({"HOLDFAST_REDIS_URL": store.url, "HOLDFAST_RAY_ADDRESS": nodes.address})
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
        await nodes.have("kill the second raylet")
        for conversation, ask in asks.items():
            open_gate(stack, conversation.id)
            receipt = await client.resolve(conversation.id, ask.tool_call_id, Answer(False), decision_id=conversation.id)
            await oracle.acknowledged(conversation.id, receipt, by=conversation.id)
        for conversation in asks:
            await ended(oracle, client, conversation.id)
        for conversation_id, epoch in epochs.items():
            assert (await oracle.store.owner(conversation_id)).epoch > epoch


# -- the embedded one ---------------------------------------------------------------------------------------------------


@pytest.fixture
def embedded():
    """A stack that this process joins only through its clients."""
    scenarios = Scenarios()
    with environment_kept(), ModelServer(script=scenarios) as model:
        stack = start_stack(model, scenarios, **QUICK)
        yield stack
        end_stack(stack)


async def test_all_of_ray_is_wiped_while_conversations_wait_and_work_and_all_end_with_a_new_one(embedded):
    stack = embedded
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        running, asked = await at_work(stack, client, oracle, "wiped-running")
        waiting, pay, ask = await waiting_for_two(stack, client, "wiped-waiting")
    record = json.loads((stack.home.path / "ray.json").read_text())
    for name in ("gcs_server", "raylet"):
        await kill(record["pids"][name])
    new = await asyncio.to_thread(ensure_ray, stack.home)
    assert new.address != record["address"]
    for conversation in (running, waiting):
        open_gate(stack, conversation.id)
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        for name, shown, decision in (("1", pay, Approve()), ("2", ask, Answer(False)), ("3", asked, Answer(False))):
            receipt = await client.resolve(shown.conversation_id, shown.tool_call_id, decision, decision_id=name)
            await oracle.acknowledged(shown.conversation_id, receipt, by=name)
        for conversation in (running, waiting):
            await ended(oracle, client, conversation.id)
        assert [body["attempt"] for body in oracle.bodies(running.id)] == [1, 2]
        assert len(oracle.bodies(waiting.id)) == 1


async def test_a_second_cluster_is_refused_while_the_first_lives_and_takes_over_when_it_is_gone(embedded, tmp_path):
    stack = embedded
    second = Home.open(tmp_path / "second")
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client:
        waiting, pay, ask = await waiting_for_two(stack, client, "second")
    open_gate(stack, waiting.id)
    os.environ.update({"HOLDFAST_REDIS_URL": stack.redis_url, "HOLDFAST_HOME": str(second.path)})
    try:
        async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client:
            with pytest.raises(WrongCluster):
                await client.resolve(waiting.id, ask.tool_call_id, Answer(False))
        await asyncio.to_thread(stop_ray, stack.home)
        async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
            for name, shown, decision in (("1", pay, Approve()), ("2", ask, Answer(False))):
                receipt = await client.resolve(shown.conversation_id, shown.tool_call_id, decision, decision_id=name)
                await oracle.acknowledged(shown.conversation_id, receipt, by=name)
            await ended(oracle, client, waiting.id)
            assert len(oracle.bodies(waiting.id)) == 1
    finally:
        await asyncio.to_thread(stop_ray, second)


FAILING = {"CoreWorkerService.grpc_client.PushTask": {"num_failures": -1, "req_failure_prob": 5, "resp_failure_prob": 10}}
"""Of the calls between actors, in percent: those that never arrive, and those whose answer is lost."""


async def test_conversations_end_as_they_would_have_while_calls_between_actors_fail_at_random():
    with trapped_stack(RAY_testing_rpc_failure=json.dumps(FAILING)) as (stack, _):
        async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:

            async def held(number):
                conversation, pay, ask = await waiting_for_two(stack, client, f"calls-{number}")
                open_gate(stack, conversation.id)
                for name, shown, decision in (("pay", pay, Approve()), ("ask", ask, Answer(False))):
                    by = f"{conversation.id}-{name}"
                    receipt = await client.resolve(conversation.id, shown.tool_call_id, decision, decision_id=by)
                    await oracle.acknowledged(conversation.id, receipt, by=by)
                await ended(oracle, client, conversation.id)
                assert len(oracle.bodies(conversation.id)) == 1

            await asyncio.gather(*map(held, range(8)))
