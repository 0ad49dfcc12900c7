"""Callbacks that misbehave, conversations that take processes down, few processes for many conversations."""

import asyncio
import importlib
import os
import signal
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from stack_fixture import client_of, eventually, open_gate, pid_of, results, runs_of

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.ray_launcher import find, named
from holdfast.client import Answer, AsyncClient, Overloaded, Quarantined, Status
from holdfast.persistence import RedisStore
from holdfast.registry.pool import RESERVE
from holdfast.testing import call, calls, say


@pytest.fixture
async def client(stack):
    async with AsyncClient.connect("rough_app:app", timeout_s=60) as connected:
        yield connected


async def until(condition, timeout_s: float = 90):
    return await asyncio.to_thread(eventually, condition, timeout_s)


async def outcome(stack, client, tool: str) -> dict:
    """What the model reads of a call of the tool, in a conversation that then goes on to its end."""
    text = stack.scenarios.add(f"rough-{tool}", calls(call(tool, {})), "On we go.")
    conversation = await client.start("rough", text, conversation_id=f"rough-{tool}")
    state = await conversation.wait(timeout_s=120)
    assert (state.status, state.reply) == (Status.IDLE, "On we go.")
    (result,) = results(await conversation.messages())
    return result


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("leave", "SystemExit: 3"),
        ("leave_async", "SystemExit: 3"),
        ("unserialisable", "cannot be a result"),
        ("huge", "300000002 bytes"),
        ("not_a_number", "cannot be a result"),
        ("hang", "did not finish within 1 s"),
        ("hang_async", "did not finish within 1 s"),
        ("block_the_loop", "did not finish within 2 s"),
        ("stubborn", "StopIteration"),
        ("cancelled_inside", "CancelledError"),
        ("cancels_itself", "CancelledError"),
        ("unspeakable", "Unspeakable"),
    ],
)
async def test_a_callback_that_misbehaves_is_an_error_that_the_model_reads(stack, client, tool, said):
    result = await outcome(stack, client, tool)

    assert result["ok"] is False
    assert said in result["error"]


@pytest.mark.parametrize(("tool", "value"), [("fork", "forked"), ("chatter", "said it all")])
async def test_a_callback_that_forks_or_prints_has_its_result_and_runs_once(stack, client, tool, value):
    assert await outcome(stack, client, tool) == {"ok": True, "result": value}
    assert len(runs_of(stack, f"rough-{tool}")) == (1 if tool == "fork" else 0)


async def test_an_async_callback_that_blocks_its_loop_blocks_nobody_else(stack, client):
    blocking = stack.scenarios.add("blocks", calls(call("block_the_loop", {})), "At last.")
    quick = stack.scenarios.add("quick", calls(call("quick", {})), "Quickly done.")
    held = await client.start("rough", blocking, conversation_id="blocks-1")
    await until(lambda: stack.model.requests)
    others = [await client.start("rough", quick, conversation_id=f"quick-{number}") for number in range(3)]

    states = [await conversation.wait(timeout_s=60) for conversation in others]

    assert [state.reply for state in states] == ["Quickly done."] * 3
    assert (await held.wait(timeout_s=60)).reply == "At last."


@pytest.mark.parametrize("tool", ["until_cancelled", "poll_until_cancelled"])
async def test_a_body_sees_that_its_turn_is_cancelled_and_whoever_waits_is_told_when_it_is_gone(stack, client, store, tool):
    text = stack.scenarios.add(f"stopped-{tool}", calls(call(tool, {})), "Never said.")
    conversation = await client.start("rough", text, conversation_id=f"stopped-{tool}")
    await until(lambda: runs_of(stack, conversation.id))

    cancelled = await conversation.cancel("t1", wait_s=60)

    assert (cancelled.turn_id, len(cancelled.calls), cancelled.running) == ("t1", 1, ())
    assert [run["kind"] for run in runs_of(stack, conversation.id)] == ["until_cancelled", "tidied up"]
    (late,) = (await store.late(conversation.id)).values()
    assert b"it was stopped" in late.outcome
    assert (await conversation.cancel("t1")).turn_id is None


@pytest.mark.gate
async def test_what_takes_its_process_down_again_and_again_is_quarantined_and_retried_when_told(stack, client, store):
    # given a run that shares the worker with one that takes it down
    innocent_text = stack.scenarios.add("innocent", calls(call("wait_for_gate", {})), "All well.")
    innocent = await client.start("rough", innocent_text, conversation_id="innocent-1")
    await until(lambda: runs_of(stack, innocent.id))
    text = stack.scenarios.add("poison", calls(call("crash", {})), "Survived.")
    poison = await client.start("rough", text, conversation_id="poison-1")

    # when it has done so three times, the last ones alone
    state = await poison.wait(timeout_s=180)

    # then it is in quarantine, with its reason, and nothing of it is carried out or decided
    assert state.status is Status.QUARANTINED
    assert "crash" in state.error
    runs = runs_of(stack, poison.id)
    assert [run["attempt"] for run in runs] == [1, 2, 3]
    assert len({run["pid"] for run in runs}) == 3
    with pytest.raises(Quarantined, match="holdfast retry poison-1"):
        await poison.send("are you there?")
    page = await client.conversations(status="quarantined")
    assert [row.conversation_id for row in page.items] == [poison.id]

    # and the innocent run was run again alone, and goes on
    open_gate(stack, innocent.id)
    assert (await innocent.wait(timeout_s=120)).reply == "All well."
    assert [run["attempt"] for run in runs_of(stack, innocent.id)] == [1, 2]
    assert await store.quarantine(innocent.id) is None

    # and once the cause is corrected, it is taken up where it stood
    (stack.runs / f"{poison.id}.corrected").touch()
    assert await poison.retry()
    assert (await poison.wait(timeout_s=120)).reply == "Survived."
    assert not await poison.retry()
    assert [run["attempt"] for run in runs_of(stack, poison.id)] == [1, 2, 3, 4]


@pytest.mark.slow
async def test_the_one_that_takes_its_process_down_is_found_in_large_company_and_nobody_else_is_blamed(stack, client, store):
    # given a worker that does the work of many, and one among them that takes it down
    text = stack.scenarios.add("crowd", calls(call("take_a_while", {})), "All well.")
    crowd = await asyncio.gather(*(client.start("rough", text, conversation_id=f"crowd-{number}") for number in range(24)))
    await until(lambda: all(runs_of(stack, one.id) for one in crowd))
    poison_text = stack.scenarios.add("deadly-crowd", calls(call("crash", {})), "Survived.")
    poison = await client.start("rough", poison_text, conversation_id="deadly-crowd-1")

    # when it does so again and again
    state = await poison.wait(timeout_s=240)

    # then it alone is in quarantine: two deaths halved the company, and three more were laid at its door
    assert state.status is Status.QUARANTINED
    assert 4 <= len(runs_of(stack, poison.id)) <= 6
    states = await asyncio.gather(*(one.wait(timeout_s=240) for one in crowd))
    assert [state.reply for state in states] == ["All well."] * 24
    page = await client.conversations(status="quarantined")
    assert [row.conversation_id for row in page.items] == [poison.id]
    lost = sorted(len(runs_of(stack, one.id)) for one in crowd)
    assert lost[11] <= 2  # half of them met it once


@pytest.mark.slow
async def test_what_takes_the_process_down_that_judges_the_models_answer_is_quarantined_too(stack, client):
    asked = call("deadly_to_judge", {"conversation": "deadly-1"})
    text = stack.scenarios.add("deadly", calls(asked), "Survived.")
    deadly = await client.start("rough", text, conversation_id="deadly-1")

    state = await deadly.wait(timeout_s=180)

    assert state.status is Status.QUARANTINED
    assert "model call" in state.error
    assert len({run["pid"] for run in runs_of(stack, deadly.id)}) == 3
    (stack.runs / f"{deadly.id}.corrected").touch()
    assert await deadly.retry()
    assert (await deadly.wait(timeout_s=120)).reply == "Survived."


@pytest.mark.skipif(os.environ.get(GUESTS) == "0", reason="guests do this; the next test is about actors")
async def test_starts_are_acknowledged_at_the_cap(stack, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_ACTORS", "1")
    monkeypatch.setenv("HOLDFAST_STANDBY", "1")
    text = stack.scenarios.add("started-at-the-cap", "Hello.")
    async with client_of("cap", timeout_s=60) as client:
        await (await client.start("support", text, conversation_id="cap-0")).wait(timeout_s=60)
        prefix = client.gateway.stack._transport.settings.prefix
        (worker,) = [await pid_of(find(name)) for name in named(prefix) if ":worker:" in name]
        os.kill(worker, signal.SIGSTOP)
        try:
            several = [await client.start("support", text, conversation_id=f"cap-{number}") for number in range(1, 9)]
        finally:
            os.kill(worker, signal.SIGCONT)
        states = await asyncio.gather(*(one.wait(timeout_s=60) for one in several))
        assert {state.reply for state in states} == {"Hello."}


async def test_at_the_cap_a_caller_is_told_and_what_was_acknowledged_proceeds(stack, monkeypatch):
    monkeypatch.setenv(GUESTS, "0")
    monkeypatch.setenv("HOLDFAST_MAX_ACTORS", "1")
    monkeypatch.setenv("HOLDFAST_STANDBY", "1")
    text = stack.scenarios.add("capped", "Hello.", "Hello.")
    async with client_of("capped", timeout_s=60) as client:
        warm = await client.start("support", text, conversation_id="capped-0")
        await warm.wait(timeout_s=60)
        prefix = client.gateway.stack._transport.settings.prefix
        (worker,) = [await pid_of(find(name)) for name in named(prefix) if ":worker:" in name]
        os.kill(worker, signal.SIGSTOP)  # it confirms nothing, so the conversation keeps the one actor
        try:
            first = await client.start("support", text, conversation_id="capped-1")
            async with AsyncClient.connect("shop_app:app", namespace="capped", timeout_s=3) as hurried:
                with pytest.raises(Overloaded) as told:
                    await hurried.start("support", text, conversation_id="capped-2")
        finally:
            os.kill(worker, signal.SIGCONT)
        assert told.value.retry_after_ms > 0
        assert (await first.wait(timeout_s=60)).reply == "Hello."
        second = await client.start("support", text, conversation_id="capped-2")
        assert (await second.wait(timeout_s=60)).reply == "Hello."


@pytest.mark.gate
async def test_conversations_of_an_app_that_cannot_be_opened_take_no_actors_from_others(stack, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_ACTORS", "2")
    monkeypatch.setenv("HOLDFAST_STANDBY", "1")
    text = stack.scenarios.add("fickle", "Hello at last.")
    other = stack.scenarios.add("steady", "Hello.")
    broken = stack.runs / "fickle.broken"
    async with (
        client_of("fickle", "fickle_app:app", timeout_s=60) as client,
        AsyncClient.connect("shop_app:app", namespace="fickle", timeout_s=60) as steady,
        opened(stack, "fickle") as store,
    ):
        # given an app that no worker can open, and more conversations of it than there are actors
        importlib.import_module("fickle_app")  # here it can be imported
        broken.touch()
        waiting = [await client.start("fickle", text, conversation_id=f"fickle-{number}") for number in range(4)]

        # then those of another app get actors, and each of these is taken up again and again
        conversation = await steady.start("support", other, conversation_id="steady-1")
        assert (await conversation.wait(timeout_s=60)).reply == "Hello."
        assert len(await store.live()) <= 2 + RESERVE
        assert "the app is broken" in (await store.problem("fickle_app:app"))

        # and once the app can be opened, all go on by themselves
        broken.unlink()
        states = await asyncio.gather(*(one.wait(timeout_s=120) for one in waiting))
        assert [state.reply for state in states] == ["Hello at last."] * 4


async def _many(stack, count: int) -> None:
    """So many conversations suspended by 8 clients at once, then answered and finished."""
    name = f"many-{count}"
    text = stack.scenarios.add(name, calls(call("ask", {"question": "Yes?"})), say("Thanks."))
    slots = asyncio.Semaphore(32)
    async with client_of(name, timeout_s=120) as client:

        async def suspended(number: int):
            async with slots:
                conversation = await client.start("support", text, conversation_id=f"{name}-{number}")
                state = await conversation.wait(timeout_s=300)
            assert state.status is Status.AWAITING_INPUT
            return state.pending[0]

        async def finished(shown) -> str:
            async with slots:
                receipt = await shown.resolve(Answer("yes"))
                return (await client.conversation(shown.conversation_id).wait(after=receipt.seq, timeout_s=300)).reply

        shown = await asyncio.gather(*map(suspended, range(count)))
        async with opened(stack, name) as store:
            assert len(await store.live()) <= 8 + RESERVE
        assert Counter(await asyncio.gather(*map(finished, shown))) == {"Thanks.": count}


@pytest.fixture
def fleet_of_eight(monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_ACTORS", "8")


@pytest.mark.gate
async def test_a_hundred_conversations_wait_and_finish_on_a_fleet_of_eight(stack, fleet_of_eight):
    await _many(stack, 100)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_thousand_conversations_wait_and_finish_on_a_fleet_of_eight(stack, fleet_of_eight):
    await _many(stack, 1000)


@pytest.mark.gate
async def test_actors_and_workers_are_replaced_after_so_much_use(stack, monkeypatch):
    monkeypatch.setenv("HOLDFAST_ADOPTIONS", "2")
    monkeypatch.setenv("HOLDFAST_EFFECTS", "3")
    monkeypatch.setenv("HOLDFAST_MAX_ACTORS", "4")
    monkeypatch.setenv(GUESTS, "0")
    text = stack.scenarios.add("recycled", "Hello.")
    async with (
        client_of("recycled", timeout_s=60) as client,
        opened(stack, "recycled") as store,
    ):
        actors = set()
        for number in range(10):
            conversation = await client.start("support", text, conversation_id=f"recycled-{number}")
            assert (await conversation.wait(timeout_s=60)).reply == "Hello."
            actors |= set(await store.live())
        assert await until_succeeded(store) >= 1
    assert len(actors) >= 5  # more than there may be at once


@pytest.mark.gate
async def test_a_worker_that_a_callback_has_made_grow_is_replaced_and_one_that_is_large_by_itself_is_not(stack, monkeypatch):
    monkeypatch.setenv("HOLDFAST_WORKER_MB", "128")  # less than any worker needs from the beginning
    quick = stack.scenarios.add("small", calls(call("quick", {})), "Quickly done.")
    leaking = stack.scenarios.add("leaking", calls(call("leak", {})), "Leaked.")
    async with (
        client_of("leaking", "rough_app:app", timeout_s=60) as client,
        opened(stack, "leaking") as store,
    ):
        conversation = await client.start("rough", quick, conversation_id="small")
        assert (await conversation.wait(timeout_s=60)).reply == "Quickly done."
        assert await generations(store) == []
        conversation = await client.start("rough", leaking, conversation_id="leaking-1")
        assert (await conversation.wait(timeout_s=60)).reply == "Leaked."
        assert await until_succeeded(store) == 1
        conversation = await client.start("rough", quick, conversation_id="small-again")
        assert (await conversation.wait(timeout_s=60)).reply == "Quickly done."


@asynccontextmanager
async def opened(stack, namespace: str):
    store = RedisStore(stack.redis_url, namespace=namespace)
    await store.open()
    yield store
    await store.close()


async def generations(store: RedisStore) -> list[int]:
    return [int(found) for found in await store._redis.hvals(store._keys.meta("generations"))]


async def until_succeeded(store: RedisStore) -> int:
    """How many successors of workers have come into office, once one has."""
    async with asyncio.timeout(60):
        while not (found := await generations(store)):
            await asyncio.sleep(0.05)
    return max(found)
