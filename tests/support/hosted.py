"""One activation, against a store in memory and workers that are a fake."""

import asyncio
import time
import uuid

from holdfast.actors import Activation, NoOutcome
from holdfast.actors.admission import Admission
from holdfast.actors.published import standing_of
from holdfast.conversation import AgentSpec, Approve, ModelReplied, Resolve, RunFinished, Start, ToolSpec
from holdfast.conversation.commands import ProposedCall
from holdfast.conversation.decisions import Ruling
from holdfast.conversation.envelope import success
from holdfast.persistence import AppRecord, MemoryStore, TakeoverReason
from holdfast.settings import Timing

GATED = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund", approval="required", on_lost="error"),))
OPEN = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund"),))
START = Start(agent="desk", app="shop:app", text="hi", message_id="m-1", spec=GATED)


class FromStore:
    """What stands for an app is what the store has: nobody signs anything here. `store` is set by who takes part."""

    async def standing(self, app, agent):
        record = await self.store.app(app)
        return None if record is None else await standing_of(self.store, record, agent)


class FakeWorkers(FromStore):
    """Answers model calls from a list; runs as they are told to."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.runs = []
        self.joined = []
        self.gate = asyncio.Event()
        self.join_answer = NoOutcome.GONE
        self.store = None

    async def call_model(self, app, code, request):
        self.calls.append(request)
        if not self.answers:
            await self.gate.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer.model_copy(update={"effect_id": request.effect_id})

    async def run_tool(self, app, code, request):
        claimed = await self.store.claim(request.conversation_id, request.effect_id, incarnation="i.1", worker="w")
        if not claimed:
            return NoOutcome.NOT_MINE
        self.runs.append(request)
        await self.gate.wait()
        return RunFinished(effect_id=request.effect_id, ok=True, content=success('"done"'))

    async def join(self, worker, incarnation, conversation_id, effect_id):
        self.joined.append((conversation_id, effect_id))
        return self.join_answer

    def drop(self, conversation_id, effect_id):
        pass


def asks(name="refund", call_id="call_1"):
    return ModelReplied(effect_id="", calls=(ProposedCall(tool_call_id=call_id, name=name, arguments="{}"),))


def says(text="Done."):
    return ModelReplied(effect_id="", content=text)


async def activated(store, workers, *, seen="", because=TakeoverReason.ASKED, lease_ms=10_000):
    workers.store = store
    hosting = Activation(
        store,
        workers,
        admission=Admission(store),
        conversation_id="c-1",
        holder=f"actor-{uuid.uuid4().hex[:4]}",
        timing=Timing(lease_ms=lease_ms),
        clock=lambda: time.time_ns() // 1_000_000,
        rested=asyncio.Event(),
        strikes=3,
    )
    assert await hosting.activate(seen_token=seen, because=because, create=True) is None
    return hosting


async def stored(*specs):
    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": specs[0].digest}), specs)
    return store


async def until(store, condition):
    async with asyncio.timeout(10):
        while True:
            if (await store.owner("c-1")).started and condition(await store.load("c-1")):
                return await store.load("c-1")
            await asyncio.sleep(0)


def approve(state, **more):
    (call,) = state.calls
    return Resolve(tool_call_id=call.tool_call_id, ruling=Ruling.of(Approve()), decision_id="d-1", **more)
