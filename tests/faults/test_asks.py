"""A turn that asks whether it may go on: its actor dies at each numbered step of the append that asks, extends or ends it."""

import json
import signal

import pytest
from fault_stack import WITHIN_S, at_ease
from stack_fixture import open_gate

from holdfast.actors.steps import Step
from holdfast.client import Approve, Deny, Status, StopReason, SuspensionKind
from holdfast.testing import call, calls

ASK = [step for step in Step if step.startswith("ask-")]
CAREFUL = calls(call("look", {}), content="This is careful work.")


async def asking(stack, client, name):
    """A conversation whose first answer asks for a call, and its turn whether it may go on; and the question."""
    text = stack.scenarios.add(name, CAREFUL, "Done.")
    conversation = await client.start("careful", text, conversation_id=name)
    state = await conversation.wait(timeout_s=WITHIN_S)
    (question,) = state.pending
    assert question.kind is SuspensionKind.LIMIT
    return conversation, question


async def asked_for(stack, name):
    return sum(name in str(request.body) for request in stack.model.requests)


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_as_the_turn_asks_has_asked_once(stack, client, store, oracle, traps, step):
    name = f"asks-{step}"
    text = stack.scenarios.add(name, CAREFUL, "Done.")
    stack.model.hold(times=1)
    try:
        conversation = await client.start("careful", text, conversation_id=name)
        await stack.model.held(1, WITHIN_S)
        await at_ease(store, name)
        traps.arm(step, signal.SIGKILL)
    finally:
        stack.model.release()
    await traps.sprung(step)

    state = await conversation.wait(timeout_s=WITHIN_S)
    (question,) = state.pending
    assert (state.status, question.tool_call_id) == (Status.AWAITING_INPUT, "t1.content.1")
    assert question.arguments["bound"] == "Stop(content='careful')"
    assert oracle.bodies(name) == []
    open_gate(stack, name)
    receipt = await question.resolve(Approve())
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply, state.stopped) == (Status.IDLE, "Done.", None)
    await oracle.at_rest(name)
    assert await asked_for(stack, name) == 2


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_as_the_turn_is_extended_extends_it_once(stack, client, store, oracle, traps, step):
    conversation, question = await asking(stack, client, f"extends-{step}")
    open_gate(stack, conversation.id)
    await at_ease(store, conversation.id)
    traps.arm(step, signal.SIGKILL)

    receipt = await client.resolve(question, Approve(), decision_id="d-1")

    await traps.sprung(step)
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply, state.stopped) == (Status.IDLE, "Done.", None)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await oracle.at_rest(conversation.id)
    assert len(oracle.bodies(conversation.id)) == 1
    assert await asked_for(stack, conversation.id) == 2


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_as_the_turn_is_denied_calls_neither_model_nor_tool(stack, client, store, oracle, traps, step):
    conversation, question = await asking(stack, client, f"denies-{step}")
    await at_ease(store, conversation.id)
    traps.arm(step, signal.SIGKILL)

    receipt = await client.resolve(question, Deny("enough"), decision_id="d-1")

    await traps.sprung(step)
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.stopped, state.reply) == (Status.IDLE, StopReason.CONTENT, "This is careful work.")
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await oracle.at_rest(conversation.id)
    assert oracle.bodies(conversation.id) == []
    assert await asked_for(stack, conversation.id) == 1
    (result,) = [one for one in await conversation.messages() if one["role"] == "tool"]
    assert "this call did not run" in json.loads(result["content"])["error"]
