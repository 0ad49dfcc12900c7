"""What is due is done as a guest where nobody owns the conversation; whatever keeps it from that, an actor does."""

import asyncio

import pytest
from hosted import FakeWorkers, Keeps
from writer import APP, DESK, Writer, begin, call, reply, send, start

from holdfast.actors.answers import Hosted, Replied
from holdfast.conversation import Wake, evolve
from holdfast.conversation.records.events import CallHeld
from holdfast.conversation.terms.stages import OnTimeout
from holdfast.errors import Fenced, StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.registry.messages import Messages
from holdfast.registry.registry import Delivery
from holdfast.registry.sweep import AT_ONCE, Sweep
from holdfast.settings import ProcessLimits, Timing, TraceSettings
from holdfast.testing import FailBefore, Faults, FaultyStore

DEADLINE_S = 20
HOUR_MS = 3_600_000


class Told(FakeWorkers):
    """Workers that claim whatever they are told of."""

    def __init__(self, store):
        super().__init__(*[Keeps(f"i.{number}") for number in range(200)])
        self.store = store


class NoActors:
    """No actor ever comes: what needs one is asked for here."""

    def __init__(self):
        self.taken = []

    async def find(self, name):
        return None

    def judges(self, name):
        return True

    def ours(self, name):
        return True

    def new_name(self):
        return "actor-1"

    async def spawn(self, name, *, offer):
        return self

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        self.taken.append(conversation_id)
        return Hosted()

    async def ask(self, conversation_id, command):
        return Replied(None)


@pytest.fixture
async def store():
    inner = MemoryStore()
    await inner.put_app(APP, [DESK])
    return inner


def messages_of(store, workers=None, traces=None):
    return Messages(store, workers or Told(store), "1", traces or TraceSettings())


def wake(conversation_id="c-1"):
    return Delivery(conversation_id, Wake(), timeout_s=DEADLINE_S, waits_for_store=False)


async def delayed(store, name="c-1", *steps, due_ms=-1000):
    """A conversation that has done a turn (or these steps), left by its owner, with a message that is due in `due_ms`."""
    now = await store.now()
    writer = await Writer.of(store, name)
    begun = start(app=APP.app, spec=DESK), begin()
    await writer.do(*begun, *(steps or (reply(),)), send("later", due=now + due_ms), now=now - HOUR_MS // 2)
    await writer.release()
    return writer


async def expired(store, name="c-1"):
    """A conversation whose call is overdue, left by its owner."""
    writer = await Writer.of(store, name)
    await writer.do(start(app=APP.app, spec=DESK), begin(), call("ask"), now=await store.now() - 2 * HOUR_MS)
    await writer.release()
    return writer


async def kinds(store, after):
    return [event.kind for _, event in await store.read("c-1", after=after)]


async def told(workers):
    async with asyncio.timeout(DEADLINE_S):
        while not workers.calls and not workers.runs:
            await asyncio.sleep(0.001)


async def test_a_delayed_message_begins_its_turn_in_the_same_write_and_a_worker_is_told(store):
    writer, workers = await delayed(store), Told(store)
    messages = messages_of(store, workers)
    assert (await store.attention(9)).conversation_ids == ["c-1"]
    assert isinstance(await messages.accepted(wake()), Replied)
    assert await kinds(store, writer.state.seq) == ["input_due", "turn_started"]
    owner = await store.owner("c-1")
    assert (owner.token, owner.epoch) == ("", writer.epoch + 1)
    assert (await store.attention(9)).conversation_ids == [], "it is left to its worker for a while"
    await told(workers)
    assert [request.effect_id for request in workers.calls] == ["t2.m1"]
    await messages.close()


async def test_a_call_that_nobody_decided_expires_and_a_worker_is_told(store):
    writer, workers = await expired(store), Told(store)
    messages = messages_of(store, workers)
    assert isinstance(await messages.accepted(wake()), Replied)
    assert await kinds(store, writer.state.seq) == ["suspension_settled", "call_resolved"]
    assert (await store.owner("c-1")).token == ""
    await told(workers)
    assert [request.effect_id for request in workers.calls] == ["t1.m2"]
    await messages.close()


async def test_a_call_that_was_held_until_now_reaches_a_worker(store):
    writer, workers = await Writer.of(store, "c-1"), Told(store)
    await writer.do(start(app=APP.app, spec=DESK), begin(), call("lookup"))
    (run,) = writer.state.calls
    held = run.carried(CallHeld, at=await store.now(), held_until=await store.now() - 1000)
    await store.append("c-1", writer.write([held], evolve(writer.state, held)))
    await writer.release()
    messages = messages_of(store, workers)
    assert isinstance(await messages.accepted(wake()), Replied)
    assert (await store.owner("c-1")).token == ""
    await told(workers)
    assert [request.effect_id for request in workers.runs] == [f"{run.tool_call_id}#2"]
    workers.gate.set()
    await messages.close()


async def test_a_reminder_is_written_and_the_call_waits_on(store):
    terms = OnTimeout(reminders_s=(1800,))
    spec = DESK.model_copy(update={"tools": tuple(tool.model_copy(update={"on_timeout": terms}) for tool in DESK.tools)})
    writer = await Writer.of(store, "c-1")
    writer.spec = spec
    await store.put_app(APP.model_copy(update={"agents": {"desk": spec.digest}}), [spec])
    await writer.do(start(app=APP.app, spec=spec), begin(), call("ask"), now=await store.now() - HOUR_MS * 3 // 4)
    await writer.release()
    messages = messages_of(store)
    assert isinstance(await messages.accepted(wake()), Replied)
    assert await kinds(store, writer.state.seq) == ["call_reminded"]
    assert not (await store.load("c-1")).busy
    await messages.close()


async def test_a_wake_before_its_time_writes_nothing(store):
    writer = await delayed(store, due_ms=HOUR_MS)
    messages = messages_of(store)
    assert isinstance(await messages.accepted(wake()), Replied)
    assert await kinds(store, writer.state.seq) == []
    assert (await store.attention(9)).conversation_ids == []
    await messages.close()


async def test_a_message_that_comes_due_while_a_call_waits_is_queued(store):
    writer, workers = await delayed(store, "c-1", call("ask"), due_ms=-1000), Told(store)
    messages = messages_of(store, workers)
    assert isinstance(await messages.accepted(wake()), Replied)
    assert (await kinds(store, writer.state.seq))[0] == "input_due"
    assert len((await store.load("c-1")).queue) == 1
    await messages.close()


async def test_a_wake_that_another_writer_precedes_is_judged_anew(store):
    class Crossed(FaultyStore):
        async def visit(self, conversation_id, *, most_bytes):
            visited = await store.visit(conversation_id, most_bytes=most_bytes)
            if len(visited.state.delayed) == 1:
                await Writer.visiting(store, conversation_id, visited).do(send("another", due=await store.now() + HOUR_MS))
            return visited

    await delayed(store)
    messages = messages_of(Crossed(store, Faults()), Told(store))
    assert isinstance(await messages.accepted(wake()), Replied)
    state = await store.load("c-1")
    assert state.turn is not None
    assert len(state.delayed) == 1
    await messages.close()


async def test_a_wake_that_is_fenced_three_times_is_an_actors(store):
    writer = await delayed(store)
    faulty = FaultyStore(store, Faults(append=FailBefore(Fenced("c-1"))))
    assert await messages_of(faulty).accepted(wake()) is None
    assert (faulty.calls["visit"], faulty.calls["append"]) == (3, 3)
    assert await kinds(store, writer.state.seq) == []


async def test_what_has_an_owner_or_works_or_is_traced_is_woken_by_an_actor(store):
    await delayed(store, "traced")
    assert await messages_of(store, traces=TraceSettings(on=True)).accepted(wake("traced")) is None
    await delayed(store, "works", call("lookup"))
    assert await messages_of(store).accepted(wake("works")) is None
    await delayed(store, "owned")
    await Writer.of(store, "owned")
    assert await messages_of(store).accepted(wake("owned")) is None


# -- the sweep -------------------------------------------------------------------------------------------------------------


def sweep_of(store, actors, messages):
    return Sweep(store, actors, timing=Timing(), process_limits=ProcessLimits(standby=0), messages=messages)


async def swept(sweep, condition):
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():
            await sweep.tick()
            await asyncio.sleep(0.005)


async def test_a_herd_is_found_by_one_tick_and_woken_without_actors_some_at_a_time(store):
    names, under_way, most = [f"c-{number}" for number in range(5 * AT_ONCE)], set(), []
    for name in names:
        await delayed(store, name)

    class Counting(FaultyStore):
        async def visit(self, conversation_id, *, most_bytes):
            under_way.add(conversation_id)
            most.append(len(under_way))
            await asyncio.sleep(0.001)
            under_way.discard(conversation_id)
            return await store.visit(conversation_id, most_bytes=most_bytes)

    actors = NoActors()
    messages = messages_of(Counting(store, Faults()), Told(store))
    sweep = sweep_of(store, actors, messages)
    await sweep.tick()

    async def all_begun():
        return all([(await store.load(name)).turn is not None for name in names])

    async with asyncio.timeout(DEADLINE_S):
        while not await all_begun():
            await asyncio.sleep(0.005)
    assert actors.taken == []
    assert max(most) <= AT_ONCE
    await messages.close()


async def test_what_no_guest_may_write_is_woken_by_an_actor(store):
    await delayed(store)
    actors = NoActors()
    faulty = FaultyStore(store, Faults(append={1: FailBefore(StoreUnavailable("away"))}))

    async def taken():
        return actors.taken == ["c-1"]

    await swept(sweep_of(store, actors, messages_of(faulty)), taken)
