"""New work of a namespace is paused under everything that goes on, and resumed: processes as a user starts them."""

import asyncio

from stack_fixture import client_of, eventually, open_gate, runs_of

from holdfast.client import Approve, Status
from holdfast.persistence import RedisStore
from holdfast.testing import call, calls

NAMESPACE = "paused"


def asked(stack, text) -> int:
    """How many requests have reached the model for conversations that began with this text."""
    return sum(
        next(message["content"] for message in request.body["messages"] if message["role"] == "user") == text
        for request in stack.model.requests
    )


async def kinds(store, conversation) -> list[str]:
    return [event.kind for _, event in await store.read(conversation.id, after=0)]


async def recorded(store, conversation, kind: str) -> None:
    """Wait until something of that kind stands in the log."""
    async with asyncio.timeout(60):
        while kind not in await kinds(store, conversation):
            await asyncio.sleep(0.05)


async def released(store, conversations) -> list[int]:
    """Wait until no actor has any of them and none needs attention; how often each was taken up until then."""
    while (await store.attention(100)).conversation_ids or any([(await store.owner(one.id)).actor for one in conversations]):
        await asyncio.sleep(0.05)
    return [(await store.owner(one.id)).epoch for one in conversations]


async def test_what_is_paused_waits_without_a_process_and_all_of_it_goes_on_by_itself(stack, monkeypatch):
    for name, value in {"MAX_ACTORS": "2", "STANDBY": "1", "LINGER_S": "1"}.items():
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    slow = stack.scenarios.add("paused-slow", calls(call("slow", {})), "Slowly.", "And then that.")
    gated = stack.scenarios.add("paused-gated", calls(call("refund", {"order": "A", "amount": 7})), "Refunded.")
    brief = stack.scenarios.add("paused-brief", calls(call("ask_briefly", {"question": "Now?"})), "Too late.")
    later = stack.scenarios.add("paused-later", "Hello.")
    store = RedisStore(stack.redis_url, namespace=NAMESPACE)
    async with client_of(NAMESPACE, timeout_s=60) as client:
        # given a call that waits for somebody, a run that goes on and a model call that goes on
        waits = await client.start("support", gated, conversation_id="waits")
        (shown,) = (await waits.wait(timeout_s=60)).pending
        runs = await client.start("support", slow, conversation_id="runs")
        await asyncio.to_thread(eventually, lambda: runs_of(stack, runs.id))
        stack.model.hold()
        try:
            streams = await client.start("support", brief, conversation_id="streams")
            await stack.model.held(1)

            # when all new work is paused
            pause = await client.pause(reason="the bill")
        finally:
            stack.model.release()
        assert not pause.duplicate
        before = {text: asked(stack, text) for text in (slow, gated, brief, later)}

        # then what goes on is recorded, what passes is due, and what is asked is acknowledged, on fewer actors than that takes
        await recorded(store, streams, "call_suspended")
        open_gate(stack, runs.id)
        await recorded(store, runs, "call_resolved")
        started = [await client.start("support", later, conversation_id=f"later-{number}") for number in range(3)]
        receipt = await shown.resolve(Approve(), decision_id="click-1")
        assert (await shown.resolve(Approve(), decision_id="click-1")).seq == receipt.seq
        assert not (await runs.send("And then?", message_id="m-2")).duplicate
        await recorded(store, streams, "suspension_settled")
        every = [waits, runs, streams, *started]

        # and nothing new begins, no process is kept for it, and nobody is woken for nothing
        epochs: list[int] = []
        async with asyncio.timeout(60):  # a deadline that the sweeper has settled itself is taken up by an actor once more
            while epochs != (epochs := await released(store, every)):
                await started[0].wait(timeout_s=1)
        state = await started[0].wait(timeout_s=1)
        assert state.reply is None
        assert [(await store.owner(one.id)).epoch for one in every] == epochs
        assert {text: asked(stack, text) for text in before} == before
        assert runs_of(stack, waits.id) == []
        assert [(one.agent, one.reason) for one in await client.paused()] == [(None, "the bill")]
        assert list(await store.troubles()) == []

        # and when it is resumed, all of it goes on by itself
        assert (await client.unpause()).since == pause.since
        for one, reply in ((waits, "Refunded."), (streams, "Too late."), *((one, "Hello.") for one in started)):
            state = await one.wait(after=2, timeout_s=60)
            assert (one.id, state.status, state.reply) == (one.id, Status.IDLE, reply)
        async with asyncio.timeout(60):
            while (await kinds(store, runs)).count("turn_completed") < 2:
                await asyncio.sleep(0.05)
        assert len(runs_of(stack, waits.id)) == len(runs_of(stack, runs.id)) == 1
        assert {text: asked(stack, text) for text in (gated, brief, later)} == {gated: 2, brief: 2, later: 3}
    await store.close()
