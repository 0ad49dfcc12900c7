"""A turn without an actor: a worker, a client or the sweeper dies or freezes at each numbered step of a guest."""

import os
import signal

import pytest
from as_guests import done, ended, messages, resting, sending, warm
from fault_stack import WITHIN_S, trapped_stack
from stack_fixture import open_gate

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.steps import Step
from holdfast.testing import call, calls

GUEST = [Step.GUEST_1_READ, Step.GUEST_2_WRITTEN]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack(**{GUESTS: "1"}) as found:
        yield found


@pytest.mark.gate
async def test_a_turn_that_nobody_disturbs_has_no_actor(stack, client, store, oracle):
    await warm(stack, client)  # a worker that opens its app takes longer than a guest is waited for
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
    await warm(stack, client)
    traps.arm(step, KILL)
    conversation = await client.start("till", text, conversation_id=name)
    await traps.sprung(step)
    await done(conversation)
    await oracle.at_rest(name)
    assert sum(name in str(request.body) for request in stack.model.requests) == 1


@pytest.mark.parametrize("step", GUEST)
async def test_a_worker_that_dies_as_a_guest_between_two_calls_leaves_the_turn_to_an_actor(stack, client, oracle, traps, step):
    name = f"between-{step}"
    looks = 2 if step == Step.GUEST_1_READ else 1  # a run that is alone outstanding is judged without being read about
    text = stack.scenarios.add(name, calls(*[call("look", {})] * looks), "Done.")
    await warm(stack, client)
    traps.arm(step, KILL)
    conversation = await client.start("till", text, conversation_id=name)
    open_gate(stack, name)
    await traps.sprung(step)
    await done(conversation)
    await oracle.at_rest(name)
    assert len(oracle.bodies(name)) == looks


async def test_a_guest_that_thaws_after_a_cancellation_writes_nothing(stack, client, store, oracle, traps):
    text = stack.scenarios.add("thaws", calls(call("look", {}), call("look", {})), "Done.", "Again.")
    await warm(stack, client)
    traps.arm(Step.GUEST_1_READ, FREEZE)
    conversation = await client.start("till", text, conversation_id="thaws")
    open_gate(stack, "thaws")
    pid = await traps.frozen(Step.GUEST_1_READ)
    cancelled = await conversation.cancel()  # by an actor, which owns the conversation from then on
    os.kill(pid, signal.SIGCONT)
    assert cancelled.turn_id == "t1"
    await oracle.at_rest("thaws")
    events = [event for _, event in await store.read("thaws", after=3)]  # with what was recorded: the owner may take it
    assert events[-1].kind == "turn_cancelled"
    resolved = [event.tool_call_id for event in events if event.kind == "call_resolved"]
    assert len(resolved) == len(set(resolved))


# -- clients ---------------------------------------------------------------------------------------------------------------


async def test_a_client_that_dies_before_it_writes_a_message_has_sent_nothing(stack, client, store, oracle, traps):
    conversation = await resting(stack, client, "unsent", "Again.")
    traps.arm(Step.MESSAGE_1_READ, KILL)
    assert await ended(sending(stack, "unsent", "m-2")) == -KILL
    assert await messages(store, "unsent") == []
    assert await ended(sending(stack, "unsent", "m-2")) == 0
    await done(conversation, "Again.")
    await oracle.at_rest("unsent")


async def test_a_message_whose_client_died_is_answered_and_its_repetition_has_the_same_receipt(
    stack, client, store, oracle, traps
):
    conversation = await resting(stack, client, "unheard", "Again.")
    traps.arm(Step.MESSAGE_2_WRITTEN, KILL)
    assert await ended(sending(stack, "unheard", "m-2")) == -KILL
    assert (await store.owner("unheard")).token == ""
    await done(conversation, "Again.")
    receipt = await conversation.send("m-2", message_id="m-2")
    assert receipt.duplicate
    await oracle.acknowledged("unheard", receipt, by="m-2")
    await oracle.at_rest("unheard")
    asked = [str(request.body) for request in stack.model.requests]
    assert sum("unheard" in body and "m-2" in body for body in asked) == 1


async def test_a_client_that_thaws_after_another_message_reads_again(stack, client, store, oracle, traps):
    conversation = await resting(stack, client, "overtaken", "Again.", "At last.")
    traps.arm(Step.MESSAGE_1_READ, FREEZE)
    process = sending(stack, "overtaken", "m-3")
    pid = await traps.frozen(Step.MESSAGE_1_READ)
    await conversation.send("m-2", message_id="m-2")
    await done(conversation, "Again.")
    traps.thaw(pid)
    assert await ended(process) == 0
    await done(conversation, "At last.")
    await oracle.at_rest("overtaken")
    assert await messages(store, "overtaken") == ["m-2", "m-3"]
    owner = await store.owner("overtaken")
    assert (owner.token, owner.epoch) == ("", 6)  # three turns, each by two guests


# -- the sweeper -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [Step.MESSAGE_1_READ, Step.MESSAGE_2_WRITTEN])
async def test_a_sweeper_that_dies_as_it_does_what_is_due_is_followed_by_another(stack, client, store, oracle, traps, step):
    name = f"due-{step}"
    conversation = await resting(stack, client, name, "Again.")
    await conversation.send("later", message_id="m-2", at=await store.now() + 3_000)
    traps.arm(step, KILL)
    await traps.sprung(step)
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.reply != "Again.":
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    await oracle.at_rest(name)
    kinds = [event.kind for _, event in await store.read(name, after=3)]
    assert (kinds.count("input_due"), kinds.count("turn_started")) == (1, 1)
    assert sum(name in str(request.body) and "later" in str(request.body) for request in stack.model.requests) == 1
