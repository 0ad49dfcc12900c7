"""An actor dies or freezes around the append that records a summary: one summary stands, and its turn goes on."""

import signal

import pytest
from fault_stack import WITHIN_S, at_ease
from summarising import summaries, summarising

from holdfast.actors.steps import Step
from holdfast.client import Status

STEPS = [Step.ASK_1_RECEIVED, Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


async def summarised_once(stack, conversation, oracle):
    """Wait until the second turn is over; one summary stands, which the model was asked for once."""
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.status, state.reply, state.turn_id) == (Status.IDLE, "Done.", "t2")
    events = await oracle.at_rest(conversation.id)
    assert [event.effect_id for event in events if event.kind == "compacted"] == ["t2.m1"]
    assert [event.effect_id for event in events if event.kind == "model_answered"] == ["t1.m1", "t2.m1.r1"]
    assert summaries(stack, conversation.id) == 1
    return events


@pytest.mark.parametrize("step", STEPS)
async def test_a_summary_is_recorded_once_though_its_actor_dies(stack, client, store, oracle, traps, step):
    conversation, _ = await summarising(stack, client, f"recording-{step}", lambda: traps.arm(step, KILL), store=store)
    await traps.sprung(step)
    await summarised_once(stack, conversation, oracle)


@pytest.mark.parametrize("step", STEPS)
async def test_a_summary_is_recorded_once_though_its_actor_thaws_behind_another(stack, client, store, oracle, traps, step):
    conversation, _ = await summarising(stack, client, f"thawing-{step}", lambda: traps.arm(step, FREEZE), store=store)
    pid = await traps.frozen(step)
    events = await summarised_once(stack, conversation, oracle)
    traps.thaw(pid)
    await at_ease(store)
    assert await oracle.events(conversation.id) == events
