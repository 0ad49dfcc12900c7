"""A cluster of two nodes loses one, and its GCS: conversations go on at the other, and with the next."""

import asyncio
import sys
import uuid

import pytest
import ray
from fault_stack import WITHIN_S, named
from ray_cluster import several_nodes
from stack_fixture import gone, open_gate, pid_of
from two_calls import APP, at_work, ended, waiting_for_two, watched

from holdfast.client import Answer, Approve, AsyncClient
from holdfast.registry.inventory import processes
from holdfast.registry.ray_actors import RayActors


@pytest.fixture(scope="module")
def pair():
    """A stack on a cluster of two nodes."""
    with several_nodes(2) as found:
        yield found


async def test_the_gcs_dies_and_comes_back_and_everything_ends_as_it_would_have(pair):
    stack, nodes = pair
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        running, asked = await at_work(stack, client, oracle, "gcs-running")
        waiting, pay, ask = await waiting_for_two(stack, client, "gcs-waiting")
        await nodes.have("kill gcs")
        open_gate(stack, running.id)
        open_gate(stack, waiting.id)
        deciding = asyncio.create_task(client.resolve(pay, Approve(), decision_id="d-1"))
        await nodes.have("start gcs")
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
    """A blank actor, on any node."""
    await RayActors(settings, store).spawn(f"{settings.prefix}actor:{uuid.uuid4().hex[:12]}", offer=True)


async def test_a_drained_node_is_left_when_its_runs_are_done_and_nothing_new_comes_there_until_that_is_undone(pair):
    stack, _ = pair
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        running, asked = await at_work(stack, client, oracle, "drain-running")
        settings = client.gateway.stack._transport.settings
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
        asks = dict([await at_work(stack, client, oracle, f"node-{number}") for number in range(3)])
        settings = client.gateway.stack._transport.settings
        async with asyncio.timeout(WITHIN_S):
            while not (there := [process for process in on(settings, nodes.others[0]) if ":actor:" in process.name]):
                await spawned(settings, oracle.store)
        pids = [await pid_of(named(process.name)) for process in there]
        await nodes.have(f"kill raylet {nodes.others[0]}")
        for pid in pids:  # which it takes with it, after a moment in which they would still answer
            await gone(pid)
        for conversation, ask in asks.items():
            open_gate(stack, conversation.id)
            receipt = await client.resolve(ask, Answer(False), decision_id=conversation.id)
            await oracle.acknowledged(conversation.id, receipt, by=conversation.id)
        for conversation in asks:
            await ended(oracle, client, conversation.id)
