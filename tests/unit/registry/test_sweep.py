"""Sweeping, against a store in memory and actors that are fakes: what fails stands before nobody, ends, and is named."""

import asyncio

import pytest
from writer import Writer, begin, call, start

from holdfast.actors.answers import Failed, Hosted, Replied
from holdfast.errors import CipherFailed, CipherMissing, CorruptStore, HoldfastError, NewerRecord, StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.registry import sweep as sweeping
from holdfast.registry.sweep import Sweep
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailBefore, Faults, FaultyStore

DEADLINE_S = 20
OVERDUE_MS = 3_700_000


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(sweeping, "LONGEST_DELAY_MS", 20, raising=False)
    monkeypatch.setattr(sweeping, "SHORTEST_DELAY_MS", 20, raising=False)


class Waking:
    """Actors that wake what they are asked to, but for those that fail, as often as they fail."""

    def __init__(self, errors=()):
        self.errors = dict(errors)
        self.woken = []
        self.asked = []

    async def find(self, name):
        return self

    def ours(self, name):
        return True

    def new_name(self):
        return "actor-1"

    async def spawn(self, name, *, offer):
        return self

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        return Hosted()

    async def ask(self, conversation_id, command):
        self.asked.append(conversation_id)
        match self.errors.get(conversation_id):
            case asyncio.Event() as gate:
                await gate.wait()
            case HoldfastError() as refusal:
                return Failed(refusal)
            case Exception() as error:
                raise error
        self.woken.append(conversation_id)
        return Replied(None)


async def overdue(store, *names):
    for number, name in enumerate(names):
        writer = await Writer.of(store, name)
        await writer.do(start(), begin(), call("ask"), now=await store.now() - OVERDUE_MS - 1000 * (len(names) - number))


def sweep_of(store, actors, **process_limits):
    return Sweep(store, actors, timing=Timing(), process_limits=ProcessLimits(standby=0, **process_limits))


async def swept(sweep, condition):
    """Tick until the condition holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():
            await sweep.tick()
            await asyncio.sleep(0.005)


async def test_those_that_cannot_be_woken_keep_no_other_from_its_turn(monkeypatch):
    # given more that fail than one look sees, all longer overdue than the one that could be woken
    monkeypatch.setattr(sweeping, "BATCH", 3)
    monkeypatch.setattr(sweeping, "LONGEST_DELAY_MS", 10_000)
    monkeypatch.setattr(sweeping, "SHORTEST_DELAY_MS", 10_000, raising=False)
    store, failing = MemoryStore(), [f"bad-{number}" for number in range(7)]
    actors = Waking({name: NewerRecord("log", 9, 3) for name in failing})
    await overdue(store, *failing, "good")

    async def woken():
        return "good" in actors.woken

    await swept(sweep_of(store, actors), woken)

    # then each was tried once, and the store says why
    assert {trouble.conversation_id for trouble in await store.troubles()} == set(failing)
    assert all("upgrade" in trouble.reason for trouble in await store.troubles())
    assert sorted(actors.asked) == sorted([*failing, "good"])


async def test_a_sweeper_that_begins_anew_leaves_what_fails_in_peace_for_as_long(monkeypatch):
    monkeypatch.setattr(sweeping, "SHORTEST_DELAY_MS", 10_000, raising=False)
    monkeypatch.setattr(sweeping, "LONGEST_DELAY_MS", 10_000)
    store, actors = MemoryStore(), Waking({"bad": StoreUnavailable("away")})
    await overdue(store, "bad")
    monkeypatch.setattr(sweeping, "WAKE_TIMEOUT_S", 0.05)
    first = sweep_of(store, actors)

    async def named():
        return bool(await store.troubles())

    await swept(first, named)
    asked = len(actors.asked)
    second = sweep_of(store, actors)
    for _ in range(5):
        await second.tick()
        await asyncio.sleep(0.01)
    assert len(actors.asked) == asked


async def test_what_cannot_be_read_is_set_aside_with_the_reason_and_taken_up_again_when_it_is_told_to():
    store, actors = MemoryStore(), Waking({"bad": CorruptStore("the log lacks entry 4")})
    await overdue(store, "bad")

    async def quarantined():
        return await store.quarantine("bad") is not None

    sweep = sweep_of(store, actors, strikes=3)
    await swept(sweep, quarantined)

    assert "the log lacks entry 4" in (await store.quarantine("bad")).reason
    assert len(actors.asked) == 3
    assert list(await store.troubles()) == []
    actors.errors.clear()
    await store.retry("bad")

    async def woken():
        return actors.woken == ["bad"]

    await swept(sweep, woken)


@pytest.mark.parametrize(
    "error",
    [NewerRecord("log", 9, 3), CipherMissing("conversation 'newer'"), CipherFailed("log newer 1", "UnknownKey: k7")],
    ids=lambda error: type(error).__name__,
)
async def test_what_others_can_read_is_left_to_them_and_never_set_aside(error):
    store, actors = MemoryStore(), Waking({"newer": error})
    await overdue(store, "newer")

    async def tried():
        return len(actors.asked) > 5

    sweep = sweep_of(store, actors, strikes=1)
    await swept(sweep, tried)
    assert await store.quarantine("newer") is None
    actors.errors.clear()

    async def well():
        return actors.woken and not await store.troubles()

    await swept(sweep, well)


async def test_an_error_that_nobody_foresaw_is_tried_again_after_a_while_and_named(monkeypatch):
    monkeypatch.setattr(sweeping, "LONGEST_DELAY_MS", 10_000)
    monkeypatch.setattr(sweeping, "SHORTEST_DELAY_MS", 10_000, raising=False)
    store, actors = MemoryStore(), Waking({"odd": ZeroDivisionError("nobody foresaw this")})
    await overdue(store, "odd", "good")
    sweep = sweep_of(store, actors)

    async def named():
        return "good" in actors.woken and bool(await store.troubles())

    await swept(sweep, named)
    for _ in range(5):
        await sweep.tick()
        await asyncio.sleep(0.005)
    assert actors.asked.count("odd") == 1
    assert [trouble.reason for trouble in await store.troubles()] == ["nobody foresaw this"]


async def test_those_that_hang_keep_only_their_own_kind_waiting(monkeypatch):
    # given more that hang than are woken at once, known as such from the store
    monkeypatch.setattr(sweeping, "AT_ONCE", 2)
    store, hanging = MemoryStore(), [f"hangs-{number}" for number in range(5)]
    actors = Waking({name: asyncio.Event() for name in hanging})
    for name in hanging:
        await store.troubled(name, "no answer")
    await overdue(store, *hanging, "good")

    async def woken():
        return "good" in actors.woken

    await swept(sweep_of(store, actors), woken)

    for gate in actors.errors.values():
        gate.set()


async def test_what_finds_no_actor_free_is_tried_again_within_seconds_however_long_that_lasts(monkeypatch):
    # given deadlines that meet a cap which is reached, for minutes by the store's clock
    monkeypatch.setattr(sweeping, "LONGEST_DELAY_MS", 60_000)
    monkeypatch.setattr(sweeping, "WAKE_TIMEOUT_S", 0.3)
    monkeypatch.setattr("holdfast.registry.pool.SHORT_S", 0.05)
    now = [1_700_000_000_000]
    store, actors = MemoryStore(clock=lambda: now[0]), Waking()
    await overdue(store, "late")
    store._conversations["late"].actor = ""
    await store.heartbeat("busy-1", limit=1)
    sweep = sweep_of(store, actors, max_actors=1)
    postponed = []
    for _ in range(3):

        async def told():
            return store._conversations["late"].postponed > now[0]

        monkeypatch.setattr(sweeping, "RESERVE", 0)
        sweep._registry._pool._limit = 1
        await swept(sweep, told)
        postponed.append(store._conversations["late"].postponed - now[0])
        now[0] += 60_000
    # then it is looked at again within seconds each time
    assert max(postponed) <= 5_000, postponed
    # and nothing is said to be wrong with it
    assert list(await store.troubles()) == []
    assert sweep._troubled == set()


async def test_a_wake_that_waited_asks_whether_the_store_is_healthy_when_its_turn_comes(monkeypatch):
    # given a conversation whose owner lives, and a wake that waits behind one that hangs
    monkeypatch.setattr(sweeping, "AT_ONCE", 1)
    store = MemoryStore()
    gate = asyncio.Event()
    actors = Waking({"hangs": gate})
    await overdue(store, "hangs")
    sweep = Sweep(store, actors, timing=Timing(lease_ms=1), process_limits=ProcessLimits(standby=0))
    for _ in range(2):
        await sweep.tick()
        await asyncio.sleep(0.01)
    working = await Writer.of(store, "works", lease_ms=1)
    await working.do(start())

    async def waits():
        return "hangs" in actors.asked and "works" in sweep._waking

    await swept(sweep, waits)
    # when the store goes away before its turn comes
    sweep.store_away()
    gate.set()
    async with asyncio.timeout(DEADLINE_S):
        while sweep._waking:
            await asyncio.sleep(0.005)
    # then its owner, which may not have been able to renew, is left in peace
    assert "works" not in actors.asked


async def test_the_pool_is_filled_although_one_actor_of_many_cannot_be_looked_up():
    class Odd(Waking):
        async def find(self, name):
            if name == "odd-1":
                raise ZeroDivisionError

        async def spawn(self, name, *, offer):
            self.asked.append(name)
            return self

    store, actors = MemoryStore(clock=iter(range(10**6, 10**9, 60_000)).__next__), Odd()
    for name in ("odd-1", "gone-1"):
        await store.heartbeat(name, limit=9)
    sweep = Sweep(store, actors, timing=Timing(), process_limits=ProcessLimits(standby=1))

    async def spawned():
        return bool(actors.asked)

    await swept(sweep, spawned)
    assert "gone-1" not in await store.live()
    assert "odd-1" in await store.live()


async def test_nothing_is_kept_in_mind_of_what_is_well(monkeypatch):
    store, actors = MemoryStore(), Waking({"bad": StoreUnavailable("away")})
    monkeypatch.setattr(sweeping, "WAKE_TIMEOUT_S", 0.05)
    await overdue(store, "bad")
    sweep = sweep_of(store, actors)

    async def named():
        return bool(await store.troubles())

    await swept(sweep, named)
    actors.errors.clear()

    async def well():
        return not await store.troubles() and bool(actors.woken)

    await swept(sweep, well)
    assert sweep._troubled == set()


async def test_a_trouble_that_cannot_be_written_down_ends_no_sweeping():
    inner = MemoryStore()
    store = FaultyStore(inner, Faults(troubled={1: FailBefore()}, postpone={1: FailBefore()}))
    actors = Waking({"bad": NewerRecord("log", 9, 3)})
    await overdue(inner, "bad")

    async def tried():
        return len(actors.asked) > 3

    await swept(sweep_of(store, actors), tried)


async def left_paused(store, *names):
    """Conversations that were left since their work is paused."""
    await store.pause(None, by="ana", reason="")
    for name in names:
        writer = await Writer.of(store, name, lease_ms=1)
        await writer.do(start(), begin())
        await store.release(name, writer.token, paused=True)


async def test_who_waits_for_the_end_of_a_pause_is_left_in_peace_and_woken_at_once_when_it_ends():
    store, actors = MemoryStore(), Waking()
    await left_paused(store, "c-1", "c-2")
    await overdue(store, "due")
    watched = FaultyStore(store, Faults())
    sweep = sweep_of(watched, actors)

    async def woken():
        return len(actors.woken) == 1

    await swept(sweep, woken)
    for _ in range(20):
        await sweep.tick()
    assert set(actors.asked) == {"due"}
    assert watched.calls["readmit"] == 1, "while the pauses are the same, those who wait are not looked for with each tick"

    await store.unpause(None)
    await sweep.tick()

    async with asyncio.timeout(DEADLINE_S):
        while not {"c-1", "c-2"} <= set(actors.woken):
            await asyncio.sleep(0)


async def test_who_was_left_after_the_pause_was_over_is_found_too(monkeypatch):
    monkeypatch.setattr(sweeping, "READMIT_S", 0.05)
    store, actors = MemoryStore(), Waking()
    sweep = sweep_of(store, actors)
    await sweep.tick()
    await left_paused(store, "late")
    await store.unpause(None)  # an actor that froze meanwhile leaves it only now, and no pause has changed since the last look

    async def woken():
        return "late" in actors.woken

    await swept(sweep, woken)


async def test_pauses_that_cannot_be_read_keep_no_deadline_from_being_swept():
    store, actors = MemoryStore(), Waking()
    await overdue(store, "due")
    faulty = FaultyStore(store, Faults(paused=FailBefore(CorruptStore("the pauses are no hash"))))

    async def woken():
        return "due" in actors.woken

    await swept(sweep_of(faulty, actors), woken)
    assert faulty.calls["paused"] == 1, "which is said once in a while"


async def test_what_the_sweep_wakes_is_counted_and_the_store_is_told():
    store, actors = MemoryStore(), Waking({"bad": NewerRecord("log", 9, 3)})
    await overdue(store, "bad", "good")
    sweep = sweep_of(store, actors)

    async def both():
        return "good" in actors.woken and bool(await store.troubles())

    await swept(sweep, both)
    sweep._tell_at = 0.0
    await sweep.tick()
    assert (await store.survey()).counts == {"holdfast_wakes_total|woken": 1, "holdfast_wakes_total|failed": 1}
