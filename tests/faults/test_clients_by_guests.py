"""Clients that are gone, where the sweeper does what is due as a guest: it dies or freezes at each step of that."""

import signal

import pytest
from at_clients import Waiting, present, taken_over
from fault_stack import at_ease, trapped_stack

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.steps import Step

MESSAGE = [Step.MESSAGE_1_READ, Step.MESSAGE_2_WRITTEN]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


@pytest.fixture(scope="module")
def trapped(server):
    with trapped_stack(HOLDFAST_REDIS_URL=server.url, **{GUESTS: "1"}) as found:
        yield found


@pytest.fixture
def waiting(stack, client, oracle, request):
    """The conversation of this test."""
    name = f"g{request.node.name[-60:]}".translate({ord("["): "-", ord("]"): None})
    return Waiting(stack, client, oracle, name)


@pytest.mark.parametrize("step", MESSAGE)
async def test_a_sweeper_that_dies_as_it_gives_a_call_back_has_it_given_back_once(waiting, store, traps, step):
    async with present(waiting):
        await at_ease(store)
        traps.arm(step, KILL)
    await traps.sprung(step)
    await taken_over(waiting)


@pytest.mark.parametrize("step", MESSAGE)
async def test_a_sweeper_that_dies_as_a_client_has_left_cancels_its_claim_once(waiting, store, traps, step):
    async with present(waiting, on_detach="cancel"):
        await at_ease(store)
        traps.arm(step, KILL)
    await traps.sprung(step)
    events = await waiting.ends(result="may or may not have taken effect")
    assert [event.by for event in events if event.kind == "suspension_settled"] == ["cancellation"]


async def test_a_sweeper_that_thaws_after_its_client_has_answered_gives_nothing_back(waiting, store, traps):
    """The client came back too late to be present, and in time to answer."""
    async with present(waiting):
        await at_ease(store)
        traps.arm(Step.MESSAGE_1_READ, FREEZE)
    pid = await traps.frozen(Step.MESSAGE_1_READ)
    given = await waiting.answer(key="y-1")
    traps.thaw(pid)
    events = await waiting.ends(result='"tab-1"')
    assert "call_given_back" not in [event.kind for event in events]
    await waiting.oracle.acknowledged(waiting.name, given, by="y-1")


async def test_a_sweeper_that_thaws_after_another_client_has_the_call_changes_nothing(waiting, store, traps):
    async with present(waiting):
        await at_ease(store)
        traps.arm(Step.MESSAGE_2_WRITTEN, FREEZE)
    pid = await traps.frozen(Step.MESSAGE_2_WRITTEN)
    before = await taken_over(waiting)
    traps.thaw(pid)
    assert await waiting.oracle.events(waiting.name) == before
