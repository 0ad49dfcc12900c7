"""In flight without an actor: a process dies or freezes at each numbered step of a model call, and around parking."""

import asyncio
import contextlib
import os
import signal

import pytest
from fault_stack import WITHIN_S, at_ease, full, named, trapped_stack, true
from stack_fixture import kill, open_gate, pid_of

from holdfast.actors.steps import Step
from holdfast.client import Approve, Status
from holdfast.persistence import RunStatus
from holdfast.testing import call

MODEL = [step for step in Step if step.startswith("model-")]
ACTIVATE = [step for step in Step if step.startswith("activate-")]
PASSIVATE = [step for step in Step if step.startswith("passivate-")]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack() as found:
        yield found


@contextlib.asynccontextmanager
async def parked(stack, client, store, name, *answers):
    """A conversation whose model call goes on at a worker, and that no actor hosts; the model answers in the end."""
    text = stack.scenarios.add(name, *(answers or ("Done.",)))
    stack.model.hold(times=1)
    try:
        conversation = await client.start("till", text, conversation_id=name)
        await stack.model.held(1, WITHIN_S)
        await at_ease(store)
        (run,) = await claims(store, name)
        assert run.status is RunStatus.CLAIMED
        yield conversation
    finally:
        stack.model.release()


async def claims(store, conversation_id):
    """The records of a conversation's work."""
    state = await store.load(conversation_id)
    return [await store.run(conversation_id, state.turn.model_effect_id)]


async def done(conversation, reply="Done."):
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, reply)


def requests(stack, name):
    """How often the model was asked for a conversation."""
    return sum(name in str(request.body) for request in stack.model.requests)


async def worker_pid(store, conversation_id):
    (run,) = await claims(store, conversation_id)
    return await pid_of(named(run.worker))


@pytest.mark.parametrize("step", MODEL)
async def test_a_worker_that_dies_in_a_model_call_is_followed_by_another(stack, client, store, oracle, traps, step):
    name = f"died-{step}"
    text = stack.scenarios.add(name, "Done.")
    traps.arm(step, KILL)
    conversation = await client.start("till", text, conversation_id=name)
    await traps.sprung(step)
    await done(conversation)
    await oracle.at_rest(conversation.id)
    assert requests(stack, name) == (2 if step is Step.MODEL_3_ANSWERED else 1)


@pytest.mark.gate
async def test_a_conversation_in_flight_has_no_actor_and_its_answer_is_judged_all_the_same(stack, client, store, oracle):
    async with parked(stack, client, store, "no-actor") as conversation:
        assert (await conversation.state()).status is Status.GENERATING
        assert not (await store.owner(conversation.id)).actor
    await done(conversation)
    await oracle.at_rest(conversation.id)
    assert requests(stack, "no-actor") == 1


@pytest.mark.gate
async def test_a_message_and_a_cancellation_wait_for_no_model(stack, client, store, oracle):
    async with parked(stack, client, store, "asked-meanwhile", "Done.", "Done.") as conversation:
        receipt = await conversation.send("and this?", message_id="m-2")
        assert (await conversation.cancel()).turn_id
        await stack.model.idle(WITHIN_S)  # the stream of the cancelled call is closed, though another actor had it asked
        await done(conversation)
    await oracle.acknowledged(conversation.id, receipt, by="m-2")
    await oracle.at_rest(conversation.id)


@pytest.mark.parametrize("step", PASSIVATE)
async def test_an_actor_that_dies_while_it_parks_a_conversation_costs_no_model_call(stack, client, store, oracle, traps, step):
    name = f"parks-{step}"
    await true(lambda: full(store), "that enough actors are warm")
    await at_ease(store)
    text = stack.scenarios.add(name, "Done.")
    stack.model.hold(times=1)
    try:
        traps.arm(step, KILL)
        conversation = await client.start("till", text, conversation_id=name)
        await stack.model.held(1, WITHIN_S)
        await traps.sprung(step)
    finally:
        stack.model.release()
    await done(conversation)
    await oracle.at_rest(conversation.id)
    assert requests(stack, name) == 1


@pytest.mark.parametrize("step", ACTIVATE)
async def test_an_actor_that_dies_while_it_takes_an_outcome_up_is_followed_by_another(
    stack, client, store, oracle, traps, step
):
    name = f"adopts-{step}"
    async with parked(stack, client, store, name) as conversation:
        traps.arm(step, KILL)
    await traps.sprung(step)
    await done(conversation)
    await oracle.at_rest(conversation.id)
    assert requests(stack, name) == 1


@pytest.mark.gate
async def test_a_worker_that_dies_with_what_it_keeps_is_found_gone_and_the_model_is_asked_again(stack, client, store, oracle):
    async with parked(stack, client, store, "keeper-died") as conversation:
        await kill(await worker_pid(store, conversation.id))
        await done(conversation)
    await oracle.at_rest(conversation.id)
    assert requests(stack, "keeper-died") == 2


async def test_a_worker_that_is_frozen_with_what_it_keeps_holds_up_no_command_and_is_not_taken_for_dead(
    stack, client, store, oracle, traps
):
    async with parked(stack, client, store, "keeper-froze", "Done.", "Done.") as conversation:
        pid = await worker_pid(store, conversation.id)
        os.kill(pid, FREEZE)
        try:
            receipt = await conversation.send("and this?", message_id="m-2")
            await asyncio.sleep(8)  # longer than a lease: it is looked at meanwhile
            (run,) = await claims(store, conversation.id)
            assert run.status is RunStatus.CLAIMED
        finally:
            os.kill(pid, signal.SIGCONT)
    await oracle.acknowledged(conversation.id, receipt, by="m-2")
    await done(conversation)
    await oracle.at_rest(conversation.id)


async def test_a_run_that_takes_long_holds_no_actor_either(stack, client, store, oracle):
    text = stack.scenarios.add("long-run", call("pay_by_key", {}), "Done.")
    conversation = await client.start("till", text, conversation_id="long-run")
    (pay,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    receipt = await pay.resolve(Approve())
    await at_ease(store)
    assert len(oracle.bodies(conversation.id)) == 1
    open_gate(stack, conversation.id)
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    await oracle.at_rest(conversation.id)
    assert len(oracle.bodies(conversation.id)) == 1
