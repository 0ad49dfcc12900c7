"""What is due is judged by the clients that are attached, and each departure once, by an actor or by a guest."""

import asyncio

import pytest
from claiming import claim
from hosted import Keeps, activated, keeping
from writer import APP, DESK, Writer, begin, call, cancel_pending, end, reply, send, start

from holdfast.actors.activation import judge as module
from holdfast.actors.answers import Replied
from holdfast.conversation import Principal, Proof, Wake, decide
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.presence import GONE_MS, LEAVES_MS, OnDetach, Present
from holdfast.errors import CorruptStore, StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.registry.messages import Messages
from holdfast.registry.registry import Delivery
from holdfast.settings import TraceSettings
from holdfast.testing import Delay, FailAfter, FailBefore, Faults, FaultyStore

ANA = Principal("ana", proof=Proof.KEY)
HERE = Present(client_id="tab-1", principal=ANA, tools=("locate",))
LEAVING = HERE.model_copy(update={"on_detach": OnDetach.CANCEL})
FOR_ANA = ProposedCall(tool_call_id="call_a", name="refund", arguments="{}", approvers=ApproverTerms(who=(("id:ana",),)))
GRACE_MS = 5_000


class Clock:
    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def inner(clock):
    store = MemoryStore(clock=clock)
    await store.put_app(APP, [DESK])
    return store


@pytest.fixture
def judged(monkeypatch):
    """The commands, as they were judged."""
    commands = []

    def kept(state, command):
        commands.append(command)
        return decide(state, command)

    monkeypatch.setattr(module, "decide", kept)
    return commands


async def by_guest(store, clock, command):
    workers = keeping(*[Keeps(f"i.{number}") for number in range(5)])
    workers.store = store
    messages = Messages(store, workers, "1", TraceSettings())
    async with asyncio.timeout(20):
        answer = await messages.accepted(Delivery("c-1", command, timeout_s=20, create=False))
        await messages.close()
    assert isinstance(answer, Replied), answer


async def by_actor(store, clock, command):
    activation = await activated(store, keeping(*[Keeps(f"i.{number}") for number in range(5)]), clock=clock)
    async with asyncio.timeout(20):
        await activation.ask(command)
        assert await activation.passivate()


@pytest.fixture(params=[by_guest, by_actor])
def tell(request, clock):
    """Has a command judged and written, about a conversation without an owner."""
    return lambda store, command=None: request.param(store, clock, command or Wake())


async def waiting(store, *steps):
    """A conversation without an owner, after these steps of its first turn."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(app=APP.app), begin(), *steps)
    await writer.release()
    return writer


async def attention(store):
    return list((await store.attention(9)).conversation_ids)


async def kinds(store, after):
    return [event.kind for _, event in await store.read("c-1", after=after)]


# -- what is judged by the clients -------------------------------------------------------------------------------------------


async def test_a_call_for_clients_is_looked_after_by_those_that_are_attached(inner, clock, judged, tell):
    await waiting(inner, call("locate"))
    until = await inner.attach("c-1", HERE)
    clock.now += GRACE_MS + 1

    await tell(inner)

    assert [one.present for one in judged] == [(HERE.model_copy(update={"until": until}),)]
    assert await kinds(inner, 5) == []
    assert inner.due["c-1"] == until + GRACE_MS
    clock.now = until + GRACE_MS - 1
    assert await attention(inner) == []
    clock.now += 1
    assert await attention(inner) == ["c-1"]
    await tell(inner)
    assert (await kinds(inner, 5))[-1] == "call_resolved"


async def test_what_is_due_besides_asks_for_no_clients(inner, clock, judged, tell):
    store = FaultyStore(inner, Faults())
    await waiting(inner, call("ask"))
    clock.now += 3_600_000
    await tell(store)
    assert (await kinds(inner, 5))[-1] == "call_resolved"
    assert [one.present for one in judged] == [None]
    assert store.calls["present"] == 0


async def test_no_message_asks_for_the_clients(inner, clock, tell):
    store = FaultyStore(inner, Faults())
    await waiting(inner, reply())
    await inner.attach("c-1", LEAVING)
    await tell(store, send(message_id="m-2")(await inner.load("c-1")))
    assert store.calls["present"] == 0


async def test_whoever_cancels_for_a_client_is_judged_by_the_others(inner, judged):
    await waiting(inner, call(FOR_ANA))
    await inner.attach("c-1", HERE)
    for client_id in ("tab-2", None):
        activation = await activated(inner, keeping())
        await activation.ask(cancel_pending(client_id=client_id, principal=ANA)(await inner.load("c-1")))
        await activation.passivate()
        if client_id is not None:
            assert (await inner.load("c-1")).calls.any_awaiting  # another client of ana is there
    assert [one.client_id for one in judged[0].present] == ["tab-1"]
    assert judged[-1].present is None


# -- departures --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["detached", "silent"])
async def test_what_waits_for_a_client_ends_once_it_has_left_and_it_is_forgotten(inner, clock, tell, gone):
    await waiting(inner, call("locate", FOR_ANA), claim(principal=ANA, on_detach=OnDetach.CANCEL))
    await inner.attach("c-1", LEAVING)
    if gone == "detached":
        await inner.detach("c-1", LEAVING.name)
    clock.now += LEAVES_MS - 1 + (GONE_MS if gone == "silent" else 0)
    assert await attention(inner) == []
    clock.now += 1
    assert await attention(inner) == ["c-1"]

    await tell(inner)

    assert [one.status for one in (await inner.load("c-1")).calls] == ["errored", "errored"]
    assert await inner.present("c-1") == ()
    await (await Writer.of(inner, "c-1")).do(reply())
    assert await attention(inner) == []


async def test_a_departure_from_a_conversation_that_rests_or_has_ended_is_forgotten(inner, clock, tell):
    await waiting(inner, reply())
    for steps in ((), (end(),)):
        await (await Writer.of(inner, "c-1", seen=(await inner.owner("c-1")).token)).do(*steps)
        await inner.release("c-1", (await inner.owner("c-1")).token)
        await inner.attach("c-1", LEAVING)
        await inner.detach("c-1", LEAVING.name)
        clock.now += LEAVES_MS
        assert await attention(inner) == ["c-1"]
        await tell(inner)
        assert (await attention(inner), await inner.present("c-1")) == ([], ())


@pytest.mark.parametrize(
    "fault", [FailBefore(), FailAfter(), FailBefore(CorruptStore("x"))], ids=["before", "after", "corrupt"]
)
async def test_a_departure_whose_write_is_unknown_is_not_forgotten(inner, clock, fault):
    await waiting(inner, call(FOR_ANA))
    await inner.attach("c-1", LEAVING)
    await inner.detach("c-1", LEAVING.name)
    clock.now += LEAVES_MS
    held = module.Held(FaultyStore(inner, Faults(append=fault)), None, module.StoreClock(clock), "c-1", lease_ms=1_000)
    held.spec = DESK
    held.visit(await inner.visit("c-1", most_bytes=1 << 20))
    judge = module.Judge(held, Untraced(), begin=None, wrote=lambda *_: None)

    with pytest.raises((StoreUnavailable, CorruptStore)):
        await judge.judged(Wake())

    assert len(await inner.present("c-1")) == 1
    await by_actor(inner, clock, Wake())
    assert [one.status for one in (await inner.load("c-1")).calls] == ["errored"]
    assert await inner.present("c-1") == ()


class Untraced:
    def of(self, *_):
        return None


async def test_a_client_that_comes_back_after_its_departure_was_judged_is_attached(inner, clock, tell):
    await waiting(inner, call(FOR_ANA))
    await inner.attach("c-1", LEAVING)
    await inner.detach("c-1", LEAVING.name)
    clock.now += LEAVES_MS
    back = asyncio.Event()
    store = FaultyStore(inner, Faults(forget_clients=Delay(until=back)))
    telling = asyncio.create_task(tell(store))
    async with asyncio.timeout(20):
        while not store.calls["forget_clients"]:
            await asyncio.sleep(0.001)
    until = await inner.attach("c-1", LEAVING)
    back.set()
    await telling

    assert [one.until for one in await inner.present("c-1")] == [until]
    assert await inner.renew_clients([("c-1", LEAVING)]) == [until]


async def test_a_departure_that_cannot_be_forgotten_is_judged_again_later_and_cancels_what_it_must_once(inner, clock, tell):
    await waiting(inner, call(FOR_ANA))
    await inner.attach("c-1", LEAVING)
    await inner.detach("c-1", LEAVING.name)
    clock.now += LEAVES_MS
    store = FaultyStore(inner, Faults(forget_clients={1: FailBefore()}))

    await tell(store)

    seq = (await inner.load("c-1")).seq
    assert [one.status for one in (await inner.load("c-1")).calls] == ["errored"]
    await (await Writer.of(inner, "c-1", seen=(await inner.owner("c-1")).token)).do(reply())
    await inner.release("c-1", (await inner.owner("c-1")).token)
    assert await attention(inner) == ["c-1"]
    await tell(store)
    assert (await attention(inner), await inner.present("c-1")) == ([], ())
    assert await kinds(inner, seq) == ["model_answered", "turn_completed"]


# -- clients that cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, CorruptStore("x")], ids=["away", "corrupt"])
async def test_clients_that_cannot_be_read_are_looked_at_later_and_stop_nothing_else(inner, clock, judged, error):
    await waiting(inner, call("locate", "ask"), claim())
    store = FaultyStore(inner, Faults(present=FailBefore(error)))
    clock.now += 40_000

    await by_guest(store, clock, Wake())

    assert [one.present for one in judged] == [None]
    assert await kinds(inner, 7) == []
    assert await attention(inner) == []
    clock.now += module.LOOK_AGAIN_MS
    assert await attention(inner) == ["c-1"]
    clock.now += 15_000  # the deadline of the claimed call has passed
    await by_guest(store, clock, Wake())
    assert [one.status for one in (await inner.load("c-1")).calls] == ["errored", "awaiting"]
    assert inner.due["c-1"] == (await inner.load("c-1")).due_at > clock.now


async def test_a_departure_that_cannot_be_read_is_judged_later(inner, clock, tell):
    await waiting(inner, call(FOR_ANA))
    await inner.attach("c-1", LEAVING)
    await inner.detach("c-1", LEAVING.name)
    clock.now += LEAVES_MS
    store = FaultyStore(inner, Faults(present={1: FailBefore()}))
    await tell(store)
    assert (await inner.load("c-1")).calls.any_awaiting
    clock.now += module.LOOK_AGAIN_MS
    assert await attention(inner) == ["c-1"]
    await tell(store)
    assert [one.status for one in (await inner.load("c-1")).calls] == ["errored"]
    assert await inner.present("c-1") == ()
