"""What an activation starts, and when: after it is durable, and only while it holds the lease."""

import asyncio

import pytest
from hosted import ABSENT, FakeWorkers, activated, decided, stored, until
from writer import call, reply, start

from holdfast.actors.workers import NoWorker
from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approve,
    Send,
    Status,
    ToolSpec,
)
from holdfast.errors import InvalidDecision
from holdfast.persistence import TakeoverReason
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore

DESK = AgentSpec(
    name="desk",
    model="m",
    tools=(
        ToolSpec(name="refund", approval="required"),
        ToolSpec(name="ask", executor="human"),
        ToolSpec(name="lookup"),
        ToolSpec(name="age", executor="human", response_schema='{"type": "integer"}'),
    ),
)
START = start("hi", spec=DESK)(ABSENT)
LEASE_MS = 10_000
NOW = 1_700_000_000_000


class Order(list):
    """What happened, in order: `written …` when an append is durable, `asked …` when a worker is."""

    def written_before(self, asked):
        """The kinds of events that were written before that was asked for."""
        written = [entry.split()[1:] for entry in self[: self.index(asked)] if entry.startswith("written")]
        return {kind for kinds in written for kind in kinds}


class NotingStore(FaultyStore):
    """Notes each append once its work is done; what it is then told to wait for delays the reply alone."""

    def __init__(self, inner, order):
        super().__init__(inner, Faults())
        self.order = order
        self.begun = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def append(self, conversation_id, write):
        self.begun += 1
        await self.gate.wait()
        answer = await self.inner.append(conversation_id, write)
        self.order.append("written " + " ".join(event.kind for event in write.events))
        return answer


class NotingWorkers(FakeWorkers):
    """Workers that note what they are asked for; the model answers from a list, tools at once."""

    def __init__(self, store, order, *answers):
        super().__init__(*answers)
        self.store, self.order = store, order
        self.gate.set()

    async def call_model(self, app, code, request):
        self.order.append(f"asked {request.effect_id}")
        self.answers = self.answers or [reply()]
        return await super().call_model(app, code, request)

    async def run_tool(self, app, code, request):
        self.order.append(f"asked {request.effect_id}")
        return await super().run_tool(app, code, request)


async def hosted(store, workers, **more):
    return await activated(store, workers, clock=lambda: NOW, lease_ms=LEASE_MS, tick_ms=60_000, **more)


async def desk(*answers):
    inner, order = await stored(DESK, clock=lambda: NOW), Order()
    store = NotingStore(inner, order)
    return store, NotingWorkers(inner, order, *answers), order


async def reached(store, status):
    return await until(store, lambda state: state.status is status)


async def a_while():
    """Everything that is ready has run, also what that made ready."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_promise_1_a_start_and_a_message_are_written_before_the_model_is_asked():
    store, workers, order = await desk()
    activation = await hosted(store, workers)
    store.gate.clear()
    asked = asyncio.create_task(activation.ask(START))
    await a_while()
    assert (store.begun, order, asked.done()) == (1, [], False)
    store.gate.set()
    await asked
    await reached(store, Status.IDLE)
    assert order.written_before("asked t1.m1") >= {"message_accepted", "turn_started"}
    store.gate.clear()
    begun, before = store.begun, list(order)
    asked = asyncio.create_task(activation.ask(Send(text="more", message_id="m-2")))
    await a_while()
    assert (store.begun, list(order), asked.done()) == (begun + 1, before, False)
    store.gate.set()
    await asked
    await reached(store, Status.IDLE)
    assert order.index("asked t2.m1") > len(before)


async def test_promise_1_an_answer_is_written_before_the_model_is_asked():
    store, workers, order = await desk(call("ask"))
    activation = await hosted(store, workers)
    await activation.ask(START)
    state = await reached(store, Status.AWAITING_INPUT)
    store.gate.clear()
    begun, before = store.begun, list(order)
    asked = asyncio.create_task(activation.ask(decided(state, Answer("blue"))))
    await a_while()
    assert (store.begun, list(order), asked.done()) == (begun + 1, before, False)
    store.gate.set()
    receipt = await asked
    assert (await store.at("c-1", [receipt.seq]))[0].kind == "suspension_settled"
    await reached(store, Status.IDLE)
    assert order.written_before("asked t1.m2") >= {"suspension_settled", "call_resolved"}


async def test_promise_1_an_approval_is_written_before_the_tool_is_dispatched():
    store, workers, order = await desk(call("refund"))
    activation = await hosted(store, workers)
    await activation.ask(START)
    state = await reached(store, Status.AWAITING_INPUT)
    store.gate.clear()
    begun, before = store.begun, list(order)
    asked = asyncio.create_task(activation.ask(decided(state, Approve())))
    await a_while()
    assert (store.begun, list(order), asked.done()) == (begun + 1, before, False)
    store.gate.set()
    await asked
    await reached(store, Status.IDLE)
    (run,) = [entry for entry in order if entry.startswith("asked") and "#" in entry]
    assert order.written_before(run) >= {"suspension_settled", "run_scheduled"}


async def test_promise_1_a_call_of_the_model_is_written_before_the_tool_is_dispatched():
    store, workers, order = await desk(call("lookup"))
    activation = await hosted(store, workers)
    model = workers.call_model

    async def answering(app, code, request):
        store.gate.clear()
        return await model(app, code, request)

    workers.call_model = answering
    await activation.ask(START)
    async with asyncio.timeout(10):
        while "asked t1.m1" not in order:
            await asyncio.sleep(0)
    await a_while()
    assert order[-1] == "asked t1.m1"
    workers.call_model = model
    store.gate.set()
    await reached(store, Status.IDLE)
    (run,) = [entry for entry in order if entry.startswith("asked") and "#" in entry]
    assert order.written_before(run) >= {"model_answered", "run_scheduled"}


async def test_no_effect_begins_while_nobody_knows_whether_the_last_outcome_was_recorded(skip):
    # given an answer of the model that was written and whose writer heard nothing
    noting, workers, order = await desk()
    store = FaultyStore(noting, Faults())
    activation = await hosted(store, workers)
    answered, come = workers.call_model, asyncio.Event()

    async def answering(app, code, request):
        answer = await answered(app, code, request)
        await come.wait()
        return answer

    workers.call_model = answering
    await activation.ask(START)
    async with asyncio.timeout(10):
        while "asked t1.m1" not in order:
            await asyncio.sleep(0)
    # and a store that takes nobody's place, and for longer than the lease renews none
    store.policy = Faults(append=FailAfter(), acquire=FailBefore(), renew=FailBefore())
    come.set()
    await reached(noting, Status.IDLE)
    await a_while()
    skip(LEASE_MS / 1000)
    await a_while()
    # when the lease is renewed before it is known what was written
    store.policy = Faults(acquire=FailBefore())
    for _ in range(2):
        skip(LEASE_MS / 3000)
        await a_while()
    # then the model is not asked what it has answered, neither now nor once that is known
    assert order.count("asked t1.m1") == 1
    store.policy = Faults()
    workers.call_model = answered
    skip(1)
    await activation.ask(Send(text="more", message_id="m-2"))
    await reached(store, Status.IDLE)
    assert [entry for entry in order if entry.startswith("asked")] == ["asked t1.m1", "asked t2.m1"]


async def test_an_activation_after_another_judges_an_answer_by_the_spec_of_its_turn():
    noting, workers, order = await desk(call("age"))
    first = await hosted(noting, workers)
    await first.ask(START)
    state = await reached(noting, Status.AWAITING_INPUT)
    owner = await noting.owner("c-1")
    second = await hosted(noting, NotingWorkers(noting.inner, order), seen=owner.token, because=TakeoverReason.DIED)
    with pytest.raises(InvalidDecision):
        await second.ask(decided(state, Answer("forty")))
    assert (await second.ask(decided(state, Answer(40)))).seq
    await reached(noting, Status.IDLE)


async def test_a_run_that_was_lost_with_its_worker_is_run_again_alone():
    noting, workers, _ = await desk(call("lookup"))
    requests, run_tool = [], workers.run_tool

    async def dying_once(app, code, request):
        requests.append(request)
        answer = await run_tool(app, code, request)
        if len(requests) == 1:
            raise NoWorker("its worker died, after it had claimed the run")
        return answer

    workers.run_tool = dying_once
    activation = await hosted(noting, workers)
    await activation.ask(START)
    await reached(noting, Status.IDLE)
    assert [(request.attempt, request.max_claims) for request in requests] == [(1, 0), (2, 1)]
    assert len({request.tool_call_id for request in requests}) == 1
