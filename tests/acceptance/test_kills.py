"""kill -9 of each process there is: every conversation finishes with the transcript it would have had."""

import asyncio

import pytest
import ray
from stack_fixture import eventually, host_of, kill, kill_host, open_gate, pid_of, results, runs_of, sweeper_of

from holdfast.actors.actor_settings import RAY_NAMESPACE
from holdfast.actors.ray_launcher import named
from holdfast.client import Answer, Approve, AsyncClient, Fail, Status, SuspensionKind
from holdfast.embedded.local_redis import ensure_redis
from holdfast.testing import call, calls


def actor(name: str):
    return ray.get_actor(name, namespace=RAY_NAMESPACE)


async def until_revived(store, conversation_id: str, epoch: int) -> None:
    async with asyncio.timeout(60):
        while (await store.owner(conversation_id)).epoch == epoch:
            await asyncio.sleep(0.02)


async def until(condition, timeout_s: float = 60):
    return await asyncio.to_thread(eventually, condition, timeout_s)


async def test_twenty_conversations_wait_their_actors_are_killed_and_all_finish(stack, client, store):
    text = stack.scenarios.add("twenty", calls(call("refund", {"order": "A", "amount": 7})), "Done.")
    waiting = []
    for number in range(20):
        conversation = await client.start("support", text, conversation_id=f"twenty-{number}")
        waiting.append((conversation, (await conversation.wait(timeout_s=60)).pending[0]))
    holders = set()
    for conversation, _ in waiting:
        owner = await store.owner(conversation.id)
        holders.add(owner.actor)
    for name in holders - {""}:
        await kill(await pid_of(actor(name)))

    receipts = await asyncio.gather(*(shown.resolve(Approve()) for _, shown in waiting))
    for (conversation, _), receipt in zip(waiting, receipts, strict=True):
        state = await conversation.wait(after=receipt.seq, timeout_s=60)
        assert (state.status, state.reply) == (Status.IDLE, "Done.")
        assert results(await conversation.messages()) == [{"ok": True, "result": "refunded 7 of A"}]
        assert [run["kind"] for run in runs_of(stack, conversation.id)] == ["refund"]


async def test_an_actor_killed_in_the_middle_of_a_model_call_is_revived_without_anyone_asking(stack, client, store):
    text = stack.scenarios.add("model-kill", "Hello.")
    stack.model.hold()
    try:
        conversation = await client.start("support", text, conversation_id="model-kill")
        await stack.model.held(1)
        before = await store.owner(conversation.id)
        await kill_host(store, conversation.id)
        await until_revived(store, conversation.id, before.epoch)
        await stack.model.held(1)  # the revived conversation joins the call in flight
    finally:
        stack.model.release()
    state = await conversation.wait(timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "Hello.")
    assert [message["role"] for message in await conversation.messages()] == ["user", "assistant"]


@pytest.mark.parametrize("tool", ["slow", "slow_refund"])
async def test_promise_6_an_actor_killed_in_the_middle_of_a_run_joins_it_and_the_body_runs_once(stack, client, store, tool):
    text = stack.scenarios.add(f"run-kill-{tool}", calls(call(tool, {})), "Done.")
    conversation = await client.start("support", text, conversation_id=f"run-kill-{tool}")
    if tool == "slow_refund":
        state = await conversation.wait(timeout_s=60)
        await state.pending[0].resolve(Approve())
    await until(lambda: runs_of(stack, conversation.id))
    await kill_host(store, conversation.id)
    await host_of(store, conversation.id)  # another one looks after it, with the run in flight
    open_gate(stack, conversation.id)
    state = await conversation.wait(after=(await store.load(conversation.id)).seq, timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    assert len(runs_of(stack, conversation.id)) == 1
    assert results(await conversation.messages())[0]["ok"] is True


async def test_an_outcome_that_came_while_its_actor_was_dead_is_taken_from_its_record(stack, client, store):
    text = stack.scenarios.add("run-done", calls(call("slow", {})), "Done.")
    conversation = await client.start("support", text, conversation_id="run-done")
    await until(lambda: runs_of(stack, conversation.id))
    (effect_id,) = [f"{run['key']}#1" for run in runs_of(stack, conversation.id)]
    await kill_host(store, conversation.id)
    open_gate(stack, conversation.id)
    state = await conversation.wait(timeout_s=60)
    assert state.reply == "Done."
    assert len(runs_of(stack, conversation.id)) == 1
    assert await store.run(conversation.id, effect_id) is None


async def test_a_worker_killed_in_the_middle_of_an_ungated_run_runs_it_again_with_the_same_key(stack, client):
    text = stack.scenarios.add("worker-kill", calls(call("slow", {})), "Done.")
    conversation = await client.start("support", text, conversation_id="worker-kill")
    (first,) = await until(lambda: runs_of(stack, conversation.id))
    await kill(first["pid"])
    open_gate(stack, conversation.id)
    state = await conversation.wait(timeout_s=90)
    assert state.reply == "Done."
    runs = runs_of(stack, conversation.id)
    assert [(run["key"], run["attempt"]) for run in runs] == [(first["key"], 1), (first["key"], 2)]
    assert await attempts(conversation) == [1, 2]


async def attempts(conversation) -> list[int]:
    found = []
    async for event in conversation.events(live=False):
        if event.kind == "run_scheduled":
            found.append(event.data["attempt"])
        if event.kind == "turn_completed":
            return found
    return found


async def test_a_worker_killed_in_the_middle_of_a_gated_run_is_not_run_again_by_itself(stack, client):
    text = stack.scenarios.add("worker-kill-gated", calls(call("slow_refund", {})), "I do not know.")
    conversation = await client.start("support", text, conversation_id="worker-kill-gated")
    state = await conversation.wait(timeout_s=60)
    receipt = await state.pending[0].resolve(Approve())
    (first,) = await until(lambda: runs_of(stack, conversation.id))
    await kill(first["pid"])
    open_gate(stack, conversation.id)
    state = await conversation.wait(after=receipt.seq, timeout_s=90)
    (lost,) = state.pending
    assert (lost.kind, lost.tool) == (SuspensionKind.LOST, "slow_refund")
    receipt = await lost.resolve(Fail("it never reached the bank"))
    state = await conversation.wait(after=receipt.seq, timeout_s=90)
    assert state.reply == "I do not know."
    assert len(runs_of(stack, conversation.id)) == 1
    assert results(await conversation.messages()) == [{"ok": False, "error": "it never reached the bank"}]


async def test_a_killed_sweeper_comes_back_and_deadlines_are_kept(stack, client, store):
    text = stack.scenarios.add("sweeper-kill", calls(call("ask_briefly", {"question": "?"})), "Never mind.")
    conversation = await client.start("support", text, conversation_id="sweeper-kill")
    sweeper = actor(sweeper_of(store))
    await kill(await pid_of(sweeper))
    state = await conversation.wait(after=6, timeout_s=60)
    while state.status is Status.AWAITING_INPUT:
        state = await conversation.wait(after=state.seq, timeout_s=60)
    assert state.reply == "Never mind."


async def test_a_sweeper_that_ended_for_good_while_no_client_is_connected_is_made_anew_and_deadlines_are_kept(stack, store):
    text = stack.scenarios.add("sweeper-gone", calls(call("ask_briefly", {"question": "?"})), "Never mind.")
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as client:
        await client.gateway.stack.transport()
        sweeper = sweeper_of(store)
        ray.kill(actor(sweeper), no_restart=True)
        await until(lambda: sweeper not in named(sweeper))
        await client.start("support", text, conversation_id="sweeper-gone")
    assert not ray.is_initialized()

    async def acted_on():
        state = await store.load("sweeper-gone")
        return state.status is Status.IDLE and state.last is not None

    async with asyncio.timeout(90):
        while not await acted_on():
            await asyncio.sleep(0.05)
    (last,) = await store.at("sweeper-gone", [(await store.load("sweeper-gone")).last.reply_seq])
    assert last.content == "Never mind."


async def test_promise_5_redis_killed_and_restarted_on_its_files_has_everything_that_was_acknowledged(stack, client, store):
    text = stack.scenarios.add("redis-kill", calls(call("refund", {"order": "A", "amount": 7})), "Done.", "Bye.")
    conversations = [await client.start("support", text, conversation_id=f"redis-kill-{n}") for n in range(5)]
    shown = [(await conversation.wait(timeout_s=60)).pending[0] for conversation in conversations]
    receipts = [await call.resolve(Approve()) for call in shown[:3]]
    await kill(int((await store._redis.info("server"))["process_id"]))
    assert await asyncio.to_thread(ensure_redis, stack.home) == stack.redis_url
    receipts += [await call.resolve(Approve()) for call in shown[3:]]
    for conversation, receipt in zip(conversations, receipts, strict=True):
        state = await conversation.wait(after=receipt.seq, timeout_s=60)
        while not state.reply:
            state = await conversation.wait(after=state.seq, timeout_s=60)
        assert state.reply == "Done."
        kinds = [event.kind for _, event in await store.read(conversation.id, after=0)]
        assert kinds.count("suspension_settled") == 1
        assert (await store.at(conversation.id, [receipt.seq]))[0].kind == "suspension_settled"
        assert len(runs_of(stack, conversation.id)) == 1


async def test_an_answer_revives_a_conversation_whose_actor_was_killed_and_a_later_phase_stays_what_it_is(stack, client, store):
    text = stack.scenarios.add("phases", calls(call("camera", {"mode": "wide"})), "Nice.")
    conversation = await client.start("support", text, conversation_id="phases")
    (approval,) = (await conversation.wait(timeout_s=60)).pending
    receipt = await approval.resolve(Approve())
    (execution,) = (await conversation.wait(after=receipt.seq, timeout_s=60)).pending
    assert (approval.kind, execution.kind) == ("approval", "client_exec")
    await kill_host(store, conversation.id)
    (again,) = await conversation.pending()
    assert again == execution
    receipt = await execution.resolve(Answer("picture"))
    assert (await conversation.wait(after=receipt.seq, timeout_s=60)).reply == "Nice."
    assert results(await conversation.messages()) == [{"ok": True, "result": "picture", "untrusted": True}]
