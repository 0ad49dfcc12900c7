"""Ray's state is wiped, another Ray wants the same store, calls between actors fail at random."""

import asyncio
import json
import os

import pytest
from fault_stack import QUICK, WITHIN_S, environment_kept, trapped_stack
from stack_fixture import Scenarios, end_stack, kill, open_gate, start_stack
from two_calls import APP, at_work, ended, waiting_for_two, watched

from holdfast.client import Answer, Approve, AsyncClient, WrongCluster
from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import ensure_ray, stop_ray
from holdfast.testing import ModelServer


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
            receipt = await client.resolve(shown, decision, decision_id=name)
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
    second_stack = {"HOLDFAST_REDIS_URL": stack.redis_url, "HOLDFAST_HOME": str(second.path), "HOLDFAST_PUBLISH": "true"}
    os.environ.update(second_stack)
    try:
        async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client:
            with pytest.raises(WrongCluster):
                await client.resolve(ask, Answer(False))
        await asyncio.to_thread(stop_ray, stack.home)
        async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
            for name, shown, decision in (("1", pay, Approve()), ("2", ask, Answer(False))):
                receipt = await client.resolve(shown, decision, decision_id=name)
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
                    receipt = await client.resolve(shown, decision, decision_id=by)
                    await oracle.acknowledged(conversation.id, receipt, by=by)
                await ended(oracle, client, conversation.id)
                assert len(oracle.bodies(conversation.id)) == 1

            await asyncio.gather(*map(held, range(8)))
        logs = (stack.home.runtime / "ray" / "session_latest" / "logs").glob("python-core-*.log")
        assert any("Inject RPC" in log.read_text(errors="replace") for log in logs)  # there were such failures
