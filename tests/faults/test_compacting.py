"""A worker dies at each numbered step of the model call that summarises: one summary stands, and no turn is lost."""

import signal

import pytest
from as_guests import done
from fault_stack import WITHIN_S, trapped_stack
from summarising import summaries, summarising

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.steps import Step
from holdfast.client import Status

BEFORE_ANSWER = [Step.MODEL_1_ASKED, Step.MODEL_2_CLAIMED]
UNRECORDED = [Step.MODEL_3_ANSWERED]
RECORDED = [Step.GUEST_2_WRITTEN, Step.MODEL_4_RECORDED]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack(**{GUESTS: "1"}) as found:
        yield found


@pytest.mark.parametrize("step", [*BEFORE_ANSWER, *UNRECORDED, *RECORDED])
async def test_a_worker_that_dies_as_it_summarises_loses_nothing(stack, client, store, oracle, traps, step):
    name = f"summing-{step}"
    conversation, receipt = await summarising(
        stack, client, name, lambda: traps.arm(step, KILL), asked=step not in BEFORE_ANSWER
    )
    await traps.sprung(step)
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply, state.turn_id) == (Status.IDLE, "Done.", "t2")
    events = await oracle.at_rest(name)
    assert [event.effect_id for event in events if event.kind == "compacted"] == ["t2.m1"]
    assert [event.effect_id for event in events if event.kind == "model_answered"] == ["t1.m1", "t2.m1.r1"]
    assert "summary_failed" not in [event.kind for event in events]
    assert summaries(stack, name) == (2 if step in UNRECORDED else 1)
    assert (await conversation.context()).left_out[0].rule == "compacted"
    assert [message["role"] for message in await conversation.messages()] == ["user", "assistant"] * 2


@pytest.mark.parametrize("step", [*BEFORE_ANSWER, *UNRECORDED, Step.MODEL_4_RECORDED])
async def test_a_worker_that_dies_as_it_summarises_by_hand_loses_nothing(stack, client, store, oracle, traps, step):
    # given an idle conversation that is below its threshold
    name = f"by-hand-{step}"
    text = f"{stack.scenarios.add(name, 'Done.', 'Done.')} {'z' * 2400}"
    conversation = await client.start("writer", text, conversation_id=name)
    await done(conversation)
    receipt = await conversation.send("go on")
    await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    before = await oracle.at_rest(name)
    assert summaries(stack, name) == 0
    # when a worker dies while it summarises
    traps.arm(step, KILL)
    receipt = await conversation.compact(request_id="x-1")
    await traps.sprung(step)
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    # then one summary stands, and the last turn is what it was
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    events = await oracle.at_rest(name)
    assert events[: len(before)] == before
    assert [event.kind for event in events[len(before) :]] == ["compaction_requested", "compaction_started", "compacted"]
    assert events[-1].effect_id == f"c{receipt.seq}.m1"
    assert summaries(stack, name) == (2 if step in UNRECORDED else 1)
    assert (await conversation.summary("x-1")).status == "compacted"
    assert (await conversation.compact(request_id="x-1")).seq == receipt.seq


@pytest.mark.parametrize("step", [*BEFORE_ANSWER, *UNRECORDED, *RECORDED])
async def test_a_worker_that_froze_as_it_summarised_and_comes_back_after_a_cancellation_changes_nothing(
    stack, client, store, oracle, traps, step
):
    name = f"frozen-{step}"
    conversation, _ = await summarising(stack, client, name, lambda: traps.arm(step, FREEZE), asked=step not in BEFORE_ANSWER)
    pid = await traps.frozen(step)
    assert (await conversation.cancel()).turn_id == "t2"
    before = await oracle.events(name)
    traps.thaw(pid)
    receipt = await conversation.send("and now?", message_id="m-3")
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    events = await oracle.at_rest(name)
    assert events[: len(before)] == before
    made = "t2.m1" if step in RECORDED else "t3.m1"
    assert [event.effect_id for event in events if event.kind == "compacted"] == [made]
