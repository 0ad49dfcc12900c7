"""What an operator does to a stack that is at work: drains a worker, stops Holdfast on a cluster of one's own."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import ray
from stack_fixture import eventually, open_gate, results, runs_of

from holdfast.actors.ray_launcher import find, named
from holdfast.client import Approve, AsyncClient, ClusterStopped, Status
from holdfast.embedded.local_ray import running_ray
from holdfast.persistence import RedisStore
from holdfast.testing import call, calls

SUPPORT = Path(__file__).parents[1] / "support"
WITHIN_S = 90


async def holdfast(stack, *words, typed=None, **env):
    """What a `holdfast` command said and how it ended."""
    with_env = {**os.environ, **stack.env, **env}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=with_env,
        cwd=SUPPORT,
    )
    out, err = await process.communicate(typed)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.gate
async def test_a_drained_worker_sees_its_run_through_and_its_successor_takes_what_is_new(stack, client, store):
    text = stack.scenarios.add("drain-runs", calls(call("slow", {})), "Done.")
    runs = await client.start("support", text, conversation_id="drain-runs")
    await asyncio.to_thread(eventually, lambda: runs_of(stack, runs.id))
    code, listed, said = await holdfast(stack, "drain", "--json")
    assert (code, said) == (0, "")
    (busy,) = [worker for worker in json.loads(listed)["workers"] if worker["runs"]]
    assert busy["app"] == "shop_app:app"
    (node,) = json.loads(listed)["nodes"]
    assert busy["node"] == node["node"]
    code, table, _ = await holdfast(stack, "drain")
    assert code == 0
    assert busy["worker"] in table

    code, out, said = await holdfast(stack, "drain", busy["worker"], "--wait", "1")
    assert (code, said.splitlines()[0]) == (5, "1 actor left; 1 run and 0 model calls are under way")
    assert "is drained from now on" in out

    text = stack.scenarios.add("drain-new", calls(call("slow", {})), "Hello.")
    new = await client.start("support", text, conversation_id="drain-new")
    await asyncio.to_thread(eventually, lambda: runs_of(stack, new.id))
    (before,), (after,) = runs_of(stack, runs.id), runs_of(stack, new.id)
    assert before["pid"] != after["pid"]
    for conversation in (new, runs):
        open_gate(stack, conversation.id)
        assert (await conversation.wait(timeout_s=WITHIN_S)).status is Status.IDLE
    assert results(await runs.messages()) == [{"ok": True, "result": "slow is done"}]
    assert len(runs_of(stack, runs.id)) == 1
    await asyncio.to_thread(eventually, lambda: busy["name"] not in named(busy["name"]), what="the worker's end")
    code, _, said = await holdfast(stack, "drain", busy["worker"])
    assert (code, "one that has ended counts as drained" in said) == (2, True)


async def test_what_would_leave_nothing_to_run_on_is_refused_in_words(stack, client, store):
    await client.gateway.stack.transport()
    code, _, said = await holdfast(stack, "drain", ray.get_runtime_context().get_node_id()[:10])
    assert (code, "the only node that is not drained" in said) == (2, True), said
    assert await store.withheld() == {}
    code, _, said = await holdfast(stack, "down", "--cluster", "--yes", "holdfast")
    assert (code, "the embedded stack is stopped as a whole" in said) == (2, True), said
    code, _, said = await holdfast(stack, "down", "--yes", "holdfast")
    assert (code, "add --cluster" in said) == (2, True), said


@pytest.fixture
def own_cluster(stack, monkeypatch):
    """The stack's Redis and Ray as a cluster of one's own, and a namespace of its own there."""
    found = running_ray(stack.home)
    env = {
        "HOLDFAST_REDIS_URL": stack.redis_url,
        "HOLDFAST_RAY_ADDRESS": found.address,
        "HOLDFAST_NAMESPACE": "own",
        **found.env,
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.mark.gate
async def test_holdfast_is_stopped_on_a_cluster_of_ones_own_and_goes_on_where_it_was(stack, client, own_cluster):
    await client.gateway.stack.transport()
    beside = {name for name in named(f"holdfast:{client.gateway.stack.settings.namespace}:") if name.endswith("sweeper")}
    assert beside
    waits_text = stack.scenarios.add("down-waits", calls(call("refund", {"order": "A", "amount": 7})), "Refunded.")
    runs_text = stack.scenarios.add("down-runs", calls(call("slow", {})), "Done.")
    store = RedisStore(stack.redis_url, namespace="own")
    await store.open()
    async with AsyncClient.connect("shop_app:app", timeout_s=WITHIN_S, publish=True) as own:
        waits = await own.start("support", waits_text, conversation_id="down-waits")
        (shown,) = (await waits.wait(timeout_s=WITHIN_S)).pending
        runs = await own.start("support", runs_text, conversation_id="down-runs")
        await asyncio.to_thread(eventually, lambda: runs_of(stack, runs.id))
        family = own.gateway.stack._transport.settings.family

        for words, typed in [((), None), (("--yes", "holdfast"), None), ((), b"own\n")]:
            code, out, said = await holdfast(stack, "down", "--cluster", *words, typed=typed, **own_cluster)
            assert (code, out) == (2, "")
            assert "--yes own" in said
        assert "1 run and 0 model calls are under way" in said
        assert await store.withheld() == {}
        assert named(family)

        stopping = asyncio.create_task(
            holdfast(stack, "down", "--cluster", "--yes", "own", "--grace", str(WITHIN_S), **own_cluster)
        )
        async with asyncio.timeout(WITHIN_S):
            while not await store.withheld():
                await asyncio.sleep(0.05)
        open_gate(stack, runs.id)
        code, out, said = await stopping
        assert (code, out.startswith("Stopped Holdfast in own on ")) == (0, True), said
        assert named(family) == []
        assert await store.binding() is None
        assert {name for name in beside if find(name) is not None} == beside  # nothing else was touched
        assert len(runs_of(stack, runs.id)) == 1

        with pytest.raises(ClusterStopped, match="holdfast up"):  # the client that was connected
            await own.resolve(shown, Approve())
        async with AsyncClient.connect("shop_app:app", timeout_s=WITHIN_S) as plain:
            with pytest.raises(ClusterStopped, match="'own'"):
                await plain.resolve(shown, Approve())
            assert [call.conversation_id for call in (await plain.pending()).items] == [waits.id]
        assert named(family) == []
        code, out, _ = await holdfast(stack, "down", "--cluster", "--yes", "own", **own_cluster)
        assert (code, "is stopped already" in out) == (0, True)

        code, out, said = await holdfast(stack, "up", "--app", "shop_app:app", **own_cluster)
        assert code == 0, said
        receipt = await own.resolve(shown, Approve())
        assert (await waits.wait(after=receipt.seq, timeout_s=WITHIN_S)).reply == "Refunded."
        assert (await runs.wait(timeout_s=WITHIN_S)).reply == "Done."
        assert results(await runs.messages()) == [{"ok": True, "result": "slow is done"}]
        assert len(runs_of(stack, runs.id)) == 1
    code, out, said = await holdfast(stack, "down", "--cluster", "--yes", "own", **own_cluster)  # for the tests that follow
    assert code == 0, said
    await store.close()
