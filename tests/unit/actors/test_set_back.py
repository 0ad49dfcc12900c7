"""A store is set back and a conversation goes on otherwise: a worker that lived meanwhile takes nothing of before."""

import asyncio
import copy
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from hosted import FromStore, activated, decided

import holdfast.actors.worker
from holdfast.actors import wire
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.worker import Worker
from holdfast.actors.workers import Claimed, ModelRequest, NoOutcome
from holdfast.agent import Agent, App, Tool, tool
from holdfast.conversation import Answer, Approve, ModelReplied, Start, Status
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import AppRecord, MemoryStore, RunStatus, TakeoverReason

ACTORS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
SETTINGS = WorkerSettings(ACTORS, "worker-0", "shop:app", "k", base="worker-0")


class GivenWorker(Worker):
    """Its store and its app are given."""

    def __init__(self, store, app):
        super().__init__(SETTINGS)
        self._given, self.app, self.left, self.worn = store, app, 0, False
        self.asked, self.joined, self.latest = 0, [], None

    async def _open(self):
        return self._given, self

    async def do(self, asked):
        self.asked += isinstance(wire.unpack(asked), ModelRequest)
        return await super().do(asked)

    async def keeps(self, incarnations):
        self.joined += incarnations
        return await super().keeps(incarnations)

    async def loop(self):
        if not hasattr(self, "_app_loop"):
            self._app_loop = await AppLoop.open(self.app)
        return self._app_loop


class OneWorker(FromStore):
    """One worker, asked as Ray asks it."""

    def __init__(self, worker):
        self._worker = worker
        self.store = worker._given

    async def call_model(self, app, code, request):
        return wire.unpack(await self._worker.do(wire.pack(request)))

    async def run_tool(self, app, code, request):
        return wire.unpack(await self._worker.do(wire.pack(request)))

    async def join(self, worker, incarnation, conversation_id, effect_id):
        kept = (await self._worker.keeps([incarnation]))[0]
        return Claimed.BEGUN if kept else NoOutcome.FORGOTTEN

    def drop(self, worker, incarnation):
        self._worker._claims.drop(incarnation)


class Stack:
    """A store, a worker, and a model that is a function; `sent` is what the model was sent."""

    def __init__(self, agent, monkeypatch):
        self.sent = []
        self.store = MemoryStore()
        self.agent = agent
        self.worker = GivenWorker(self.store, App(agents=[agent]))
        self.held = asyncio.Event()
        self.held.set()
        monkeypatch.setattr(holdfast.actors.worker, "model", SimpleNamespace(call=self._call), raising=False)

    async def _call(self, store, request, *, messages, **_):
        self.sent.append(copy.deepcopy(messages))
        await self.held.wait()
        if messages[-1]["role"] == "user":
            asked = ProposedCall(tool_call_id=f"call_{request.effect_id}", name=self.agent.tools[0].name, arguments="{}")
            return ModelReplied(effect_id=request.effect_id, calls=(asked,))
        return ModelReplied(effect_id=request.effect_id, content=f"It was {messages[-1]['content']}.")

    async def opened(self):
        spec = self.agent.spec
        await self.store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": spec.digest}), [spec])
        return self

    async def activated(self, because=TakeoverReason.ASKED):
        owner = await self.store.owner("c-1")
        seen = owner.token if owner is not None else ""
        return await activated(self.store, OneWorker(self.worker), seen=seen, because=because)

    async def begun(self):
        activation = await self.activated()
        spec = self.agent.spec
        await activation.ask(Start(agent="desk", app="shop:app", text="hi", message_id="m-1", spec=spec))
        return activation, await self.until(lambda state: state.status is Status.AWAITING_INPUT)

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition(await self.store.load("c-1")):
                await asyncio.sleep(0.001)
        return await self.store.load("c-1")

    def copied(self):
        return copy.deepcopy(self.store._conversations)

    def set_back(self, copied):
        self.store._conversations = copy.deepcopy(copied)


class Waits:
    """What may begin waits in this line until the test lets it go on, the first first."""

    def __init__(self, worker, monkeypatch):
        self.line = []
        self._bench_at = worker._bench_at
        monkeypatch.setattr(worker, "_bench_at", self._waiting)

    def _waiting(self, store, room):
        bench = self._bench_at(store, room)
        return replace(bench, admit=partial(self._admitted, bench.admit))

    async def _admitted(self, admit, agent):
        gate = asyncio.Event()
        self.line.append(gate)
        await gate.wait()
        return await admit(agent)

    async def reach(self, number):
        async with asyncio.timeout(10):
            while len(self.line) < number:
                await asyncio.sleep(0.001)


async def settled():
    """Everything that can go on has gone on."""
    for _ in range(200):
        await asyncio.sleep(0)


def idle(state):
    return state.status is Status.IDLE


def asking():
    schema = {"type": "string"}
    return Agent(name="desk", model="m", tools=[Tool(name="ask", executor="human", response_schema=schema)])


async def test_the_model_is_sent_the_answer_that_the_log_holds(monkeypatch):
    stack = await Stack(asking(), monkeypatch).opened()
    activation, state = await stack.begun()
    older = stack.copied()
    await activation.ask(decided(state, Answer("old")))
    await stack.until(idle)
    assert "old" in str(stack.sent[-1])

    stack.set_back(older)
    again = await stack.activated(TakeoverReason.DIED)
    await again.ask(decided(await stack.store.load("c-1"), Answer("new")))
    await stack.until(idle)
    assert "new" in str(stack.sent[-1])
    assert "old" not in str(stack.sent[-1])


async def test_a_call_that_is_under_way_for_the_old_log_is_not_joined_by_the_new_one(monkeypatch):
    stack = await Stack(asking(), monkeypatch).opened()
    activation, state = await stack.begun()
    older = stack.copied()
    stack.held.clear()
    await activation.ask(decided(state, Answer("old")))
    async with asyncio.timeout(10):
        while len(stack.sent) < 2:
            await asyncio.sleep(0.001)

    stack.set_back(older)
    again = await stack.activated(TakeoverReason.DIED)
    await again.ask(decided(await stack.store.load("c-1"), Answer("new")))
    async with asyncio.timeout(10):
        while len(stack.sent) < 3:
            await asyncio.sleep(0.001)
    stack.held.set()
    await stack.until(idle)
    answers = [event for _, event in await stack.store.read("c-1", after=0) if event.kind == "model_answered"]
    assert "new" in answers[-1].content
    assert "old" not in answers[-1].content


async def test_a_call_of_the_same_log_is_joined_by_who_takes_the_conversation_over(monkeypatch):
    stack = await Stack(asking(), monkeypatch).opened()
    activation, state = await stack.begun()
    stack.held.clear()
    await activation.ask(decided(state, Answer("one")))
    async with asyncio.timeout(10):
        while len(stack.sent) < 2:
            await asyncio.sleep(0.001)
    claim = await stack.store.run("c-1", "t1.m2")
    activation._stop()
    stack.worker.joined.clear()
    await stack.activated(TakeoverReason.DIED)
    async with asyncio.timeout(10):
        while not stack.worker.joined:
            await asyncio.sleep(0.001)
    stack.held.set()
    await stack.until(idle)
    assert set(stack.worker.joined) == {claim.incarnation}
    assert (stack.worker.asked, len(stack.sent)) == (2, 2)


async def test_a_body_that_runs_for_the_old_log_is_not_taken_for_the_run_of_the_new_one(monkeypatch):
    ran, gates = [], {1: threading.Event(), 2: threading.Event()}

    @tool(approval="required")
    def refund(amount: int = 0) -> str:
        """Refund it."""
        ran.append(amount)
        gates[amount].wait(30)
        return f"refunded {amount}"

    stack = await Stack(Agent(name="desk", model="m", tools=[refund]), monkeypatch).opened()
    try:
        activation, state = await stack.begun()
        older = stack.copied()
        await activation.ask(decided(state, Approve(arguments={"amount": 1})))
        async with asyncio.timeout(10):
            while ran != [1]:
                await asyncio.sleep(0.001)

        stack.set_back(older)
        again = await stack.activated(TakeoverReason.DIED)
        await again.ask(decided(await stack.store.load("c-1"), Approve(arguments={"amount": 2})))
        async with asyncio.timeout(10):
            while ran != [1, 2]:
                await asyncio.sleep(0.001)
        gates[1].set()
        gates[2].set()
        await stack.until(idle)
        assert "refunded 2" in str(stack.sent[-1])
        assert "refunded 1" not in str(stack.sent[-1])
    finally:
        for gate in gates.values():
            gate.set()


async def test_a_model_call_that_was_read_for_the_old_log_does_not_claim_the_call_of_the_new_one(monkeypatch):
    stack = await Stack(asking(), monkeypatch).opened()
    activation, state = await stack.begun()
    older, waits = stack.copied(), Waits(stack.worker, monkeypatch)
    await activation.ask(decided(state, Answer("old")))
    await waits.reach(1)

    stack.set_back(older)
    again = await stack.activated(TakeoverReason.DIED)
    await again.ask(decided(await stack.store.load("c-1"), Answer("new")))
    await waits.reach(2)
    waits.line[0].set()
    await settled()
    assert (await stack.store.run("c-1", "t1.m2")).status is RunStatus.RUNNABLE
    assert len(stack.sent) == 1
    waits.line[1].set()
    await stack.until(idle)
    assert "old" not in str(stack.sent)
    assert "new" in str(stack.sent[-1])


async def test_a_run_with_the_arguments_of_the_old_log_does_not_claim_the_run_of_the_new_one(monkeypatch):
    ran = []

    @tool(approval="required")
    async def refund(amount: int = 0) -> str:
        """Refund it."""
        ran.append(amount)
        return f"refunded {amount}"

    stack = await Stack(Agent(name="desk", model="m", tools=[refund]), monkeypatch).opened()
    activation, state = await stack.begun()
    older, waits = stack.copied(), Waits(stack.worker, monkeypatch)
    await activation.ask(decided(state, Approve(arguments={"amount": 1})))
    await waits.reach(1)

    stack.set_back(older)
    again = await stack.activated(TakeoverReason.DIED)
    await again.ask(decided(await stack.store.load("c-1"), Approve(arguments={"amount": 2})))
    await waits.reach(2)
    waits.line[0].set()
    await settled()
    assert ran == []
    waits.line[1].set()
    await waits.reach(3)
    waits.line[2].set()
    await stack.until(idle)
    assert ran == [2]
