"""What a conversation owes another one arrives, whichever step a courier dies or freezes at."""

import asyncio
import contextlib
import signal

import pytest
from fault_stack import WITHIN_S, true
from owing import owe_end

from holdfast.actors.steps import Step
from holdfast.actors.workers import Delivered
from holdfast.client import Status
from holdfast.persistence import OutboxState
from holdfast.registry.courier import Courier

OWED = [step for step in Step if step.startswith("owed-")]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


async def started(stack, client, name):
    text = stack.scenarios.add(name, "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.running:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    return conversation


async def ended(conversation):
    async def has_ended():
        return (await conversation.state()).status is Status.ENDED

    await true(has_ended, f"the end of {conversation.id}")


async def emptied(store, within_s=150):
    """Wait until nothing is owed; a lease that somebody died with lasts for 90 s."""
    async with asyncio.timeout(within_s):
        while (await store.outbox(OutboxState.OWED, limit=1)).items:
            await asyncio.sleep(0.1)
    assert (await store.outbox(OutboxState.SET_ASIDE, limit=1)).items == []


@pytest.mark.gate
async def test_what_is_owed_is_delivered_by_the_sweepers_process(stack, client, store, oracle):
    first, second = [await started(stack, client, f"plain-{number}") for number in range(2)]
    await owe_end(store, first.id, second.id)
    await ended(second)
    await emptied(store)
    assert (await first.state()).status is Status.IDLE
    await oracle.at_rest(second.id, status=Status.ENDED)


@pytest.mark.parametrize("step", OWED)
async def test_a_courier_that_dies_loses_nothing(stack, client, store, oracle, traps, step):
    first, second = [await started(stack, client, f"died-{step}-{number}") for number in range(2)]
    traps.arm(step, KILL)
    await owe_end(store, first.id, second.id)
    await traps.sprung(step)
    await emptied(store)
    await ended(second)
    await oracle.at_rest(second.id, status=Status.ENDED)


@contextlib.asynccontextmanager
async def another_courier(store):
    """A courier in this process, which counts what it delivers."""
    told = []

    async def end(to, leased):
        told.append(to)
        return Delivered()

    courier = Courier(store, None, {"end": end})
    task = asyncio.create_task(courier.run())
    yield told
    task.cancel()
    await courier.close()


@pytest.mark.parametrize("step", OWED[:2])
async def test_a_courier_that_thaws_acknowledges_nothing_that_another_has_delivered(stack, client, store, oracle, traps, step):
    first, second, third = [await started(stack, client, f"froze-{step}-{number}") for number in range(3)]
    traps.arm(step, FREEZE)
    await owe_end(store, first.id, second.id)
    pid = await traps.frozen(step)
    async with another_courier(store) as told:
        await emptied(store)
        assert told == [second.id]
    await owe_end(store, first.id, third.id, seq=2)
    traps.thaw(pid)
    await ended(third)
    await emptied(store)
    await ended(second)  # the frozen one's delivery is made, late and harmless
    await oracle.at_rest(second.id, status=Status.ENDED)
