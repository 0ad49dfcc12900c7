"""Starts and words that a courier writes to conversations without an actor: it dies or freezes at each step of that."""

import asyncio
import signal

import pytest
from fault_stack import WITHIN_S, trapped_stack
from stack_fixture import eventually
from trees import Tree, another_courier, emptied, run_leases_out

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.steps import Step
from holdfast.client import Approve

MESSAGE = [Step.MESSAGE_1_READ, Step.MESSAGE_2_WRITTEN]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


@pytest.fixture(scope="module")
def trapped(server):
    with trapped_stack(HOLDFAST_REDIS_URL=server.url, **{GUESTS: "1"}) as found:
        yield found


async def caught(tree, traps, step, kind, number):
    """The courier gets a signal at a step of what it writes of a kind; its process. The root's start was this process's own."""
    if kind == "tell":
        await tree.start()
        pending = await tree.waiting()
        await emptied(tree.store)
        traps.arm(step, number)
        await pending.resolve(Approve())
    else:
        tree.stack.model.hold(times=1)
        try:
            await tree.start()
            await tree.stack.model.held(1, WITHIN_S)
            traps.arm(step, number)
        finally:
            tree.stack.model.release()
    return await (traps.sprung(step) if number == KILL else traps.frozen(step))


async def done(tree, kind):
    if kind == "start":
        await tree.approve()
    await tree.done()


@pytest.fixture
def tree(stack, client, oracle, request):
    return Tree(stack, client, oracle, f"g{request.node.name[-100:]}".translate({ord("["): "-", ord("]"): None}))


@pytest.mark.parametrize("kind", ["start", "tell"])
@pytest.mark.parametrize("step", MESSAGE)
async def test_a_courier_that_dies_as_a_guest_loses_and_repeats_nothing(tree, traps, step, kind):
    await caught(tree, traps, step, kind, KILL)
    await run_leases_out(tree.store)
    await done(tree, kind)


@pytest.mark.parametrize("kind", ["start", "tell"])
@pytest.mark.parametrize("step", MESSAGE)
async def test_a_courier_that_thaws_as_a_guest_after_another_has_delivered_repeats_nothing(client, tree, traps, step, kind):
    pid = await caught(tree, traps, step, kind, FREEZE)
    async with another_courier(client, tree.store) as delivered:
        await run_leases_out(tree.store)
        await asyncio.to_thread(eventually, lambda: kind in delivered, WITHIN_S, f"that another delivers the {kind}")
    traps.thaw(pid)
    await done(tree, kind)
