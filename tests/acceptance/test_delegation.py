"""Agents that ask each other, on the real thing: what a person decides in the third level comes back to the first."""

import asyncio
import json

import pytest
from stack_fixture import client_of

from holdfast.client import Approve
from holdfast.conversation import Principal, WaitsFor
from holdfast.testing import call

WITHIN_S = 90

pytestmark = pytest.mark.gate


@pytest.fixture
async def client(stack, request):
    del stack
    async with client_of(f"delegating-{request.node.name[:12]}", "delegating_app:app", timeout_s=90) as connected:
        yield connected


async def waiting(client, count=1):
    async with asyncio.timeout(WITHIN_S):
        while len(found := (await client.pending()).items) < count:
            await asyncio.sleep(0.05)
    return found


async def followed(conversation):
    """The places of the events of a tree, by conversation, until its root has answered."""
    places = {}
    async with asyncio.timeout(WITHIN_S):
        async for event in conversation.events(descendants=True, live=False):
            places.setdefault(event.conversation_id, []).append(event.seq)
            if (event.conversation_id, event.kind) == (conversation.id, "turn_completed"):
                break
    return places


async def test_what_a_person_approves_in_the_third_level_comes_back_to_the_first(stack, client):
    scripts = stack.scenarios
    scripts.add("pay-1", call("refund", {"order": "A-1"}), "Paid.")
    scripts.add("check-1", call("pay", {"task": "pay-1 the order"}), "Checked and paid.")
    text = scripts.add("ask-1", call("check", {"task": "check-1 this"}), "All done.")
    ana = client.acting_as(Principal("ana"))
    conversation = await ana.start("orchestrator", text, conversation_id="tree-1", context={"order": "A-1", "secret": 1})
    following = asyncio.ensure_future(followed(conversation))
    (found,) = await waiting(client)
    assert (found.agent, found.tool) == ("payments", "refund")
    assert found.requester == Principal("ana")
    assert (await conversation.state()).waits_for is WaitsFor.MACHINES
    assert [one.agent for one in found.path] == ["orchestrator", "compliance"]
    assert (await client.pending(root="tree-1")).items == [found]
    tree = await conversation.tree()
    assert [(one.agent, one.status, one.pending) for one in tree.walk()] == [
        ("orchestrator", "awaiting_input", 0),
        ("compliance", "awaiting_input", 0),
        ("payments", "awaiting_input", 1),
    ]
    await found.resolve(Approve())
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert state.reply == "All done."
    places = await following
    assert [places[one.conversation_id] for one in tree.walk()] == [[*range(1, len(seqs) + 1)] for seqs in places.values()]
    (result,) = [one for one in await conversation.messages() if one["role"] == "tool"]
    said = json.loads(result["content"])
    assert (said["ok"], said["result"]) == (True, "Checked and paid.")
    child = client.conversation(said["conversation"])
    assert (await child.state()).status == "ended"
    assert [(one.agent, one.status) for one in (await conversation.tree()).walk()] == [
        ("orchestrator", "idle"),
        ("compliance", "ended"),
        ("payments", "ended"),
    ]
