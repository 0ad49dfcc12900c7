"""What an answer uses of its agent's day counts once, whichever process dies around the write that records it."""

import asyncio
import signal

import pytest
from fault_stack import WITHIN_S, at_ease

from holdfast.actors.steps import Step
from holdfast.client import FailureReason, Status

KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
AROUND = [Step.MODEL_3_ANSWERED, Step.MODEL_4_RECORDED, Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN]


async def used(oracle, *names):
    """The tokens of the answers in the logs of these conversations."""
    answers = [event for name in names for event in await oracle.events(name) if event.kind == "model_answered"]
    return sum(event.input_tokens + event.output_tokens for event in answers), len(answers)


async def answering(stack, client, store, name, arm):
    """A conversation whose model answers, once the trap is armed."""
    stack.model.hold(times=1)
    try:
        conversation = await client.start("frugal", stack.scenarios.add(name, "Done."), conversation_id=name)
        await stack.model.held(1, WITHIN_S)
        await at_ease(store, name)
        arm()
    finally:
        stack.model.release()
    return conversation


async def replied(conversation, reply="Done."):
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, reply)


@pytest.mark.parametrize("step", AROUND)
async def test_an_answer_counts_once_though_a_process_dies_there(stack, client, store, oracle, traps, step):
    name = f"budget-died-{step}"
    before = (await store.spent("frugal")).spent.tokens
    conversation = await answering(stack, client, store, name, lambda: traps.arm(step, KILL))
    await traps.sprung(step)
    await replied(conversation)
    await oracle.at_rest(name)
    tokens, answers = await used(oracle, name)
    assert answers == 1
    assert (await store.spent("frugal")).spent.tokens - before == tokens > 0


@pytest.mark.parametrize("step", [Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN])
async def test_an_answer_counts_once_though_its_actor_thaws_after_another_has_recorded_it(
    stack, client, store, oracle, traps, step
):
    name = f"budget-froze-{step}"
    before = (await store.spent("frugal")).spent.tokens
    conversation = await answering(stack, client, store, name, lambda: traps.arm(step, FREEZE))
    pid = await traps.frozen(step)
    await replied(conversation)
    traps.thaw(pid)
    await at_ease(store)
    tokens, answers = await used(oracle, name)
    assert answers == 1
    assert (await store.spent("frugal")).spent.tokens - before == tokens > 0


async def test_many_conversations_side_by_side_use_one_budget_and_then_none_begins(stack, client, store, oracle):
    names = [f"budget-side-{number}" for number in range(5)]
    texts = [stack.scenarios.add(name, "Done.", "Done again.") for name in names]
    stack.model.hold(times=len(names))
    try:
        started = [await client.start("tight", text, conversation_id=name) for name, text in zip(names, texts, strict=True)]
        await stack.model.held(len(names), WITHIN_S)
    finally:
        stack.model.release()
    await asyncio.gather(*(replied(one) for one in started))
    tokens, answers = await used(oracle, *names)
    assert answers == len(names)
    assert (await store.spent("tight")).spent.tokens == tokens
    ((row,),) = [one.budgets for one in await client.agents() if one.name == "tight"]
    assert (row.per, row.tokens, row.used_tokens) == ("day", 1, tokens)
    sent = await started[0].send("and now?")
    state = await started[0].wait(after=sent.seq, timeout_s=WITHIN_S)
    assert (state.status, state.failed) == (Status.FAILED, FailureReason.BUDGET_EXCEEDED)
    assert f"the agent has used {tokens} tokens today: it has Budget(tokens=1, per='day'), until " in state.error
    *_, turn = await started[0].turns()
    assert turn.until is not None
    assert turn.until > turn.started_at
