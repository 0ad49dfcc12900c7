"""An actor that answers nothing any more: it is ended, and what hangs actor after actor is set aside."""

import asyncio
import signal
from pathlib import Path

import pytest
from fault_stack import WITHIN_S, trapped_stack, true
from stack_fixture import eventually

from holdfast.actors.ray_launcher import find
from holdfast.actors.steps import Step
from holdfast.client import Answer, AsyncClient, Status
from holdfast.errors import Quarantined
from holdfast.testing import call, calls


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack(HOLDFAST_STRIKES="2") as found:
        yield found


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_conversation_that_freezes_actor_after_actor_is_set_aside_and_they_are_ended(stack, traps, client, store):
    # given a conversation that waits for an answer
    text = stack.scenarios.add("freezes", calls(call("ask", {"question": "Which?"})), "Thank you.", "And you.", "And you.")
    conversation = await client.start("till", text, conversation_id="freezes-1")
    await conversation.wait(timeout_s=WITHIN_S)
    (pending,) = await conversation.pending()
    # when one message after the other freezes the actor that gets it
    pids, holders = [], []
    for number in range(2):
        holders.append((await store.owner(conversation.id)).actor)
        traps.arm(Step.ASK_1_RECEIVED, signal.SIGSTOP)
        sent = asyncio.create_task(conversation.send(f"message {number}", message_id=f"m-{number}"))
        pids.append(await traps.frozen(Step.ASK_1_RECEIVED))
        receipt = await sent  # by the next one: the frozen one has lost it
    # then both are ended, and counted until they are
    await asyncio.to_thread(eventually, lambda: not any(map(_lives, pids)), WITHIN_S, "that the frozen actors are ended")
    traps._frozen.clear()

    async def uncounted():
        return not set(holders) & set(await store.live())

    await true(uncounted, "that they are not counted any more")
    assert [find(name) for name in holders] == [None, None]
    # and the conversation is in quarantine, with the reason; what was acknowledged before is acknowledged again
    found = await true(lambda: store.quarantine(conversation.id), "that it is in quarantine")
    assert "hang" in found.reason
    assert await conversation.send("message 1", message_id="m-1") == receipt.model_copy(update={"duplicate": True})
    with pytest.raises(Quarantined, match="hang"):
        await pending.resolve(Answer("this one"))
    # until it is told to go on
    assert await conversation.retry()
    async with AsyncClient.connect("fault_app:app", timeout_s=WITHIN_S) as another:
        await another.resolve(pending, Answer("this one"))
        state = await another.conversation(conversation.id).wait(timeout_s=WITHIN_S, after=receipt.seq)
    assert state.status in (Status.IDLE, Status.AWAITING_INPUT)
