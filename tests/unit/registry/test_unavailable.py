"""An actor that does not answer now may live on: only what the cluster knows to be dead is taken for dead."""

import asyncio

import pytest
from hosts import ensure_started
from writer import Writer, start

from holdfast.actors.answers import Hosted, Replied
from holdfast.conversation import Wake
from holdfast.errors import ConversationNotFound, StoreUnavailable
from holdfast.persistence import MemoryStore, Takeover, TakeoverReason
from holdfast.registry.pool import ActorDied, ActorUnavailable, Pool
from holdfast.registry.registry import Delivery, Registry, Unknown, Unsent
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailBefore, Faults, FaultyStore


class Fleeting:
    """An actor that fails so often before it answers, each time with that error."""

    def __init__(self, store, name, error, times):
        self.store, self.name, self.error, self.times = store, name, error, times
        self.asked = 0
        self.activations = []

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        self.activations.append(because)
        await self.store.acquire(
            conversation_id,
            Takeover(
                seen_token=seen_token,
                new_token=f"token of {self.name} {len(self.activations)}",
                because=because,
                actor=self.name,
                lease_ms=60_000,
                create=create,
            ),
        )
        self._fail()
        return Hosted()

    async def ask(self, conversation_id, command):
        self.asked += 1
        self._fail()
        return Replied(None)

    def _fail(self):
        if self.times:
            self.times -= 1
            raise self.error


class Company:
    """The actors by name; whoever is spawned answers at once."""

    def __init__(self, store, *actors):
        self.store = store
        self.actors = {actor.name: actor for actor in actors}
        self.counted = set()

    async def find(self, name):
        return self.actors.get(name)

    def ours(self, name):
        return True

    def judges(self, name):
        return True

    def new_name(self):
        return next((name for name in self.actors if name not in self.counted), f"spawned-{len(self.actors)}")

    async def spawn(self, name, *, offer):
        self.counted.add(name)
        return self.actors.setdefault(name, Fleeting(self.store, name, None, 0))


def registry_of(store, company):
    return Registry(store, company, pool=hiring_of(store, company), timing=Timing())


async def delivered(store, company):
    """What came of a command to `c-1`, which is not tried again where the store is away."""
    delivery = Delivery("c-1", Wake(), timeout_s=10, waits_for_store=False)
    return await registry_of(store, company).deliver(delivery)


def hiring_of(store, company):
    return Pool(store, company, timing=Timing(), process_limits=ProcessLimits())


async def working(store, holder):
    """A conversation at work, owned by this holder."""
    writer = await Writer.of(store, "c-1", holder=holder)
    await writer.do(start("hello"))


async def test_an_owner_that_is_unavailable_is_asked_again_and_nobody_takes_over():
    store = MemoryStore()
    await working(store, "owner-1")
    owner = Fleeting(store, "owner-1", ActorUnavailable("it does not answer"), times=2)
    company = Company(store, owner)
    await hiring_of(store, company).spawn(offer=False)
    before = await store.owner("c-1")
    async with asyncio.timeout(20):
        result = await delivered(store, company)
    assert (result, owner.asked) == (Replied(None), 3)
    assert await store.owner("c-1") == before
    assert list(company.actors) == ["owner-1"]
    assert list(await store.live()) == ["owner-1"]


async def test_an_owner_that_died_is_succeeded_at_once_and_counted_no_more():
    store = MemoryStore()
    await working(store, "owner-1")
    company = Company(store, Fleeting(store, "owner-1", ActorDied("it is dead"), times=1))
    await hiring_of(store, company).spawn(offer=False)
    async with asyncio.timeout(20):
        result = await delivered(store, company)
    (successor,) = set(company.actors) - {"owner-1"}
    assert result == Replied(None)
    assert company.actors[successor].activations == [TakeoverReason.DIED]
    assert (await store.owner("c-1")).actor == successor
    async with asyncio.timeout(10):
        while "owner-1" in await store.live():
            await asyncio.sleep(0)


async def test_an_adopted_actor_whose_answer_is_lost_is_the_owner_and_is_not_succeeded():
    store = MemoryStore()
    idle = Fleeting(store, "idle-1", ActorUnavailable("its answer is lost"), times=1)
    company = Company(store, idle)
    await hiring_of(store, company).spawn(offer=False)
    await store.offer("idle-1", 0)
    async with asyncio.timeout(20):
        name, _ = await ensure_started(registry_of(store, company), "c-1", timeout_s=10, create=True)
    assert name == "idle-1"
    assert (await store.owner("c-1")).epoch == 1
    assert list(company.actors) == ["idle-1"]
    assert list(await store.live()) == ["idle-1"]


async def test_a_store_that_goes_away_after_the_owner_died_leaves_the_outcome_unknown():
    inner = MemoryStore()
    await working(inner, "owner-1")
    company = Company(inner, Fleeting(inner, "owner-1", ActorDied("it died while it was asked"), times=1))
    store = FaultyStore(inner, Faults(owner={2: FailBefore()}))
    async with asyncio.timeout(20):
        result = await delivered(store, company)
    assert isinstance(result, Unknown)  # the owner may have judged it: this is no final refusal
    assert isinstance(result.error, StoreUnavailable)


async def test_a_store_that_is_away_before_anybody_was_asked_is_a_refusal():
    inner = MemoryStore()
    await working(inner, "owner-1")
    store = FaultyStore(inner, Faults(owner=FailBefore()))
    result = await delivered(store, Company(inner))
    assert isinstance(result, Unsent)
    assert isinstance(result.error, StoreUnavailable)


async def test_what_was_never_started_is_not_begun_by_whoever_only_looks_for_it():
    store = MemoryStore()
    company = Company(store)
    with pytest.raises(ConversationNotFound):
        await ensure_started(registry_of(store, company), "c-1", timeout_s=10)
    assert await store.owner("c-1") is None
    assert company.actors == {}
