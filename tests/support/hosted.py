"""One activation, against a store in memory and workers that are a fake, which answer with the steps of a writer."""

import asyncio
import time
import uuid
from dataclasses import dataclass

from writer import begin, resolve, start

from holdfast.actors.activation.activation import Activation
from holdfast.actors.activation.context import ActivationContext
from holdfast.actors.admission import Admission
from holdfast.actors.published import published_agent
from holdfast.actors.workers import Claimed, ModelRequest, NoOutcome, NoWorker
from holdfast.conversation import AgentSpec, RunFinished, State, ToolSpec, decide
from holdfast.conversation.text.envelope import success
from holdfast.persistence import AppRecord, MemoryStore, TakeoverReason, codec
from holdfast.settings import Timing

GATED = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund", approval="required", on_lost="error"),))
OPEN = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund"),))
ABSENT = State(conversation_id="c-1")
START = start("hi", spec=GATED)(ABSENT)


def _generating():
    state = ABSENT
    for step in (start("hi"), begin()):
        state = decide(state, step(state).stamped(0, GATED, {})).state
    return state


GENERATING = _generating()
"""A conversation whose first model call is outstanding. Answers of the model are made of it, with the request's effect id."""


class FromStore:
    """What stands for an app is what the store has: nobody signs anything here. `store` is set by who takes part."""

    async def do(self, app, request):
        return await (self.call_model if isinstance(request, ModelRequest) else self.run_tool)(app, request.code, request)

    async def published(self, app, agent):
        record = await self.store.app(app)
        return None if record is None else await published_agent(self.store, record, agent)


@dataclass(frozen=True)
class Dies:
    """Of a model call: a process claims it under this incarnation and dies."""

    incarnation: str


@dataclass(frozen=True)
class Keeps:
    """Of a model call: a process claims it under this incarnation, and is at it until somebody records an outcome."""

    incarnation: str


class FakeWorkers(FromStore):
    """Answers model calls from a list of steps, of processes that claim them, or of errors to raise; runs as they are told to.

    What is joined is answered with `join_answer`, or that is raised; with a `join_gate`, it goes on until that is open.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.runs = []
        self.joined = []
        self.dropped = []
        self.gate = asyncio.Event()
        self.join_answer = NoOutcome.GONE
        self.join_gate = None
        self.store = None

    async def call_model(self, app, code, request):
        self.calls.append(request)
        if not self.answers:
            await self.gate.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Dies | Keeps):
            return await self._claimed(request, answer)
        return answer(GENERATING).model_copy(update={"effect_id": request.effect_id})

    async def _claimed(self, request, answer):
        claimed = await self.store.claim(
            request.conversation_id,
            request.effect_id,
            incarnation=answer.incarnation,
            worker="w",
            bound_ms=60_000,
            instead_of=request.instead_of,
        )
        if not claimed:
            return NoOutcome.NOT_MINE
        if isinstance(answer, Dies):
            raise NoWorker("the worker does not answer")
        return Claimed.BEGUN

    async def run_tool(self, app, code, request):
        claimed = await self.store.claim(request.conversation_id, request.effect_id, incarnation="i.1", worker="w")
        if not claimed:
            return NoOutcome.NOT_MINE
        self.runs.append(request)
        await self.gate.wait()
        return RunFinished(effect_id=request.effect_id, ok=True, content=success('"done"'))

    async def join(self, worker, incarnation, conversation_id, effect_id):
        self.joined.append((conversation_id, effect_id))
        if self.join_gate is not None and not self.join_gate.is_set():
            return Claimed.BEGUN
        if isinstance(self.join_answer, Exception):
            raise self.join_answer
        return self.join_answer

    def drop(self, worker, incarnation):
        self.dropped.append((worker, incarnation))


def wall_ms():
    return time.time_ns() // 1_000_000


def context_of(store, workers, **more):
    """What an actor gives to its activations."""
    given = {"timing": Timing(), "clock": wall_ms, "rested": asyncio.Event(), "strikes": 3}
    return ActivationContext(store, workers, Admission(store), actor=f"actor-{uuid.uuid4().hex[:4]}", **given | more)


async def activated(
    store, workers, *, seen="", because=TakeoverReason.ASKED, clock=wall_ms, counts=None, traces=None, **timing
):
    """An activation that has taken the conversation over; `timing` is what differs of it."""
    workers.store = workers.store or store
    given = {name: value for name, value in {"counts": counts, "traces": traces}.items() if value is not None}
    hosting = Activation(context_of(store, workers, timing=Timing(**timing), clock=clock, **given), "c-1")
    assert await hosting.activate(seen_token=seen, because=because, create=True) is None
    return hosting


async def stored(*specs, **options):
    store = MemoryStore(**options)
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": specs[0].digest}), specs)
    return store


async def until(store, condition):
    async with asyncio.timeout(10):
        while True:
            if (await store.owner("c-1")).started and condition(await store.load("c-1")):
                return await store.load("c-1")
            await asyncio.sleep(0)


def decided(state, decision):
    """The decision about the only call, under one id however often it is said."""
    (waiting,) = state.calls
    return resolve(decision, waiting.tool_call_id, decision_id="d-1")(state)


def keeping(*answers):
    """Workers that go on with what they have claimed until the gate is open."""
    workers = FakeWorkers(*answers)
    workers.join_gate = asyncio.Event()
    return workers


async def soon(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def recorded(store, outcome, incarnation="p-1.x"):
    data = codec.encode(outcome)
    assert await store.finish("c-1", outcome.effect_id, incarnation=incarnation, outcome=data)
