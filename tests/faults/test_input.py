"""Messages that steer, interrupt, are withdrawn or become due: an actor, a client, the sweeper or Redis dies or freezes."""

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta

import pytest
from as_guests import asked
from fault_stack import WITHIN_S, at_ease, named, trapped_stack, true
from stack_fixture import eventually, kill, open_gate, pid_of, sweeper_of

from holdfast.actors.steps import Step
from holdfast.client import MessageStatus, NotQueued, Status
from holdfast.testing import call, calls

ASK = [step for step in Step if step.startswith("ask-")]
APPEND = [Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN]
ACTIVATE = [step for step in Step if step.startswith("activate-")]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
LEASE_S = 3
TURN_OF_A_CALL = ["user", "assistant", "tool", "assistant"]
STEERED = ["user", "assistant", "tool", "user", "assistant"]


@pytest.fixture(scope="module")
def trapped(server):
    with trapped_stack(HOLDFAST_REDIS_URL=server.url) as found:
        yield found


class Busy:
    """A conversation in whose first turn a call runs until its gate opens, with a message behind it in the queue."""

    def __init__(self, stack, client, oracle, name):
        self.stack, self.client, self.oracle, self.name = stack, client, oracle, name

    async def begin(self):
        """Bring the conversation there."""
        text = self.stack.scenarios.add(self.name, calls(call("look", {})), "One.", "Two.", "Three.")
        self.conversation = await self.client.start("till", text, conversation_id=self.name, message_id="m-1")
        await asyncio.to_thread(eventually, lambda: self.oracle.bodies(self.name), WITHIN_S, "that the call runs")
        await self.conversation.send("and then", message_id="m-2")

    async def steer(self):
        """Send a message that joins the turn; its receipt."""
        return await self.conversation.send("look twice", when="steer", message_id="x-1")

    async def interrupt(self):
        """Interrupt the turn with a text; what that did."""
        return await self.conversation.interrupt("stop", request_id="x-1")

    async def withdraw(self):
        """Withdraw the message behind the turn; the receipt."""
        return await self.conversation.withdraw("m-2", request_id="x-1")

    async def ended(self, way, given):
        """Check that everything was done once, and that each message says what became of it; the log."""
        open_gate(self.stack, self.name)
        again = await getattr(self, way)()
        assert again == given.model_copy(update={"duplicate": True})
        await rests(self.conversation)
        events = await self.oracle.at_rest(self.name)
        if way != "interrupt":  # whose message has its id, too
            await self.oracle.acknowledged(self.name, given, by="x-1")
        roles, became = {
            "steer": ([*STEERED, "user", "assistant"], {"m-1": "t1", "x-1": "t1", "m-2": "t2"}),
            "interrupt": (STEERED, {"m-1": "t1", "x-1": "t2", "m-2": "superseded"}),
            "withdraw": (TURN_OF_A_CALL, {"m-1": "t1", "m-2": "withdrawn"}),
        }[way]
        messages = await self.conversation.messages()
        assert [message["role"] for message in messages] == roles
        found = {name: await self.conversation.message(name) for name in became}
        assert {name: one.turn_id or one.status for name, one in found.items()} == became
        assert asked(self.stack, self.name) == roles.count("assistant")
        assert len(self.oracle.bodies(self.name)) == 1
        return events


@pytest.fixture
async def busy(stack, client, oracle, request):
    """The busy conversation of this test."""
    found = Busy(stack, client, oracle, f"b{request.node.name[-50:]}".translate({ord("["): "-", ord("]"): None}))
    await found.begin()
    return found


async def rests(conversation):
    """Wait until nothing of a conversation goes on or waits for its turn."""

    async def idle():
        if await conversation.queue():  # which comes first: what it has may be taken up before the state is read
            return False
        state = await conversation.state()
        return state.status is Status.IDLE and not state.running

    await true(idle, f"that {conversation.id} rests")


WAYS = ["steer", "interrupt", "withdraw"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_input_does_it_once(busy, store, traps, step, way):
    await at_ease(store, busy.name)
    traps.arm(step, KILL)
    given = await getattr(busy, way)()
    await traps.sprung(step)
    await busy.ended(way, given)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", APPEND)
async def test_an_actor_that_thaws_after_another_has_judged_the_input_changes_nothing(busy, store, traps, step, way):
    await at_ease(store, busy.name)
    traps.arm(step, FREEZE)
    given = asyncio.create_task(getattr(busy, way)())
    pid = await traps.frozen(step)
    before = await busy.ended(way, await given)
    traps.thaw(pid)
    await at_ease(store)
    assert await busy.oracle.events(busy.name) == before


# -- what becomes due -----------------------------------------------------------------------------------------------------


async def due_at_once(stack, client, name):
    """A conversation whose question ends, whose message becomes due and whose turn another one joins in the same moment."""
    question = call("ask_briefly", {"question": "Which?"})
    conversation = await client.start("till", stack.scenarios.add(name, question, "One.", "Two."), conversation_id=name)
    (pending,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    await conversation.send("look twice", when="steer", message_id="s-1")
    await conversation.send("later", at=pending.expires_at, message_id="d-1")
    return conversation


async def all_three_happened(stack, oracle, conversation):
    """Check that one append did all of it, once; the log."""
    await rests(conversation)
    events = await oracle.at_rest(conversation.id)
    kinds = [event.kind for event in events]
    due = kinds.index("input_due")
    assert kinds[due : due + 4] == ["input_due", "suspension_settled", "call_resolved", "input_joined"]
    assert len({event.at for event in events[due : due + 4]}) == 1
    assert kinds.count("input_due") == kinds.count("input_joined") == kinds.count("suspension_settled") == 1
    messages = await conversation.messages()
    assert [message["role"] for message in messages] == [*STEERED, "user", "assistant"]
    assert "did not respond" in json.loads(messages[2]["content"])["error"]
    steered, delayed = [await conversation.message(name) for name in ("s-1", "d-1")]
    assert [(one.status, one.turn_id, one.reply) for one in (steered, delayed)] == [
        (MessageStatus.COMPLETED, "t1", "One."),
        (MessageStatus.COMPLETED, "t2", "Two."),
    ]
    assert asked(stack, conversation.id) == 3
    return events


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_in_the_append_of_three_does_all_of_them_once(stack, client, store, oracle, traps, step):
    conversation = await due_at_once(stack, client, f"three-{step}")
    traps.arm(step, KILL)
    await traps.sprung(step)
    await all_three_happened(stack, oracle, conversation)


@pytest.mark.parametrize("step", APPEND)
async def test_an_actor_that_thaws_after_another_has_done_what_was_due_changes_nothing(
    stack, client, store, oracle, traps, step
):
    conversation = await due_at_once(stack, client, f"thaws-{step}")
    traps.arm(step, FREEZE)
    pid = await traps.frozen(step)
    before = await all_three_happened(stack, oracle, conversation)
    traps.thaw(pid)
    await at_ease(store)
    assert await oracle.events(conversation.id) == before


async def delayed(stack, client, name, seconds):
    """A conversation that rests until its message is due."""
    conversation = await client.start("till", stack.scenarios.add(name, "One.", "Two."), conversation_id=name)
    await conversation.wait(timeout_s=WITHIN_S)
    await conversation.send("later", at=datetime.now(UTC) + timedelta(seconds=seconds), message_id="d-1")
    return conversation


async def answered_once(stack, oracle, conversation):
    """Check that the delayed message of a conversation was answered once."""
    await rests(conversation)
    await oracle.at_rest(conversation.id)
    assert (await conversation.message("d-1")).reply == "Two."
    assert asked(stack, conversation.id) == 2


@pytest.mark.parametrize("step", ACTIVATE)
async def test_an_actor_that_dies_as_it_takes_up_a_conversation_whose_message_is_due_is_followed_by_another(
    stack, client, store, oracle, traps, step
):
    conversation = await delayed(stack, client, f"due-{step}", 4)
    await at_ease(store)
    traps.arm(step, KILL)
    await traps.sprung(step)
    await answered_once(stack, oracle, conversation)


async def test_a_message_becomes_due_whose_sweeper_has_died(stack, client, store, oracle):
    conversation = await delayed(stack, client, "unswept", 2)
    await at_ease(store)
    await kill(await pid_of(named(sweeper_of(store))))
    await answered_once(stack, oracle, conversation)


# -- Redis ----------------------------------------------------------------------------------------------------------------


async def of_each_way(stack, client, oracle, prefix):
    """A busy conversation for each way, and one with a message that becomes due soon."""
    found = {way: Busy(stack, client, oracle, f"{prefix}-{way}") for way in WAYS}
    for one in found.values():
        await one.begin()
    return found, await delayed(stack, client, f"{prefix}-due", 2)


async def healed(stack, oracle, found, conversation, tasks):
    """Check that each command was done once, and that what became due meanwhile was answered."""
    for (way, one), given in zip(found.items(), await asyncio.gather(*tasks), strict=True):
        await one.ended(way, given)
    await answered_once(stack, oracle, conversation)


async def test_input_while_redis_stands_still_is_done_once(stack, client, oracle, server):
    found, conversation = await of_each_way(stack, client, oracle, "still")
    os.kill(server._process.pid, FREEZE)
    tasks = [asyncio.create_task(getattr(one, way)()) for way, one in found.items()]
    await asyncio.sleep(2 * LEASE_S)
    os.kill(server._process.pid, signal.SIGCONT)
    await healed(stack, oracle, found, conversation, tasks)


@pytest.mark.parametrize("step", APPEND)
async def test_redis_dies_before_and_after_input_is_written(stack, client, store, oracle, server, traps, step):
    """The actor that judged it stands still meanwhile, and goes on with a Redis that has what it acknowledged."""
    found, conversation = await of_each_way(stack, client, oracle, f"died-{step}")
    await at_ease(store, *[one.name for one in found.values()])
    traps.arm(step, FREEZE)
    tasks = [asyncio.create_task(getattr(one, way)()) for way, one in found.items()]
    pid = await traps.frozen(step)
    server.kill()
    traps.thaw(pid)
    server.start()
    await healed(stack, oracle, found, conversation, tasks)


async def test_what_was_withdrawn_as_redis_died_is_not_withdrawn_again(stack, client, oracle, server):
    busy = Busy(stack, client, oracle, "withdrawn-twice")
    await busy.begin()
    given = await busy.withdraw()
    server.kill()
    server.start()
    with pytest.raises(NotQueued):
        await busy.conversation.withdraw("m-2", request_id="x-2")
    await busy.ended("withdraw", given)
