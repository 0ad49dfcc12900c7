"""Another release of Holdfast comes into a cluster that goes on, while conversations wait and work."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest
from stack_fixture import eventually, open_gate, results, runs_of

from holdfast.actors import ActorSettings, find, named
from holdfast.client import Approve, AsyncClient, Status
from holdfast.testing import call, calls

NEXT = "1000.0"


@pytest.fixture
async def upgraded(stack, client, monkeypatch):
    """A way to have a client of the next release, as if it had been installed meanwhile."""
    async with AsyncExitStack() as opened:

        async def upgrade():
            monkeypatch.setattr("holdfast.client.transport.ActorSettings", partial(ActorSettings, release=NEXT))
            connected = await opened.enter_async_context(AsyncClient.connect("shop_app:app", timeout_s=60))
            await connected._stack.transport()
            return connected

        yield upgrade
    monkeypatch.undo()
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as back:  # for the tests that follow
        await back._stack.transport()


async def test_conversations_that_wait_and_work_go_on_with_the_new_release_and_the_old_one_leaves(
    stack, client, store, upgraded
):
    waits_text = stack.scenarios.add("upgrade-waits", calls(call("refund", {"order": "A", "amount": 7})), "Refunded.", "Again.")
    waits = await client.start("support", waits_text, conversation_id="upgrade-waits")
    (shown,) = (await waits.wait(timeout_s=60)).pending
    runs_text = stack.scenarios.add("upgrade-runs", calls(call("slow", {})), "Done.")
    runs = await client.start("support", runs_text, conversation_id="upgrade-runs")
    await asyncio.to_thread(eventually, lambda: runs_of(stack, runs.id))
    stack.model.hold(times=1)
    asks = await client.start("support", stack.scenarios.add("upgrade-asks", "Hello."), conversation_id="upgrade-asks")
    await stack.model.held(1)
    (before,) = [name for name in named(client._stack._transport.settings.prefix) if name.endswith("sweeper")]

    newer = await upgraded()

    settings = newer._stack._transport.settings
    assert find(before) is None
    receipt = await newer.resolve(waits.id, shown.tool_call_id, Approve(), suspension_id=shown.suspension_id)
    states = {}
    for conversation, after in [(waits, receipt.seq), (asks, 0)]:
        states[conversation.id] = await newer.conversation(conversation.id).wait(after=after, timeout_s=90)
    stack.model.release()
    open_gate(stack, runs.id)
    states[runs.id] = await newer.conversation(runs.id).wait(timeout_s=90)
    assert {state.status for state in states.values()} == {Status.IDLE}
    assert [states[found.id].reply for found in (waits, runs, asks)] == ["Refunded.", "Done.", "Hello."]
    assert results(await runs.messages())[0]["ok"] is True
    assert (len(runs_of(stack, waits.id)), len(runs_of(stack, runs.id))) == (1, 1)  # the run that was at work went on
    holders = [(await store.owner(conversation.id)).holder for conversation in (waits, runs, asks)]
    assert all(holder.startswith(settings.prefix) for holder in holders if holder), holders

    def old_ones():
        return [name for name in named(settings.family) if ":worker:" in name and not name.startswith(settings.prefix)]

    await asyncio.to_thread(eventually, lambda: not old_ones(), 60, "the end of the old workers")

    # and whoever has not been changed yet is served all the same
    again = await waits.send("and again")
    assert (await waits.wait(after=again.seq, timeout_s=90)).reply == "Again."
