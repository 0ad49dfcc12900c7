"""Clients that are gone: the sweeper does what follows as a guest, over a real Redis, and no actor is needed."""

import asyncio

import pytest
from claiming import claim
from hosted import FakeWorkers, Keeps
from writer import APP, DESK, Writer, begin, call, reply, resolve, start

from holdfast.actors.answers import Hosted, Replied
from holdfast.conversation import Answer, Principal, Proof
from holdfast.conversation.judging import clients as judging
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms import presence
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.presence import OnDetach, Present
from holdfast.errors import StaleCall
from holdfast.persistence import redis_presence
from holdfast.registry.messages import Messages
from holdfast.registry.sweep import Sweep
from holdfast.settings import ProcessLimits, Timing, TraceSettings

WITHIN_S = 30
SHORT_MS = 300
ANA = Principal("ana", proof=Proof.KEY)
QUICK = DESK.model_copy(
    update={
        "client_grace_s": 0.3,
        "tools": tuple(one.model_copy(update={"on_lost": "redispatch"}) if one.name == "locate" else one for one in DESK.tools),
    }
)


class NoActors:
    """No actor is there, and none comes: what needs one is asked for here."""

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

    async def activate(self, conversation_id, *_, **__):
        self.taken.append(conversation_id)
        return Hosted()

    async def ask(self, conversation_id, command):
        return Replied(None)


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Clients are gone after a moment."""
    for name in ("GONE_MS", "LEAVES_MS"):
        for module in (presence, redis_presence):
            monkeypatch.setattr(module, name, SHORT_MS)
    monkeypatch.setattr(judging, "GONE_MS", SHORT_MS)


@pytest.fixture
async def sweeping(store):
    """A sweeper that ticks, and the actors that it asks for."""
    await store.put_app(APP.model_copy(update={"agents": {"desk": QUICK.digest}}), [QUICK])
    workers, actors = FakeWorkers(*[Keeps(f"i.{number}") for number in range(20)]), NoActors()
    workers.store = store
    messages = Messages(store, workers, "1", TraceSettings())
    sweep = Sweep(store, actors, timing=Timing(), process_limits=ProcessLimits(standby=0), messages=messages)

    async def tick():
        while True:
            await sweep.tick()
            await asyncio.sleep(0.02)

    ticking = asyncio.create_task(tick())
    yield actors, workers
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    await messages.close()


def client(client_id, on_detach=OnDetach.KEEP):
    return Present(client_id=client_id, principal=ANA, tools=("locate",), on_detach=on_detach)


async def waiting(store, *steps):
    writer = await Writer.of(store, "c-1")
    writer.spec = QUICK
    await writer.do(start(app=APP.app, spec=QUICK), begin(), *steps)
    await writer.release()
    return writer


async def by_guest(store, *steps):
    guest = Writer.visiting(store, "c-1", await store.visit("c-1", most_bytes=1 << 20))
    guest.spec = QUICK
    return await guest.do(*steps)


async def kinds(store, after):
    return [event.kind for _, event in await store.read("c-1", after=after)]


async def comes(condition):
    async with asyncio.timeout(WITHIN_S):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_a_gone_claimants_call_is_given_back_by_the_sweeper_and_another_client_takes_it_up(store, sweeping):
    actors, _ = sweeping
    writer = await waiting(store, call("locate"))
    await store.attach("c-1", client("tab-1"))
    await by_guest(store, claim("tab-1", principal=ANA))

    async def given_back():
        await store.renew_clients([("c-1", client("tab-2"))])
        return "call_given_back" in await kinds(store, writer.state.seq)

    await store.attach("c-1", client("tab-2"))
    await comes(given_back)
    owner = await store.owner("c-1")
    assert (actors.taken, owner.token) == ([], "")
    receipt = await by_guest(store, claim("tab-2", principal=ANA))
    assert receipt.attempt == 2
    with pytest.raises(StaleCall):
        await by_guest(store, resolve(Answer("late"), principal=ANA, client_id="tab-1"))
    await by_guest(store, resolve(Answer("here"), principal=ANA, client_id="tab-2"))
    assert (await kinds(store, writer.state.seq))[-2:] == ["suspension_settled", "call_resolved"]


async def test_a_claimant_that_is_renewed_keeps_its_call_through_many_looks(store, sweeping):
    actors, _ = sweeping
    writer = await waiting(store, call("locate"))
    await store.attach("c-1", client("tab-1"))
    await by_guest(store, claim("tab-1", principal=ANA))
    begun = (await store.owner("c-1")).epoch

    async def looked_at_four_times():
        assert (await store.renew_clients([("c-1", client("tab-1"))]))[0]
        return (await store.owner("c-1")).epoch >= begun + 4

    await comes(looked_at_four_times)
    assert await kinds(store, writer.state.seq) == ["call_claimed"]
    assert actors.taken == []


async def test_a_call_that_no_client_takes_up_fails_and_the_model_goes_on(store, sweeping):
    actors, workers = sweeping
    await waiting(store, call("locate"))

    async def told():
        return [one.effect_id for one in workers.calls] == ["t1.m2"]

    await comes(told)
    assert (await store.load("c-1")).calls[0].status == "errored"
    assert actors.taken == []


async def test_what_a_client_leaves_behind_ends_and_it_is_forgotten(store, sweeping):
    actors, _ = sweeping
    asked = ProposedCall(tool_call_id="call_a", name="refund", arguments="{}", approvers=ApproverTerms(who=(("id:ana",),)))
    await waiting(store, call("locate", asked))
    await store.attach("c-1", client("tab-1", OnDetach.CANCEL))
    await by_guest(store, claim("tab-1", principal=ANA, on_detach=OnDetach.CANCEL))
    await store.detach("c-1", client("tab-1").name)

    async def forgotten():
        return await store.present("c-1") == ()

    await comes(forgotten)
    assert [one.status for one in (await store.load("c-1")).calls] == ["errored", "errored"]
    assert actors.taken == []


async def test_many_departures_at_once_are_judged_while_others_come_back(store, sweeping):
    """Each tab that comes back keeps its call, whenever it does."""
    names = [f"tab-{number}" for number in range(20)]
    await waiting(store, reply())
    actors, _ = sweeping
    for name in names:
        await store.attach("c-1", client(name, OnDetach.CANCEL))
        await store.detach("c-1", client(name).name)
    back = names[::2]
    for name in back:
        await asyncio.sleep(0.02)
        await store.attach("c-1", client(name, OnDetach.CANCEL))

    async def only_those_that_came_back():
        ends = await store.renew_clients([("c-1", client(name, OnDetach.CANCEL)) for name in back])
        assert all(ends)
        return {one.client_id for one in await store.present("c-1")} == set(back)

    await comes(only_those_that_came_back)
    assert actors.taken == []
