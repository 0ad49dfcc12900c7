"""A turn without an actor: its worker dies or freezes at each numbered step of a guest."""

import os
import signal

import pytest
from fault_stack import WITHIN_S, trapped_stack
from stack_fixture import open_gate

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.steps import Step
from holdfast.client import Status
from holdfast.testing import call, calls

GUEST = [Step.GUEST_1_READ, Step.GUEST_2_WRITTEN]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack(**{GUESTS: "1"}) as found:
        yield found


async def done(conversation, reply="Done."):
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.running:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, reply)


async def warm(stack, client, name):
    """Have a turn done, so that the client knows a worker that lives: the last test may have ended one."""
    text = stack.scenarios.add(f"warm-{name}", "Done.")
    await done(await client.start("till", text, conversation_id=f"warm-{name}"))


@pytest.mark.gate
async def test_a_turn_that_nobody_disturbs_has_no_actor(stack, client, store, oracle):
    await warm(stack, client, "nobody")  # a worker that opens its app takes longer than a guest is waited for
    text = stack.scenarios.add("nobody", calls(call("look", {})), "Done.")
    conversation = await client.start("till", text, conversation_id="nobody")
    open_gate(stack, "nobody")
    await done(conversation)
    await oracle.at_rest("nobody")
    owner = await store.owner("nobody")
    assert (owner.token, owner.actor) == ("", "")
    assert owner.epoch == 4  # the start, the answer with the call, the call's result, the last answer


async def test_a_worker_that_dies_as_a_guest_loses_nothing_and_nothing_is_paid_twice(stack, client, oracle, traps):
    step = Step.GUEST_2_WRITTEN  # an outcome that is judged at once is recorded by the same write
    name = f"died-{step}"
    text = stack.scenarios.add(name, "Done.")
    await warm(stack, client, f"{step}-{len(name)}")
    traps.arm(step, KILL)
    conversation = await client.start("till", text, conversation_id=name)
    await traps.sprung(step)
    await done(conversation)
    await oracle.at_rest(name)
    assert sum(name in str(request.body) for request in stack.model.requests) == 1


@pytest.mark.parametrize("step", GUEST)
async def test_a_worker_that_dies_as_a_guest_between_two_calls_leaves_the_turn_to_an_actor(stack, client, oracle, traps, step):
    name = f"between-{step}"
    text = stack.scenarios.add(name, calls(call("look", {})), "Done.")
    await warm(stack, client, f"{step}-{len(name)}")
    traps.arm(step, KILL)
    conversation = await client.start("till", text, conversation_id=name)
    open_gate(stack, name)
    await traps.sprung(step)
    await done(conversation)
    await oracle.at_rest(name)
    assert len(oracle.bodies(name)) == 1


async def test_a_guest_that_thaws_after_a_cancellation_writes_nothing(stack, client, store, oracle, traps):
    text = stack.scenarios.add("thaws", calls(call("look", {})), "Done.", "Again.")
    await warm(stack, client, "thaws")
    traps.arm(Step.GUEST_1_READ, FREEZE)
    conversation = await client.start("till", text, conversation_id="thaws")
    open_gate(stack, "thaws")
    pid = await traps.frozen(Step.GUEST_1_READ)
    cancelled = await conversation.cancel()  # by an actor, which owns the conversation from then on
    os.kill(pid, signal.SIGCONT)
    assert cancelled.turn_id == "t1"
    await oracle.at_rest("thaws")
    kinds = [event.kind for _, event in await store.read("thaws", after=3)]  # with what was recorded: the owner may take it
    assert kinds[-1] == "turn_cancelled"
    assert len(kinds) == len(set(kinds))
