"""New work that is paused: where it waits, what goes on meanwhile, and that all of it goes on by itself afterwards."""

import asyncio
import sys
import time
import types

import pytest
from given_worker import GivenWorker, carried_out
from hosted import GATED, OPEN, START, FakeWorkers, activated, decided, stored, until
from writer import DESK, Writer, begin, call, reply, start

from holdfast.actors import admission, wire
from holdfast.actors import worker as worker_package
from holdfast.actors.admission import FRESH_S, LAG_S, Admission
from holdfast.actors.answers import Hosted
from holdfast.actors.host import Host
from holdfast.actors.workers import ModelRequest, NoOutcome, RunRequest, WorkPaused
from holdfast.agent import Agent, tool
from holdfast.conversation import Approve, ModelReplied, Send, Status, Wake
from holdfast.errors import CorruptStore, StoreUnavailable
from holdfast.persistence import AppRecord, MemoryStore, RunStatus, TakeoverReason
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import Delay, FailBefore, Faults, FaultyStore

OPEN_START = START.model_copy(update={"spec": OPEN})
RAN = []


@tool
async def lookup() -> str:
    """Look something up."""
    RAN.append("lookup")
    return "found"


DESK_WITH_LOOKUP = Agent(name="desk", model="m", tools=[lookup])


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(admission, "LOOK_S", 0.01)
    RAN.clear()


@pytest.fixture
def at_once(monkeypatch):
    """Every look at the pauses is a fresh one."""
    monkeypatch.setattr(admission, "FRESH_S", 0.0)


async def pause(store, agent=None):
    return await store.pause(agent, by="ana@desk", reason="")


class Workers(FakeWorkers):
    """They look at the pauses before they begin anything, as real ones do."""

    async def call_model(self, app, code, request):
        await Admission(self.store).admit(request.agent)
        return await super().call_model(app, code, request)

    async def run_tool(self, app, code, request):
        await Admission(self.store).admit(request.agent)
        return await super().run_tool(app, code, request)


async def at_rest(activation):
    async with asyncio.timeout(10):
        while activation.rest.since is None:
            await asyncio.sleep(0)


# -- what a process knows of the pauses -----------------------------------------------------------------------------------


async def test_one_look_lets_many_begin_and_is_used_for_less_than_a_second(skip):
    store = FaultyStore(MemoryStore(), Faults())
    view = Admission(store)

    until_ms = await asyncio.gather(*(view.admit("desk") for _ in range(50)))
    assert store.calls["paused"] == 1
    assert max(until_ms) <= await store.now() + 1000
    await pause(store)
    assert await view.admit("desk") == until_ms[0], "which is what the second is for"

    skip(FRESH_S)
    with pytest.raises(WorkPaused, match="the namespace"):
        await view.admit("desk")
    assert store.calls["paused"] == 2


async def test_a_pause_of_one_agent_holds_no_other(at_once):
    store = MemoryStore()
    await pause(store, "desk")

    with pytest.raises(WorkPaused, match="agent desk"):
        await Admission(store).admit("desk")
    assert await Admission(store).admit("bar")


@pytest.mark.parametrize("fault", [FailBefore(), FailBefore(CorruptStore("the pauses are no hash"))])
async def test_what_cannot_be_looked_at_lets_nothing_begin_and_is_no_fault_of_a_conversation(fault):
    with pytest.raises(StoreUnavailable) as refused:
        await Admission(FaultyStore(MemoryStore(), Faults(paused=fault))).admit("desk")
    assert refused.value.__cause__ is None


async def test_what_was_long_on_its_way_is_read_anew(skip):
    on_its_way, inner = asyncio.Event(), MemoryStore()
    store = FaultyStore(inner, Faults(paused={1: Delay(until=on_its_way)}))
    asked = asyncio.create_task(Admission(store).admit("desk"))
    await asyncio.sleep(0.01)

    skip(LAG_S)
    await pause(inner, "desk")  # it counts by the time that the first reading comes
    on_its_way.set()

    with pytest.raises(WorkPaused):
        await asked
    assert store.calls["paused"] == 2


async def test_what_is_always_long_on_its_way_lets_nothing_begin(skip):
    class Slow(MemoryStore):
        async def paused(self):
            skip(LAG_S)
            return await super().paused()

    with pytest.raises(StoreUnavailable, match="too long"):
        await Admission(Slow()).admit("desk")


# -- workers --------------------------------------------------------------------------------------------------------------


async def runnable(store):
    """A run that nobody has claimed."""
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup"))
    (called,) = writer.state.turn.calls
    return RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=called.effect_id,
        turn_id=writer.state.turn.turn_id,
        tool_call_id=called.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=called.arguments_at,
    )


async def test_a_worker_claims_no_run_that_is_paused_and_runs_it_afterwards(at_once):
    store = MemoryStore()
    request = await runnable(store)
    worker = GivenWorker(store, DESK_WITH_LOOKUP)
    await pause(store, "desk")

    with pytest.raises(WorkPaused):
        await worker._tool_run(request)
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.RUNNABLE
    assert RAN == []

    await store.unpause("desk")
    assert (await carried_out(worker, request)).ok
    assert RAN == ["lookup"]


async def test_a_worker_that_freezes_between_its_look_and_its_claim_claims_nothing():
    now = [1_700_000_000_000]
    store = MemoryStore(clock=lambda: now[0])
    request = await runnable(store)
    asked, thawed = asyncio.Event(), asyncio.Event()

    class Freezing(FaultyStore):
        def __getattr__(self, name):
            if name == "claim":
                asked.set()
            return super().__getattr__(name)

    frozen = Freezing(store, Faults(claim=Delay(until=thawed)))
    running = asyncio.create_task(GivenWorker(frozen, DESK_WITH_LOOKUP)._tool_run(request))
    await asked.wait()
    await pause(store)
    now[0] += 1001
    thawed.set()

    assert await running is NoOutcome.NOT_MINE
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.RUNNABLE
    assert RAN == []


async def test_a_worker_calls_no_model_while_that_is_paused(at_once, monkeypatch):
    called = []

    async def call_model(store, request, **_):
        called.append(request.effect_id)
        return ModelReplied(effect_id=request.effect_id, content="yes")

    module = types.ModuleType("holdfast.actors.worker.model")
    module.call = call_model
    monkeypatch.setitem(sys.modules, "holdfast.actors.worker.model", module)
    monkeypatch.setattr(worker_package, "model", module, raising=False)
    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    request = ModelRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id="t1.m1",
        upto_seq=writer.state.seq,
        attempt=1,
    )
    worker = GivenWorker(store, DESK_WITH_LOOKUP)
    await pause(store)

    with pytest.raises(WorkPaused):
        await worker.do(wire.pack(request))
    assert called == []

    await store.unpause(None)
    assert wire.unpack(await worker.do(wire.pack(request))).content == "yes"


# -- a conversation -------------------------------------------------------------------------------------------------------


async def test_a_turn_that_is_paused_before_it_begins_waits_and_begins_with_what_stands_then(at_once):
    store, workers = await stored(GATED, OPEN), Workers(reply())
    await pause(store)
    activation = await activated(store, workers)

    receipt = await activation.ask(START)
    assert (receipt.seq, receipt.duplicate) == (2, False)
    await at_rest(activation)
    assert (await store.load("c-1")).turn is None

    await store.put_app(AppRecord(app="shop:app", code="k2", agents={"desk": OPEN.digest}), (OPEN,))
    await store.unpause(None)

    await until(store, lambda state: state.status is Status.IDLE and state.last is not None)
    (began,) = [event for _, event in await store.read("c-1", after=0) if event.kind == "turn_started"]
    assert (began.code, began.spec_digest) == ("k2", OPEN.digest)


async def test_a_turn_that_comes_too_late_for_what_it_was_admitted_by_is_prepared_anew(monkeypatch):
    store, workers = await stored(OPEN), Workers(reply())
    activation = await activated(store, workers)
    real, asked = Admission.admit, []

    async def admit(self, agent):
        until_ms = await real(self, agent)
        asked.append(agent)
        return until_ms if len(asked) > 2 else await store.now()

    monkeypatch.setattr(Admission, "admit", admit)
    await activation.ask(START.model_copy(update={"spec": OPEN}))
    await until(store, lambda state: state.status is Status.IDLE and state.last is not None)
    assert len(asked) >= 3  # with the message, by itself, and anew
    assert [event.kind for _, event in await store.read("c-1", after=0)].count("turn_started") == 1


async def test_what_runs_goes_on_and_what_follows_from_it_waits(at_once):
    store, workers = await stored(OPEN), Workers(call("refund"), reply())
    activation = await activated(store, workers)
    await activation.ask(OPEN_START)
    async with asyncio.timeout(10):
        while not workers.runs:
            await asyncio.sleep(0)

    await pause(store, "desk")
    assert activation.rest.since is None
    workers.gate.set()

    state = await until(store, lambda state: state.status is Status.GENERATING and state.turn.model_effect_id.endswith("m2"))
    await at_rest(activation)
    assert len(workers.calls) == 1
    assert state.turn is not None

    await store.unpause("desk")
    await until(store, lambda state: state.status is Status.IDLE)
    assert len(workers.calls) == 2


async def test_a_decision_is_acknowledged_while_its_run_waits_and_no_look_counts_as_a_strike(at_once):
    store, workers = await stored(GATED), Workers(call("refund"), reply())
    activation = await activated(store, workers)
    await activation.ask(START)
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    await pause(store)

    assert not (await activation.ask(decided(state, Approve()))).duplicate
    assert (await activation.ask(decided(state, Approve()))).duplicate
    await at_rest(activation)
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert workers.runs == []
    (call_,) = (await store.load("c-1")).calls
    assert (await store.run("c-1", call_.effect_id)).status is RunStatus.RUNNABLE
    assert not (await activation.ask(Send(text="and then?", message_id="m-2"))).duplicate
    assert await store.quarantine("c-1") is None

    workers.gate.set()
    await store.unpause(None)
    await until(store, lambda state: state.turn is not None and state.turn.turn_id == "t2")
    assert len(workers.runs) == 1


async def test_a_conversation_that_waits_is_left_and_taken_up_again_when_the_pause_is_over(at_once):
    store, workers = await stored(GATED), Workers(reply())
    await pause(store)
    activation = await activated(store, workers, lease_ms=60_000)
    await activation.ask(START)
    await at_rest(activation)

    assert await activation.passivate()
    assert activation.over
    owner = await store.owner("c-1")
    assert (owner.token, owner.actor) == ("", "")
    assert list((await store.attention(10)).conversation_ids) == []

    await store.unpause(None)
    assert await store.readmit(10) == 1
    assert list((await store.attention(10)).conversation_ids) == ["c-1"]
    await activated(store, workers)
    await until(store, lambda state: state.status is Status.IDLE and state.last is not None)


async def test_a_conversation_is_not_left_once_its_pause_is_over(at_once):
    store, workers = await stored(GATED), Workers()
    await pause(store)
    activation = await activated(store, workers)
    await activation.ask(START)
    await at_rest(activation)
    await store.unpause(None)
    async with asyncio.timeout(10):
        while not workers.calls:
            await asyncio.sleep(0)

    assert activation.rest.since is None
    assert not await activation.passivate()


async def test_rest_in_a_pause_lasts_however_often_the_lease_is_renewed(at_once):
    store, now = await stored(GATED), [1000]
    await pause(store)
    host = Host(
        store,
        Workers(),
        name="actor-1",
        timing=Timing(lease_ms=30, tick_ms=10, linger_ms=50),
        process_limits=ProcessLimits(standby=2),
        clock=lambda: now[0],
        leave=lambda: None,
    )
    assert await host.activate("c-1", "", TakeoverReason.ASKED, create=True) == Hosted()
    await host.ask("c-1", START)
    async with asyncio.timeout(10):
        while host.hosted is not None:
            await asyncio.sleep(0.005)
            now[0] += 1

    assert (await store.owner("c-1")).actor == ""
    assert list((await store.attention(10)).conversation_ids) == []


async def test_one_actor_does_for_any_number_of_conversations_that_wait(at_once):
    store, workers = await stored(GATED), Workers()
    await pause(store)
    host = Host(
        store,
        workers,
        name="actor-1",
        timing=Timing(),
        process_limits=ProcessLimits(),
        clock=lambda: time.monotonic_ns() // 1_000_000,
        leave=lambda: None,
    )
    for number in range(5):
        async with asyncio.timeout(10):
            while await host.activate(f"c-{number}", "", TakeoverReason.ASKED, create=True) != Hosted():
                await asyncio.sleep(0.005)
        await host.ask(f"c-{number}", START)

    started = [name for name in (f"c-{number}" for number in range(5)) if (await store.load(name)).seq == 2]
    assert len(started) == 5
    assert workers.calls == []


async def test_a_deadline_that_passes_while_work_is_paused_is_recorded(at_once):
    store = await stored(DESK)
    writer = await Writer.of(store, "c-1", lease_ms=1)
    await writer.do(start(), begin(), call("ask"), now=await store.now() - 3_700_000)
    await pause(store)

    workers = Workers(reply())
    workers.store = store
    host = Host(
        store, workers, name="actor-1", timing=Timing(), process_limits=ProcessLimits(), clock=lambda: 0, leave=lambda: None
    )
    assert await host.activate("c-1", writer.token, TakeoverReason.DIED, create=False) == Hosted()
    await host.ask("c-1", Wake())

    assert (await store.load("c-1")).status is Status.GENERATING
    assert [event.by for _, event in await store.read("c-1", after=0) if event.kind == "suspension_settled"] == ["expiry"]
    assert workers.calls == []
