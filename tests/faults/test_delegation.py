"""Conversations that ask each other, three levels, with a refund that a person approves: each process dies or freezes."""

import asyncio
import json
import os
import signal

import pytest
from fault_stack import WITHIN_S, at_ease, trapped_stack, true
from stack_fixture import eventually
from trees import Tree, another_courier, emptied, run_leases_out

from holdfast.actors.steps import Step
from holdfast.client import Answer, Approve, Deny, Redispatch, Status
from holdfast.testing import call, calls

OWED = [step for step in Step if step.startswith("owed-")]
APPEND = [Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN]
RUN = [step for step in Step if step.startswith("run-")]
MODEL = [step for step in Step if step.startswith("model-")]
KINDS = ["start", "tell", "end"]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
LEASE_S = 3


@pytest.fixture(scope="module")
def trapped(server):
    with trapped_stack(HOLDFAST_REDIS_URL=server.url) as found:
        yield found


@pytest.fixture
async def tree(stack, client, oracle, request):
    """The tree of this test."""
    return Tree(stack, client, oracle, f"t{request.node.name[-50:]}".translate({ord("["): "-", ord("]"): None}))


async def owing(tree, kind):
    """Bring a tree to where the next thing that is owed is of a kind; what makes it owed."""
    if kind == "start":
        return tree.start
    await tree.start()
    pending = await tree.waiting()
    await emptied(tree.store)
    return (lambda: pending.resolve(Approve())) if kind == "tell" else tree.root.cancel


async def ended(tree, kind):
    """Check that a tree ends as it would have without faults."""
    if kind == "end":
        return await tree.over()
    if kind == "start":
        await tree.approve()
    return await tree.done()


@pytest.mark.parametrize("level", ["first", "second"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", OWED)
async def test_a_courier_that_dies_loses_and_repeats_nothing(tree, traps, step, kind, level):
    owe = await owing(tree, kind)
    if level == "second":  # what follows from the first delivery
        traps.arm(step, FREEZE)
        await owe()
        pid = await traps.frozen(step)
        traps.arm(step, KILL)
        traps.thaw(pid)
    else:
        traps.arm(step, KILL)
        await owe()
    await traps.sprung(step)
    await run_leases_out(tree.store)
    await ended(tree, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", OWED)
async def test_a_courier_that_thaws_after_another_has_delivered_repeats_nothing(client, tree, traps, step, kind):
    owe = await owing(tree, kind)
    traps.arm(step, FREEZE)
    await owe()
    pid = await traps.frozen(step)
    if step is not Step.OWED_3_ACKNOWLEDGED:
        async with another_courier(client, tree.store) as delivered:
            await run_leases_out(tree.store)
            await asyncio.to_thread(eventually, lambda: kind in delivered, WITHIN_S, f"that another delivers the {kind}")
    traps.thaw(pid)
    await ended(tree, kind)


async def at_the_append(tree, kind, traps, step, number):
    """An actor gets a signal at a step of the append that owes something of a kind; its process."""
    owe, model = await owing(tree, kind), tree.stack.model
    if kind == "end":
        await at_ease(tree.store)
        traps.arm(step, number)
        cancelling = asyncio.create_task(owe())
        pid = await caught(traps, step, number)
        await cancelling
        return pid
    model.hold(times=1)
    try:
        await owe()
        await model.held(1, WITHIN_S)
        await at_ease(tree.store, tree.name if kind == "start" else (await tree.ids())[2])
        traps.arm(step, number)
    finally:
        model.release()
    return await caught(traps, step, number)


async def caught(traps, step, number):
    """The process that a trap has caught."""
    return await (traps.sprung(step) if number == KILL else traps.frozen(step))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", APPEND)
async def test_an_actor_that_dies_at_the_append_that_owes_loses_and_repeats_nothing(tree, traps, step, kind):
    await at_the_append(tree, kind, traps, step, KILL)
    await ended(tree, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", APPEND)
async def test_an_actor_that_thaws_after_another_has_gone_on_changes_nothing(tree, traps, step, kind):
    pid = await at_the_append(tree, kind, traps, step, FREEZE)
    await ended(tree, kind)
    before = [await tree.oracle.events(one) for one in await tree.ids()]
    traps.thaw(pid)
    await at_ease(tree.store)
    assert [await tree.oracle.events(one) for one in await tree.ids()] == before


@pytest.mark.parametrize("step", [*RUN, *MODEL])
async def test_a_worker_that_dies_in_the_third_level_has_everything_happen_once(tree, traps, step):
    await tree.start()
    pending = await tree.waiting()
    traps.arm(step, KILL)
    await pending.resolve(Approve())
    await traps.sprung(step)
    if step in (Step.RUN_2_CLAIMED, Step.RUN_3_RETURNED):
        lost = await tree.waiting()
        assert lost.kind == "lost"
        await lost.resolve(Redispatch() if step is Step.RUN_2_CLAIMED else Answer("refunded"))
    await tree.done(asked_again=[f"{tree.name}-pay"] if step is Step.MODEL_3_ANSWERED else [])


@pytest.mark.parametrize("step", [*RUN, *MODEL])
async def test_a_worker_that_thaws_goes_on_at_each_level(tree, traps, step):
    await tree.start()
    pending = await tree.waiting()
    traps.arm(step, FREEZE)
    await pending.resolve(Approve())
    for level in range(3 if step in MODEL else 1):  # only the third level, the first to go on, has a run
        pid = await traps.frozen(step)
        traps.arm(step, FREEZE)
        if not level and step in (Step.RUN_2_CLAIMED, Step.MODEL_2_CLAIMED):
            await asyncio.sleep(LEASE_S + 1)  # its claim is looked at meanwhile
        traps.thaw(pid)
    await tree.done()


async def test_redis_is_killed_and_started_again_at_each_level(stack, client, oracle, server):
    asking, paying, ending = [Tree(stack, client, oracle, f"redis-{name}") for name in ("asking", "paying", "ending")]
    for tree in (paying, ending):
        await tree.start()
        await tree.waiting()
    pending = await paying.waiting()
    stack.model.hold(times=1)
    try:
        await asking.start()
        await stack.model.held(1, WITHIN_S)
        server.kill()
    finally:
        stack.model.release()  # the answer that delegates comes while there is no store
    commands = [asyncio.create_task(one) for one in (pending.resolve(Approve()), ending.root.cancel())]
    server.start()
    await asyncio.gather(*commands)
    server.kill()  # with the word of the children, and their ends, on the way
    server.start()
    await paying.done()
    await ending.over()
    await asking.approve()
    await asking.done()


async def test_redis_stands_still_at_each_level(stack, client, oracle, server):
    asking, paying, ending = [Tree(stack, client, oracle, f"still-{name}") for name in ("asking", "paying", "ending")]
    for tree in (paying, ending):
        await tree.start()
    pending, _ = [await tree.waiting() for tree in (paying, ending)]
    stack.model.hold(times=1)
    try:
        await asking.start()
        await stack.model.held(1, WITHIN_S)
        os.kill(server._process.pid, FREEZE)
    finally:
        stack.model.release()
    commands = [asyncio.create_task(one) for one in (pending.resolve(Approve()), ending.root.cancel())]
    await asyncio.sleep(2 * LEASE_S)
    os.kill(server._process.pid, signal.SIGCONT)
    await asyncio.gather(*commands)
    await paying.done()
    await ending.over()
    await asking.approve()
    await asking.done()


async def test_a_cancelled_root_starts_no_child_whose_start_had_not_arrived(client, tree, traps):
    traps.arm(Step.OWED_1_LEASED, FREEZE)
    await tree.start()
    pid = await traps.frozen(Step.OWED_1_LEASED)
    await tree.root.cancel()
    async with another_courier(client, tree.store):
        await run_leases_out(tree.store)
        await tree.over()
    traps.thaw(pid)
    await at_ease(tree.store)
    await tree.over()
    _, child = await tree.ids()
    assert not await tree.stands(child)


async def test_ten_children_side_by_side_end_each_in_its_way(stack, client, store, oracle):
    scripts, name = stack.scenarios, "ten"
    asked = ["quarantined", "expired", "cancelled", "denied", "paid"]
    for one in asked:
        scripts.add(f"ten-{one}", call("refund", {}), f"It is {one}.")
    plain = [scripts.add(f"ten-plain-{number}", f"Plain {number}.") for number in range(4)]
    proposed = [
        *(call("hand_over_soon" if one == "expired" else "hand_over", {"task": f"ten-{one}"}) for one in asked),
        call("hand_over_asked", {"task": "ten-refused"}),
        *(call("hand_over", {"task": one}) for one in plain),
    ]
    root = await client.start("desk", scripts.add(name, calls(*proposed), "All ten."), conversation_id=name)

    async def children():
        events = [event for event in await oracle.events(name) if getattr(event, "source", "")]
        found = {(await texts(event.source)): event.source for event in events}
        return found if len(found) == 9 and not any(text.startswith("d-") for text in found) else None

    async def texts(child):
        if not await Tree(stack, client, oracle, child).stands(child):
            return child
        (message,) = await store.at(child, [2])
        return message.text

    below = await true(children, "nine children")

    async def pending():
        found = {one.conversation_id: one for one in (await client.pending(limit=100)).items}
        wanted = {key: found.get(below[f"ten-{key}"]) for key in asked}
        wanted["refused"] = found.get(name)
        return wanted if all(wanted.values()) else None

    calls_of = await true(pending, "what waits for people")
    quarantined = below["ten-quarantined"]
    owner = await store.owner(quarantined)
    await store.strike(quarantined, owner.token, process="p-1", reason="it dies again and again", limit=1)
    await client.conversation(below["ten-cancelled"]).cancel()
    await calls_of["denied"].resolve(Deny("no"))
    await calls_of["refused"].resolve(Deny("not this one"))
    await calls_of["paid"].resolve(Approve())

    async def answered():
        return (await root.state()).reply == "All ten."

    await true(answered, "the answer to all ten")
    results = [json.loads(one["content"]) for one in await root.messages() if one["role"] == "tool"]
    said = [one.get("result", one.get("error")) for one in results]
    assert [one["ok"] for one in results] == [False, False, False, True, True, False, True, True, True, True]
    assert "quarantined" in said[0]
    assert "did not answer in time" in said[1]
    assert "cancelled" in said[2]
    assert said[3:5] == ["It is denied.", "It is paid."]
    assert "not this one" in said[5]
    assert said[6:] == [f"Plain {number}." for number in range(4)]
    await client.conversation(quarantined).retry()  # its parent waits no longer: it is ended
    await emptied(store)
    await oracle.at_rest(name)
    for text, child in below.items():
        await oracle.at_rest(child, status=Status.ENDED)
        assert len(oracle.bodies(child)) == (1 if text == "ten-paid" else 0)
