"""Model calls, the app's rules, and bodies in one worker: none of them starves another, and nobody claims what cannot begin."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from given_worker import carried_out, claim_of, finished
from writer import Writer, begin, call, start

import holdfast.actors.worker
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker import claims
from holdfast.actors.worker import worker as module
from holdfast.actors.worker.app_loop import THREADS, AppLoop
from holdfast.actors.worker.app_runtime import AllBlocked
from holdfast.actors.worker.refusals import AppBroken, Dropped, Succeeded
from holdfast.actors.worker.worker import Worker
from holdfast.actors.workers import Claimed, ModelRequest, RunRequest
from holdfast.agent import Agent, App, Tool
from holdfast.conversation import ModelReplied, RunFinished
from holdfast.persistence import AppRecord, MemoryStore, RunStatus
from holdfast.testing import FailBefore, Faults, FaultyStore

ACTORS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
SETTINGS = WorkerSettings(ACTORS, "worker-0", "shop:app", "k", base="worker-0")


class Given(Worker):
    """Its store and its app are given; the model's rules are asked as the model's caller asks them."""

    def __init__(self, app, loop):
        super().__init__(SETTINGS)
        self.store, self.app, self._loop = MemoryStore(), app, loop
        self.left, self.worn, self.latest = 0, False, loop

    async def _open(self):
        return self.store, self

    async def loop(self):
        return self._loop

    async def _spec(self, store, digest):
        return self.app.agents[0].spec


@pytest.fixture
async def lanes(monkeypatch):
    async def called(store, request, *, spec, agent, loop, **_):
        there = loop()
        prompt = await there.asked(spec.name, "prompt=", lambda: agent.tool("slow").render({}), None)
        return ModelReplied(effect_id=request.effect_id, content=prompt)

    monkeypatch.setattr(holdfast.actors.worker, "model", SimpleNamespace(call=called), raising=False)
    over, begun = threading.Event(), []

    def slow() -> str:
        begun.append(threading.current_thread())
        over.wait(30)
        return "slow"

    def plain() -> str:
        return "plain"

    async def quick() -> str:
        return await asyncio.to_thread(lambda: "quick")

    tools = [Tool(callback=slow, prompt=lambda _: "Shall it?", approval="required"), Tool(callback=plain), Tool(callback=quick)]
    app = App(agents=[Agent(name="desk", model="m", tools=tools)])
    loop = await AppLoop.open(app)
    worker = Given(app, loop)
    await worker.store.put_app(AppRecord(app="shop:app", code="k"), [])
    yield SimpleNamespace(worker=worker, over=over, begun=begun, loop=loop)
    over.set()


async def asked(worker, tool, conversation_id):
    """A run of the tool in a conversation of its own, as its actor asks for it."""
    writer = await Writer.of(worker.store, conversation_id)
    writer.spec = worker.app.agents[0].spec.model_copy(
        update={"tools": tuple(each.model_copy(update={"approval": "auto"}) for each in worker.app.agents[0].spec.tools)}
    )
    await writer.do(start(), begin(), call(tool))
    (effect_id,) = writer.effect_ids
    return RunRequest(
        code="k",
        conversation_id=conversation_id,
        agent="desk",
        spec_digest="s",
        effect_id=effect_id,
        turn_id="t1",
        tool_call_id=effect_id.partition("#")[0],
        tool=tool,
        attempt=1,
        arguments_at=writer.state.seq - 1,
    )


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_bodies_that_hold_all_threads_hold_up_no_model_call_no_rule_and_no_async_body(lanes):
    worker = lanes.worker
    requests = [await asked(worker, "slow", f"c-{number}") for number in range(THREADS)]
    slow = [asyncio.create_task(carried_out(worker, request)) for request in requests]
    await until(lambda: len(lanes.begun) == THREADS)
    async with asyncio.timeout(20):
        writer = await Writer.of(worker.store, "c-model")
        await writer.do(start(), begin())
        request = ModelRequest(
            code="k",
            conversation_id="c-model",
            agent="desk",
            spec_digest="s",
            effect_id="t1.m1",
            upto_seq=writer.state.seq,
            attempt=1,
        )
        answer = await carried_out(worker, request)
        quick = await carried_out(worker, await asked(worker, "quick", "c-quick"))
    assert answer.content == "Shall it?"
    assert quick == RunFinished(effect_id=quick.effect_id, ok=True, content='{"ok":true,"result":"quick"}')
    lanes.over.set()
    async with asyncio.timeout(20):
        assert all(outcome.ok for outcome in await asyncio.gather(*slow))


async def test_a_run_that_waits_for_a_thread_is_not_claimed_and_runs_when_there_is_one(lanes, monkeypatch):
    monkeypatch.setattr(claims, "QUEUED_S", 0.01)
    worker = lanes.worker
    requests = [await asked(worker, "slow", f"c-{number}") for number in range(THREADS)]
    slow = [asyncio.create_task(carried_out(worker, request)) for request in requests]
    await until(lambda: len(lanes.begun) == THREADS)
    request = await asked(worker, "plain", "c-plain")
    for _ in range(2):
        assert await worker._tool_run(request) is Claimed.QUEUED
        assert (await worker.store.run("c-plain", request.effect_id)).status is RunStatus.RUNNABLE
    outcome = asyncio.create_task(finished(worker, claim_of(worker, request)))
    lanes.over.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*slow)
        assert (await outcome).content == '{"ok":true,"result":"plain"}'


async def test_a_run_that_waited_here_and_cannot_be_claimed_then_has_its_conversation_looked_at_at_once(lanes, monkeypatch):
    monkeypatch.setattr(claims, "QUEUED_S", 0.01)
    worker, store = lanes.worker, lanes.worker.store
    requests = [await asked(worker, "slow", f"c-{number}") for number in range(THREADS)]
    slow = [asyncio.create_task(carried_out(worker, request)) for request in requests]
    await until(lambda: len(lanes.begun) == THREADS)
    request = await asked(worker, "plain", "c-plain")
    worker.store = FaultyStore(store, Faults(claim=FailBefore()))
    assert await worker._tool_run(request) is Claimed.QUEUED
    await store.release("c-plain", (await store.owner("c-plain")).token, look_ms=30_000)

    lanes.over.set()

    async with asyncio.timeout(20):
        await asyncio.gather(*slow)
        while "c-plain" not in (await store.attention(10)).conversation_ids:
            await asyncio.sleep(0.001)


async def test_the_bound_of_a_body_begins_when_it_does(lanes):
    worker = lanes.worker
    lanes.worker.app.agents[0].tool("plain").spec = (
        lanes.worker.app.agents[0].tool("plain").spec.model_copy(update={"run_timeout_s": 0.5})
    )
    requests = [await asked(worker, "slow", f"c-{number}") for number in range(THREADS)]
    slow = [asyncio.create_task(carried_out(worker, request)) for request in requests]
    await until(lambda: len(lanes.begun) == THREADS)
    waiting = asyncio.create_task(carried_out(worker, await asked(worker, "plain", "c-plain")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):  # twice its bound
            await asyncio.shield(waiting)
    lanes.over.set()
    async with asyncio.timeout(20):
        assert (await waiting).ok
        await asyncio.gather(*slow)


async def test_a_worker_whose_loops_are_all_blocked_puts_a_successor_in_office_and_claims_nothing(lanes):
    worker = lanes.worker

    async def blocked():
        raise AllBlocked("async callbacks of desk block all 4 event loops of this process")

    worker.loop = blocked
    request = await asked(worker, "quick", "c-quick")
    with pytest.raises(Succeeded, match="event loops"):
        await worker._tool_run(request)
    assert await worker.store.generation("worker-0") == 1
    assert (await worker.store.run("c-quick", request.effect_id)).status is RunStatus.RUNNABLE


async def test_a_successor_that_the_store_did_not_hear_of_is_put_in_office_when_it_is_there_again(lanes):
    worker, inner = lanes.worker, lanes.worker.store
    worker.store = FaultyStore(inner, Faults(succeed=FailBefore()))

    async def blocked():
        raise AllBlocked("async callbacks of desk block all 4 event loops of this process")

    worker.loop = blocked
    with pytest.raises(Succeeded, match="event loops"):
        await worker._tool_run(await asked(worker, "quick", "c-quick"))
    assert await inner.generation("worker-0") == 0
    worker.store.policy = Faults()
    await worker._succession.hand_over(worker.store, held=False)
    assert await inner.generation("worker-0") == 1
    with pytest.raises(Succeeded, match="successor"):
        await worker._tool_run(await asked(worker, "quick", "c-other"))


async def test_a_worker_in_which_too_much_goes_on_that_nobody_waits_for_has_a_successor(lanes):
    worker = lanes.worker
    worker.worn = True
    assert (await carried_out(worker, await asked(worker, "quick", "c-1"))).ok
    with pytest.raises(Succeeded):
        await worker._tool_run(await asked(worker, "quick", "c-2"))
    assert await worker.store.generation("worker-0") == 1


async def test_a_lifespan_that_cannot_be_entered_again_claims_nothing_and_says_so(lanes):
    worker = lanes.worker

    async def failing():
        raise OSError("no database")

    worker.loop = failing
    request = await asked(worker, "quick", "c-quick")
    with pytest.raises(AppBroken, match="no database"):
        await worker._tool_run(request)
    assert (await worker.store.run("c-quick", request.effect_id)).status is RunStatus.RUNNABLE


async def test_who_joins_a_claim_joins_the_very_task_that_made_it(lanes):
    worker = lanes.worker
    request = await asked(worker, "slow", "c-1")
    running = asyncio.create_task(carried_out(worker, request))
    await until(lambda: lanes.begun)
    run = await worker.store.run("c-1", request.effect_id)
    joining = asyncio.create_task(finished(worker, run.incarnation))
    assert await worker.keeps([run.incarnation, f"{run.process}.of-another-task", "x.y"]) == [True, False, False]
    assert not joining.done()
    lanes.over.set()
    async with asyncio.timeout(20):
        assert await joining == await running
    assert await worker.keeps([run.incarnation]) == [False]


async def test_a_run_does_not_wait_for_a_lifespan_that_is_entered_again_for_longer_than_its_actor_does(lanes, monkeypatch):
    monkeypatch.setattr(module, "LOOP_S", 0.05)
    worker = lanes.worker

    async def entering():
        await asyncio.Event().wait()

    worker.loop = entering
    request = await asked(worker, "quick", "c-quick")
    with pytest.raises(Dropped, match="is entering the app's lifespan"):
        await worker._tool_run(request)
    assert (await worker.store.run("c-quick", request.effect_id)).status is RunStatus.RUNNABLE
