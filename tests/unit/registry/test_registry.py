"""The registry, against a store in memory and actors that are fakes: what it does when something hangs."""

import asyncio
import time

import pytest
from hosts import ensure_started
from writer import Writer, begin, call, reply, start

from holdfast.actors.answers import Failed, Hosted, NotHosted, Replied
from holdfast.conversation import Answer, CancelTurn, Deny, End, Resolve, Send, Wake
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.errors import (
    ClusterUnavailable,
    ConversationNotFound,
    InvalidDecision,
    LeaseHeld,
    Overloaded,
    Quarantined,
    StoreUnavailable,
)
from holdfast.persistence import MemoryStore, Takeover, TakeoverReason
from holdfast.registry.pool import ActorDied, ActorUnavailable, Pool, PoolFull
from holdfast.registry.registry import Delivery, Refused, Registry, Unknown, Unsent
from holdfast.registry.sweep import LOOKS, LOOKS_IN_USE, Sweep
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import Delay, FailBefore, Faults, FaultyStore


async def delivered(registry, command, *, timeout_s=5, create=False):
    """What came of a command to `c-1`, which is not tried again where the store is away."""
    return await registry.deliver(Delivery("c-1", command, timeout_s=timeout_s, create=create, waits_for_store=False))


class Stranger:
    """An actor that is there and hosts nothing."""

    async def ask(self, conversation_id, command):
        return NotHosted()


class Found:
    """Every name is that of a stranger."""

    async def find(self, name):
        return Stranger()

    def ours(self, name):
        return True

    def judges(self, name):
        return True


class Refusing:
    """An actor whose store is away; each activation takes a moment."""

    activations = 0

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        self.activations += 1
        await asyncio.sleep(0.02)
        return Failed(StoreUnavailable("away"))


async def test_a_deadline_that_meets_an_answer_is_still_one(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.SHORT_S", 0)
    monkeypatch.setattr("holdfast.registry.pool.LOOK_AGAIN_S", 0)
    actor = Refusing()

    class Hirable(Found):
        def new_name(self):
            return "actor-1"

        async def spawn(self, name, *, offer):
            return actor

    store, actors = MemoryStore(), Hirable()
    pool = Pool(store, actors, timing=Timing(), process_limits=ProcessLimits())
    registry = Registry(store, actors, pool=pool, timing=Timing())
    # The process stands still while first the answer and then the deadline come in.
    asyncio.get_running_loop().call_later(0.01, time.sleep, 0.1)
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            await ensure_started(registry, "c-1", timeout_s=0.03, create=True)
    assert actor.activations == 1


async def test_a_store_that_hangs_does_not_hold_a_caller_beyond_its_deadline():
    inner = MemoryStore()
    await inner.acquire(
        "c-1",
        Takeover(seen_token="", new_token="t-1", because=TakeoverReason.ASKED, actor="actor-1", lease_ms=10_000, create=True),
    )
    hanging = asyncio.Event()
    store = FaultyStore(inner, Faults(owner={2: Delay(until=hanging)}))  # the first finds the actor, the second is in vain
    pool = Pool(store, Found(), timing=Timing(), process_limits=ProcessLimits())
    registry = Registry(store, Found(), pool=pool, timing=Timing())
    async with asyncio.timeout(10):
        result = await delivered(registry, Wake(), timeout_s=0.05, create=True)
    assert isinstance(result.error, TimeoutError)
    hanging.set()
    while not registry._not_hosting:  # what it finds still helps whoever asks next
        await asyncio.sleep(0)
    assert registry._not_hosting == {"c-1": "t-1"}


class Willing:
    """An actor that hosts whatever it is asked to."""

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        return Hosted(Replied(None))


class Company:
    """Actors that take so long to be spawned; `spawned` names them."""

    def __init__(self, takes_s):
        self.takes_s = takes_s
        self.spawned = []

    async def find(self, name):
        return Willing()

    def ours(self, name):
        return not name.startswith("other-")

    def judges(self, name):
        return not name.startswith("abroad-")

    def new_name(self):
        return f"actor-{len(self.spawned) + 1}"

    async def spawn(self, name, *, offer):
        self.spawned.append(name)
        await asyncio.sleep(self.takes_s)
        return Willing()


def registry_of(store, actors, **process_limits):
    pool = Pool(store, actors, timing=Timing(), process_limits=ProcessLimits(**process_limits))
    return Registry(store, actors, pool=pool, timing=Timing())


async def test_an_actor_that_is_kept_for_its_conversation_is_taken_if_no_other_can_be_made():
    store, company = MemoryStore(), Company(takes_s=0)
    await store.heartbeat("kept-1", limit=1)
    await store.offer("kept-1", await store.now() + 600_000)

    name, _ = await ensure_started(registry_of(store, company), "c-1", timeout_s=5, create=True)
    assert [name] == company.spawned

    name, _ = await ensure_started(registry_of(store, company, max_actors=1), "c-2", timeout_s=5, create=True)
    assert name == "kept-1"


class Failing(Company):
    async def spawn(self, name, *, offer):
        raise ActorUnavailable("no room on this machine")


async def test_so_it_is_if_one_does_not_start():
    store = MemoryStore()
    await store.offer("kept-1", await store.now() + 600_000)

    name, _ = await ensure_started(registry_of(store, Failing(takes_s=0)), "c-1", timeout_s=5, create=True)
    assert name == "kept-1"


async def test_so_it_is_if_one_is_late(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.LATE_S", 0.05)
    store = MemoryStore()
    await store.offer("kept-1", await store.now() + 600_000)

    name, _ = await ensure_started(registry_of(store, Company(takes_s=60)), "c-1", timeout_s=5, create=True)
    assert name == "kept-1"


async def test_who_is_free_before_somebody_new_goes_to_whoever_waits_first():
    store, company = MemoryStore(), Company(takes_s=30)
    registry = registry_of(store, company)
    first, second = (
        asyncio.create_task(ensure_started(registry, name, timeout_s=20, create=True)) for name in ("first", "second")
    )
    async with asyncio.timeout(10):
        while not company.spawned:
            await asyncio.sleep(0.01)
        await store.offer("idle-1", 0)
        assert (await first)[0] == "idle-1"
        await store.offer("idle-2", 0)
        assert (await second)[0] == "idle-2"
    assert len(company.spawned) == 1


async def test_a_burst_hires_few_at_once_and_all_get_one():
    company = Company(takes_s=0.05)
    registry = registry_of(MemoryStore(), company)
    async with asyncio.timeout(20):
        hosts = await asyncio.gather(*(ensure_started(registry, f"c-{n}", timeout_s=15, create=True) for n in range(5)))
    assert sorted(name for name, _ in hosts) == sorted(set(company.spawned))


async def test_for_how_long_nobody_was_free_counts_anew_once_nobody_has_waited(skip):
    store, company = MemoryStore(), Company(takes_s=0)
    registry = registry_of(store, company)
    with pytest.raises(TimeoutError):
        await ensure_started(registry, "c-1", timeout_s=0.03, create=True)
    skip(60)
    later = asyncio.create_task(ensure_started(registry, "c-2", timeout_s=5, create=True))
    while not registry._pool._waiting:
        await asyncio.sleep(0)
    await asyncio.sleep(0.001)  # it has looked in vain by then
    await store.offer("idle-1", 0)
    assert (await later)[0] == "idle-1"
    assert company.spawned == []


async def test_nobody_is_hired_while_somebody_is_free():
    store, company = MemoryStore(), Company(takes_s=0)
    for number in range(5):
        await store.offer(f"idle-{number}", number)
    registry = registry_of(store, company)
    hosts = [await ensure_started(registry, f"c-{n}", timeout_s=5, create=True) for n in range(5)]
    assert [name for name, _ in hosts] == [f"idle-{number}" for number in range(5)]
    assert company.spawned == []


async def test_at_the_cap_all_who_wait_are_told_so():
    registry = registry_of(MemoryStore(), Company(takes_s=0), max_actors=1)
    await ensure_started(registry, "c-1", timeout_s=5, create=True)
    ends = await asyncio.gather(
        *(ensure_started(registry, f"c-{n}", timeout_s=1, create=True) for n in range(2, 6)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [Overloaded] * 4


async def test_at_the_cap_one_who_waits_alone_is_told_so(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.SHORT_S", 0.05)
    registry = registry_of(MemoryStore(), Company(takes_s=0), max_actors=1)
    await ensure_started(registry, "c-1", timeout_s=5, create=True)
    with pytest.raises(Overloaded):
        await ensure_started(registry, "c-2", timeout_s=0.5, create=True)


async def test_that_there_was_no_room_is_not_told_who_comes_after_nobody_waited_for_it(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.FULL_S", 0)
    looked, told = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def heartbeat(self, name, *, limit):
            looked.set()
            await told.wait()
            return False

    registry = registry_of(Slow(), Company(takes_s=0))
    first = asyncio.create_task(ensure_started(registry, "c-1", timeout_s=60, create=True))
    async with asyncio.timeout(10):
        await looked.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        told.set()
        while len(registry._pool._spawning):
            await asyncio.sleep(0)
    with pytest.raises(TimeoutError):  # nobody has looked for room since
        await ensure_started(registry, "c-2", timeout_s=0.05, create=True)


async def test_an_actor_of_another_release_is_neither_adopted_nor_asked():
    store, company = MemoryStore(), Company(takes_s=0)
    activation = await Writer.of(store, "c-1", holder="other-1")
    await activation.do(start("hello"), begin(), reply("Hello."))  # it rests there
    await store.offer("other-1", 0)
    await store.offer("other-2", 0)
    async with asyncio.timeout(10):
        name, _ = await ensure_started(registry_of(store, company), "c-1", timeout_s=9)
    assert [name] == company.spawned


async def test_who_is_told_of_the_cap_is_told_so_while_it_is_looked_at_once_more():
    class Slow(MemoryStore):
        async def heartbeat(self, name, *, limit):
            await asyncio.sleep(0.2)  # as long as nobody knows, the last answer stands
            return False

    registry = registry_of(Slow(), Company(takes_s=0))
    ends = await asyncio.gather(
        *(ensure_started(registry, f"c-{n}", timeout_s=3 + n / 20, create=True) for n in range(8)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [Overloaded] * 8


@pytest.mark.parametrize(
    "failure", [None, ActorUnavailable("it did not start"), ZeroDivisionError(), ClusterUnavailable("gone")], ids=repr
)
async def test_who_waits_after_there_was_room_again_is_not_told_of_the_cap(monkeypatch, failure):
    monkeypatch.setattr("holdfast.registry.pool.SHORT_S", 0)
    monkeypatch.setattr("holdfast.registry.pool.FULL_S", 0)
    tried = asyncio.Event()

    class Failing(Company):
        """The first is spawned as it should be, or is not; those after it never get ready."""

        async def spawn(self, name, *, offer):
            if self.spawned:
                self.takes_s = 1000
            elif failure is not None:
                self.spawned.append(name)
                raise failure
            return await super().spawn(name, offer=offer)

    class Full(MemoryStore):
        """At first there is no room."""

        looks = 0

        async def heartbeat(self, actor, *, limit):
            self.looks += 1
            if self.looks == 3:
                tried.set()
            return self.looks > 2

    company = Failing(takes_s=0)
    registry = registry_of(Full(), company)
    first = asyncio.create_task(ensure_started(registry, "c-1", timeout_s=9, create=True))
    second = asyncio.create_task(ensure_started(registry, "c-2", timeout_s=9, create=True))
    async with asyncio.timeout(10):
        await tried.wait()
        while not company.spawned:
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await ensure_started(registry, "c-3", timeout_s=0.1, create=True)
    for waiting in (first, second):
        waiting.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    await registry.close()


async def test_who_is_hired_for_somebody_who_waits_is_on_offer_to_nobody_else():
    class Offering(Company):
        async def spawn(self, name, *, offer):
            if offer:
                await store.offer(name, 0)
            return await super().spawn(name, offer=offer)

    store, company = MemoryStore(), Offering(takes_s=0)
    name, _ = await ensure_started(registry_of(store, company), "c-1", timeout_s=5, create=True)
    assert [name] == company.spawned
    assert await store.offers() == 0


async def test_an_actor_that_is_counted_and_not_made_yet_keeps_its_place():
    class Unknown(Company):
        async def find(self, name):
            return None

    store, company = MemoryStore(), Unknown(takes_s=0)
    await store.heartbeat("coming-1", limit=1)
    pool = Pool(store, company, timing=Timing(), process_limits=ProcessLimits(max_actors=1))
    with pytest.raises(PoolFull):
        await pool.spawn(offer=True)
    assert (list(await store.live()), company.spawned) == (["coming-1"], [])


async def test_for_work_that_was_acknowledged_there_are_a_few_more_actors_than_the_cap():
    class Working(Willing):
        async def ask(self, conversation_id, command):
            return Replied(None)

    class Busy(Company):
        async def find(self, name):
            return None if name == dead else Working()

        async def spawn(self, name, *, offer):
            await super().spawn(name, offer=offer)
            return Working()

    store, company, dead = MemoryStore(), Busy(takes_s=0), "dead-1"
    activation = await Writer.of(store, "c-1", holder=dead, lease_ms=1)
    await activation.do(start("hello"))
    await store.heartbeat("busy-1", limit=1)
    sweep = Sweep(store, company, timing=Timing(lease_ms=1), process_limits=ProcessLimits(max_actors=1, standby=0))
    async with asyncio.timeout(10):
        while not company.spawned:
            await sweep.tick()
            await asyncio.sleep(0.01)


async def test_a_cluster_that_went_away_is_said_and_not_waited_for():
    class Gone(Company):
        async def spawn(self, name, *, offer):
            raise ClusterUnavailable("gone")

    registry = registry_of(MemoryStore(), Gone(takes_s=0))
    async with asyncio.timeout(10):
        with pytest.raises(ClusterUnavailable):
            await ensure_started(registry, "c-1", timeout_s=60, create=True)


async def test_the_pool_is_filled_when_it_stays_short_and_not_for_a_moment_without():
    store, company = MemoryStore(), Company(takes_s=0)
    sweep = Sweep(store, company, timing=Timing(), process_limits=ProcessLimits(standby=1))

    async def tick():
        await sweep.tick()
        await asyncio.sleep(0.01)
        return len(company.spawned)

    assert await tick() == 1  # at first it is empty
    await store.offer("actor-1", 0)
    for _ in range(LOOKS):
        assert await tick() == 1
    await store.take()
    for _ in range(LOOKS_IN_USE - 1):
        assert await tick() == 1  # it is in use, and may come back
    assert await tick() == 2
    for name in await store.live():
        await store.deregister(name)
    for _ in range(LOOKS):
        await tick()
    assert len(company.spawned) == 3  # there is none that could come back


async def test_what_is_on_its_way_is_given_up_at_the_close_and_counted_no_more():
    store, company = MemoryStore(), Company(takes_s=30)
    registry = registry_of(store, company)
    waiting = asyncio.create_task(ensure_started(registry, "c-1", timeout_s=20, create=True))
    async with asyncio.timeout(10):
        while not company.spawned:
            await asyncio.sleep(0.01)
        await store.offer("idle-1", 0)
        await waiting
        assert list(await store.live()) == company.spawned
        await registry.close()
    assert list(await store.live()) == []


async def test_an_actor_that_never_comes_keeps_nobody_from_hiring_another(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.LATE_S", 0.05)

    class Lost(Company):
        async def spawn(self, name, *, offer):
            self.takes_s = 0 if self.spawned else 1000
            return await super().spawn(name, offer=offer)

    company = Lost(takes_s=0)
    registry = registry_of(MemoryStore(), company)
    async with asyncio.timeout(10):
        name, _ = await ensure_started(registry, "c-1", timeout_s=9, create=True)
        assert name == company.spawned[1]
        await registry.close()


async def test_an_actor_that_takes_too_long_to_get_ready_is_counted_no_more(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.WARMING_S", 0.01)
    store, company = MemoryStore(), Company(takes_s=30)
    pool = Pool(store, company, timing=Timing(), process_limits=ProcessLimits())
    with pytest.raises(ActorUnavailable, match=r"it took longer than 0\.01 s$"):
        await pool.spawn(offer=True)
    await pool.close()
    assert list(await store.live()) == []


async def test_what_comes_when_nobody_waits_any_more_concerns_nobody_who_comes_later(monkeypatch):
    monkeypatch.setattr("holdfast.registry.pool.SHORT_S", 0.05)

    class Going(Company):
        async def spawn(self, name, *, offer):
            await super().spawn(name, offer=offer)
            raise ClusterUnavailable("gone")

    store, company = MemoryStore(), Going(takes_s=0.3)
    registry = registry_of(store, company)
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            await ensure_started(registry, "c-1", timeout_s=0.2, create=True)
        assert len(company.spawned) == 1
        while len(registry._pool._spawning):
            await asyncio.sleep(0.01)
        later = asyncio.create_task(ensure_started(registry, "c-2", timeout_s=9, create=True))
        await asyncio.sleep(0.05)  # it has looked in vain by then
        await store.offer("idle-1", 0)
        assert (await later)[0] == "idle-1"


class Abroad(Company):
    """A cluster that knows nobody of another; what is activated is said, and done, as an actor would."""

    def __init__(self, store):
        super().__init__(takes_s=0)
        self.store = store
        self.because = []

    async def find(self, name):
        return None if name.startswith(("abroad-", "dead-")) else self

    async def spawn(self, name, *, offer):
        self.spawned.append(name)
        return self

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        self.because.append(because)
        try:
            await Writer.of(self.store, conversation_id, seen=seen_token, because=because, holder="actor-1", create=create)
        except LeaseHeld as error:
            return Failed(error)
        return Hosted(Replied(None))


async def busy(store, holder, lease_ms):
    activation = await Writer.of(store, "c-1", holder=holder, lease_ms=lease_ms)
    await activation.do(start("hello"), begin())
    return activation


async def test_an_owner_of_another_cluster_is_not_deposed_within_its_lease_though_this_one_does_not_know_its_name():
    now = 1_000_000
    store = MemoryStore(clock=lambda: now)
    owner = await busy(store, "abroad-1", lease_ms=10_000)
    abroad = Abroad(store)
    registry = registry_of(store, abroad)
    async with asyncio.timeout(10):
        with pytest.raises(LeaseHeld):
            await ensure_started(registry, "c-1", timeout_s=1)
    assert (await store.owner("c-1")).token == owner.token
    now += 10_001
    async with asyncio.timeout(10):
        await ensure_started(registry, "c-1", timeout_s=5)
    assert set(abroad.because) == {TakeoverReason.ASKED}
    assert (await store.owner("c-1")).actor == "actor-1"


async def test_what_rests_with_an_owner_of_another_cluster_is_taken_over_at_once():
    store = MemoryStore()
    activation = await busy(store, "abroad-1", lease_ms=60_000)
    await activation.do(reply("Hello."))
    abroad = Abroad(store)
    async with asyncio.timeout(10):
        await ensure_started(registry_of(store, abroad), "c-1", timeout_s=5)
    assert abroad.because == [TakeoverReason.ASKED]


async def test_an_owner_that_was_made_in_this_cluster_and_is_not_known_to_it_is_dead():
    store = MemoryStore()
    await busy(store, "dead-1", lease_ms=60_000)
    abroad = Abroad(store)
    async with asyncio.timeout(10):
        await ensure_started(registry_of(store, abroad), "c-1", timeout_s=5)
    assert abroad.because == [TakeoverReason.DIED]


async def test_in_quarantine_what_was_answered_before_is_answered_so_again_and_nobody_is_adopted():
    # given a conversation that took a message, a decision and a cancellation before it was put in quarantine
    store, company = MemoryStore(), Company(takes_s=0)
    activation = await Writer.of(store, "c-1")
    await activation.do(start("hello", message_id="m-1"), begin(), call("ask"))
    (pending,) = activation.state.calls
    decision = Resolve(tool_call_id=pending.tool_call_id, ruling=DecisionRecord.of(Answer("blue")), decision_id="d-1")
    commands = [Send(text="and?", message_id="m-2"), decision, CancelTurn(request_id="x-1")]
    first = [await activation.do(lambda _, asked=command: asked) for command in commands]
    await store.strike("c-1", activation.token, process="p-1", reason="it hangs", limit=1)
    registry = registry_of(store, company, max_actors=1)
    await store.heartbeat("busy-1", limit=1)
    # when the same comes again, then it gets the same answer
    for command, reply_ in zip(commands, first, strict=True):
        again = await delivered(registry, command)
        assert isinstance(again, Replied)
        assert again.reply == reply_.model_copy(update={"duplicate": True})
    # and the same id with something else is refused as ever
    other = decision.model_copy(update={"ruling": DecisionRecord.of(Deny("no"))})
    refused = await delivered(registry, other)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, InvalidDecision)
    # and what is new is not done
    for command in (Send(text="more", message_id="m-3"), End(request_id="x-2"), Wake()):
        result = await delivered(registry, command)
        assert isinstance(result, Unsent)
        assert isinstance(result.error, Quarantined)
        assert "it hangs" in str(result.error)
    assert company.spawned == []


async def test_in_quarantine_a_store_that_goes_away_leaves_open_what_an_actor_had_to_judge():
    class Dying(Willing):
        async def ask(self, conversation_id, command):
            await inner.strike("c-1", (await inner.owner("c-1")).token, process="p-1", reason="it hangs", limit=1)
            raise ActorDied

    class Deadly(Company):
        async def find(self, name):
            return Dying()

    inner = MemoryStore()
    activation = await Writer.of(inner, "c-1")
    await activation.do(start(), begin(), reply())
    store = FaultyStore(inner, Faults(known=FailBefore()))
    registry = registry_of(store, Deadly(takes_s=0))
    result = await delivered(registry, Send(text="hi", message_id="m-2"))
    assert isinstance(result, Unknown)
    assert isinstance(result.error, StoreUnavailable)
    result = await delivered(registry, Send(text="hi", message_id="m-3"))
    assert isinstance(result, Unsent)  # nobody has had this one
    assert isinstance(result.error, StoreUnavailable)


async def test_an_actor_that_dies_before_the_start_keeps_nobody_from_starting_under_that_id():
    class Activation(Willing):
        async def ask(self, conversation_id, command):
            return Replied(None)

        async def activate(self, conversation_id, seen_token, because, *, create, first=None):
            await store.acquire(
                conversation_id,
                Takeover(
                    seen_token=seen_token, new_token="t-2", because=because, actor="actor-1", lease_ms=1000, create=create
                ),
            )
            return Hosted(Replied(None))

    class Gone(Company):
        async def find(self, name):
            return None if name == "dead-1" else Activation()

        async def spawn(self, name, *, offer):
            await super().spawn(name, offer=offer)
            return Activation()

    store, company = MemoryStore(), Gone(takes_s=0)
    await Writer.of(store, "c-1", holder="dead-1")
    registry = registry_of(store, company)
    result = await delivered(registry, Wake())
    assert isinstance(result.error, ConversationNotFound)
    assert (await store.attention(10)).conversation_ids == []
    assert (await store.conversations(limit=10)).items == []
    assert isinstance(await delivered(registry, Wake(), create=True), Replied)
    assert (await store.owner("c-1")).actor == "actor-1"
