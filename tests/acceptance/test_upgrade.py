"""Another release of Holdfast comes into a cluster that goes on, while conversations wait and work."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from installed_copy import installed_at
from ray.exceptions import RayActorError
from stack_fixture import eventually, open_gate, pid_of, results, runs_of

from holdfast.actors.build import this_release
from holdfast.actors.ray_launcher import find, named
from holdfast.client import Approve, AsyncClient, OlderRelease, OtherBuild, Status
from holdfast.client.stack import Stack
from holdfast.client.stack_gateway import StackGateway
from holdfast.registry import ray_actors
from holdfast.settings import Settings
from holdfast.testing import call, calls

NEXT = "1000.0"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
async def upgraded(stack, client, monkeypatch):
    """A way to have a client of the next release, as if it had been installed meanwhile."""
    async with AsyncExitStack() as opened:

        async def upgrade():
            with monkeypatch.context() as patched:
                patched.setattr("holdfast.actors.actor_settings.release_with", lambda _: NEXT)
                connected = await opened.enter_async_context(AsyncClient.connect("shop_app:app", timeout_s=60))
                await connected.gateway.stack.transport()
            return connected

        yield upgrade
        back = AsyncClient(
            StackGateway(Stack(Settings.of(), "shop_app:app", roll_back=True), timeout_s=60)
        )  # for the tests that follow
        await (await opened.enter_async_context(back)).gateway.stack.transport()


@pytest.mark.gate
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
    (before,) = [name for name in named(client.gateway.stack._transport.settings.prefix) if name.endswith("sweeper")]

    newer = await upgraded()

    settings = newer.gateway.stack._transport.settings
    assert find(before) is None
    receipt = await newer.resolve(shown, Approve())
    states = {waits.id: await newer.conversation(waits.id).wait(after=receipt.seq, timeout_s=90)}
    stack.model.release()  # the old worker keeps what it has claimed to its end, and the model is not asked again
    open_gate(stack, runs.id)
    for conversation in (asks, runs):
        states[conversation.id] = await newer.conversation(conversation.id).wait(timeout_s=90)
    assert {state.status for state in states.values()} == {Status.IDLE}
    assert [states[found.id].reply for found in (waits, runs, asks)] == ["Refunded.", "Done.", "Hello."]
    assert results(await runs.messages())[0]["ok"] is True
    assert (len(runs_of(stack, waits.id)), len(runs_of(stack, runs.id))) == (1, 1)  # the run that was at work went on
    holders = [(await store.owner(conversation.id)).actor for conversation in (waits, runs, asks)]
    assert all(holder.startswith(settings.prefix) for holder in holders if holder), holders

    def old_ones():
        return [name for name in named(settings.family) if ":worker:" in name and not name.startswith(settings.prefix)]

    await asyncio.to_thread(eventually, lambda: not old_ones(), 60, "the end of the old workers")

    # and whoever has not been changed yet is served all the same
    again = await waits.send("and again")
    assert (await waits.wait(after=again.seq, timeout_s=90)).reply == "Again."


async def test_an_actor_on_a_node_with_another_build_refuses_with_the_fix(stack, client, tmp_path, monkeypatch):
    transport = await client.gateway.stack.transport()
    installed_at(tmp_path)
    with (tmp_path / "holdfast" / "actors" / "host.py").open("a") as file:
        file.write("# another build\n")
    elsewhere = {"env_vars": {"PYTHONPATH": str(tmp_path)}}
    made_here = ray_actors._RemoteActor
    options = SimpleNamespace(options=lambda **given: made_here.options(**given, runtime_env=elsewhere))
    monkeypatch.setattr(ray_actors, "_RemoteActor", options)
    actors = ray_actors.RayActors(transport.settings, transport._store)
    name = actors.new_name()

    with pytest.raises(OtherBuild, match="install the same build on every node"):
        await actors.spawn(name, offer=False)

    await asyncio.to_thread(eventually, lambda: find(name) is None, 30, "the end of that actor")


@pytest.mark.gate
async def test_an_older_release_ends_nobody_of_a_newer_one_and_goes_back_only_when_told_to(stack, client, store, upgraded):
    text = stack.scenarios.add("downgrade", calls(call("refund", {"order": "A", "amount": 7})), "Refunded.")
    newer = await upgraded()
    conversation = await newer.start("support", text, conversation_id="downgrade")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    settings = newer.gateway.stack._transport.settings
    pids = {}
    for name in named(settings.prefix):
        with contextlib.suppress(RayActorError):  # it leaves by itself just now
            pids |= {name: await pid_of(find(name))} if ":actor:" not in name else {}  # spare ones do, too
    assert pids

    async with AsyncClient.connect("shop_app:app", timeout_s=60) as older:
        for use in (older.conversation(conversation.id).cancel, lambda: older.start("support", "hello")):
            with pytest.raises(OlderRelease, match=rf"the newer {NEXT} serves the store.*holdfast up --roll-back"):
                await use()
        assert [call.tool_call_id for call in (await older.pending(limit=500)).items if call.conversation_id == conversation.id]
    refused = stack.python("-m", "holdfast.cli", "up")
    said = await asyncio.to_thread(refused.communicate)
    assert (refused.returncode, said[0]) == (2, "")
    assert f"the newer {NEXT} serves the store" in said[1]
    assert await store.serving() == NEXT
    assert {name: await pid_of(find(name)) for name in pids if find(name)} == pids
    receipt = await newer.resolve(shown, Approve())
    assert (await conversation.wait(after=receipt.seq, timeout_s=60)).reply == "Refunded."

    going_back = stack.python("-m", "holdfast.cli", "up", "--roll-back", "--app", "shop_app:app", cwd=SUPPORT)
    said = await asyncio.to_thread(going_back.communicate)
    assert going_back.returncode == 0, said
    assert await store.serving() == this_release()
    assert find(settings.sweeper_name) is None
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as older:
        text = stack.scenarios.add("downgraded", "Hello.")
        again = await older.start("support", text, conversation_id="downgraded")
        assert (await again.wait(timeout_s=60)).reply == "Hello."
