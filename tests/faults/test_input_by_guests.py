"""Messages that steer, are delayed or interrupt: clients and the sweeper write as guests, and die or freeze at each step."""

import signal
from datetime import UTC, datetime

import pytest
from as_guests import asked, done, ended, messages, resting, sending
from fault_stack import trapped_stack, true
from stack_fixture import open_gate

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.steps import Step
from holdfast.client import MessageStatus, NotQueued, Status
from holdfast.testing import call, calls

MESSAGE = [Step.MESSAGE_1_READ, Step.MESSAGE_2_WRITTEN]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
FAILED = 1
"""The exit code of `holdfast send` if the message is refused since a turn goes on."""
SOON_S = 20
"""In how many seconds a message is due that another process sends: a program takes some to start."""


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack(**{GUESTS: "1"}) as found:
        yield found


async def later(store, seconds):
    """The time in so many seconds."""
    return datetime.fromtimestamp((await store.now()) / 1000 + seconds, UTC).isoformat()


async def rests(conversation, oracle):
    """Wait until nothing of a conversation goes on or waits for its turn; its log."""

    async def idle():
        if await conversation.queue():
            return False
        state = await conversation.state()
        return state.status is Status.IDLE and not state.running

    await true(idle, f"that {conversation.id} rests")
    return await oracle.at_rest(conversation.id)


# -- clients ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["steer", "reject"])
@pytest.mark.parametrize("step", MESSAGE)
async def test_a_message_that_finds_no_turn_and_whose_client_dies_begins_one_turn(
    stack, client, store, oracle, traps, step, when
):
    name = f"{when}-{step}"
    conversation = await resting(stack, client, name, "Again.")
    traps.arm(step, KILL)
    assert await ended(sending(stack, name, "m-2", "--when", when)) == -KILL
    written = step == Step.MESSAGE_2_WRITTEN
    assert await messages(store, name) == (["m-2"] if written else [])
    if written:
        await done(conversation, "Again.")
    receipt = await conversation.send("m-2", message_id="m-2", when=when)
    assert receipt.duplicate is written
    await rests(conversation, oracle)
    await oracle.acknowledged(name, receipt, by="m-2")
    assert ((await conversation.message("m-2")).reply, asked(stack, name)) == ("Again.", 2)


@pytest.mark.parametrize("step", MESSAGE)
async def test_a_delayed_message_whose_client_dies_is_answered_once_at_its_time(stack, client, store, oracle, traps, step):
    name = f"at-{step}"
    conversation = await resting(stack, client, name, "Again.")
    at = await later(store, SOON_S)
    traps.arm(step, KILL)
    assert await ended(sending(stack, name, "m-2", "--at", at)) == -KILL
    receipt = await conversation.send("m-2", message_id="m-2", at=at)
    assert receipt.duplicate is (step == Step.MESSAGE_2_WRITTEN)
    events = await rests(conversation, oracle)
    assert [event.kind for event in events].count("input_due") == 1
    assert ((await conversation.message("m-2")).reply, asked(stack, name)) == ("Again.", 2)


async def overtaken(stack, client, traps, name, *options):
    """A conversation whose second turn began while a message to it stood still, which found none; the two processes."""
    conversation = await resting(stack, client, name, calls(call("look", {})), "Looked.")
    traps.arm(Step.MESSAGE_1_READ, FREEZE)
    process = sending(stack, name, "x-1", *options)
    pid = await traps.frozen(Step.MESSAGE_1_READ)
    await conversation.send("m-2", message_id="m-2")
    await true(lambda: _runs(conversation), f"that a call of {name} runs")
    return conversation, process, pid


async def _runs(conversation):
    return (await conversation.state()).running


async def test_a_steered_message_that_thaws_in_a_turn_that_began_meanwhile_joins_it(stack, client, oracle, traps):
    conversation, process, pid = await overtaken(stack, client, traps, "joins", "--when", "steer")
    traps.thaw(pid)
    assert await ended(process) == 0
    open_gate(stack, "joins")
    events = await rests(conversation, oracle)
    assert [event.kind for event in events].count("input_joined") == 1
    assert [one["role"] for one in await conversation.messages()] == [
        *["user", "assistant"],
        *["user", "assistant", "tool", "user", "assistant"],
    ]
    told = await conversation.message("x-1")
    assert (told.status, told.turn_id, told.reply) == (MessageStatus.COMPLETED, "t2", "Looked.")
    assert asked(stack, "joins") == 3


async def test_a_message_that_only_a_resting_conversation_takes_is_refused_when_it_thaws_in_a_turn(
    stack, client, store, oracle, traps
):
    conversation, process, pid = await overtaken(stack, client, traps, "refused", "--when", "reject")
    traps.thaw(pid)
    assert await ended(process) == FAILED
    open_gate(stack, "refused")
    await rests(conversation, oracle)
    assert await messages(store, "refused") == ["m-2"]
    assert asked(stack, "refused") == 3


@pytest.mark.parametrize("number", [KILL, FREEZE])
async def test_an_interruption_of_a_turn_whose_client_has_told_no_worker_is_answered_instead(
    stack, client, oracle, traps, number
):
    name = f"untold-{number.name}"
    conversation = await resting(stack, client, name, "Instead.")
    traps.arm(Step.MESSAGE_2_WRITTEN, number)
    process = sending(stack, name, "m-2")
    pid = await (traps.sprung if number == KILL else traps.frozen)(Step.MESSAGE_2_WRITTEN)
    given = await conversation.interrupt("stop", request_id="x-1")
    assert given.turn_id == "t2"
    if number == FREEZE:
        await done(conversation, "Instead.")
        traps.thaw(pid)
    assert await ended(process) == (0 if number == FREEZE else -KILL)
    await rests(conversation, oracle)
    found = {one: (await conversation.message(one)).status for one in ("m-2", "x-1")}
    assert found == {"m-2": MessageStatus.CANCELLED, "x-1": MessageStatus.COMPLETED}
    assert (await conversation.interrupt("stop", request_id="x-1")).duplicate
    assert [one["content"] for one in await conversation.messages()][-2:] == ["stop", "Instead."]


# -- the sweeper -----------------------------------------------------------------------------------------------------------


async def found_due(stack, client, store, traps, name, step, number, *answers):
    """A conversation whose delayed message is due, and whose sweeper dies or stands still at a step of that; its process."""
    conversation = await resting(stack, client, name, *answers)
    await conversation.send("later", message_id="d-1", at=await store.now() + 3_000)
    traps.arm(step, number)
    return conversation, await (traps.sprung if number == KILL else traps.frozen)(step)


@pytest.mark.parametrize("step", MESSAGE)
async def test_a_due_message_whose_sweeper_thaws_late_is_either_withdrawn_or_answered(
    stack, client, store, oracle, traps, step
):
    name = f"late-{step}"
    conversation, pid = await found_due(stack, client, store, traps, name, step, FREEZE, "Again.")
    try:
        await conversation.withdraw("d-1", request_id="x-1")
        status, times = MessageStatus.WITHDRAWN, 1
    except NotQueued:
        status, times = MessageStatus.COMPLETED, 2
        await done(conversation, "Again.")
    assert step == Step.MESSAGE_1_READ or times == 2, "its turn had begun"
    traps.thaw(pid)
    await rests(conversation, oracle)
    assert ((await conversation.message("d-1")).status, asked(stack, name)) == (status, times)


@pytest.mark.parametrize("number", [KILL, FREEZE])
async def test_a_message_steers_a_turn_whose_sweeper_has_told_no_worker(stack, client, store, oracle, traps, number):
    name, step = f"steers-{number.name}", Step.MESSAGE_2_WRITTEN
    conversation, pid = await found_due(stack, client, store, traps, name, step, number, "Again.", "And again.")
    given = await conversation.send("look twice", when="steer", message_id="x-1")
    if number == FREEZE:
        await done(conversation, "And again.")
        traps.thaw(pid)
    events = await rests(conversation, oracle)
    await oracle.acknowledged(name, given, by="x-1")
    found = [(await conversation.message(one)).turn_id for one in ("d-1", "x-1")]
    assert found == ["t2", "t2"]
    kinds = [event.kind for event in events]
    assert (kinds.count("input_due"), kinds.count("input_joined")) == (1, 1)
    assert asked(stack, name) == 3


@pytest.mark.parametrize("number", [KILL, FREEZE])
@pytest.mark.parametrize("step", MESSAGE)
async def test_an_interruption_while_a_sweeper_does_what_is_due_is_answered_and_loses_no_message(
    stack, client, store, oracle, traps, step, number
):
    name = f"stops-{step}-{number.name}"
    conversation, pid = await found_due(stack, client, store, traps, name, step, number, "Again.", "And again.")
    given = await conversation.interrupt("stop", request_id="x-1")
    if number == FREEZE:
        await true(lambda: _answered(conversation, "x-1"), "that the interruption is answered")
        traps.thaw(pid)
    events = await rests(conversation, oracle)
    assert (await conversation.interrupt("stop", request_id="x-1")) == given.model_copy(update={"duplicate": True})
    assert await _answered(conversation, "x-1")
    became = (await conversation.message("d-1")).status
    assert became is (MessageStatus.CANCELLED if given.turn_id else MessageStatus.COMPLETED)
    assert given.turn_id == ("t2" if step == Step.MESSAGE_2_WRITTEN else None)
    kinds = [event.kind for event in events]
    assert (kinds.count("input_due"), kinds.count("input_superseded"), kinds.count("turn_started")) == (1, 1, 3)


async def _answered(conversation, message):
    return (await conversation.message(message)).status is MessageStatus.COMPLETED
