"""Breakers: a model that failed again and again is passed over, and probed one try at a time."""

import pytest

from holdfast import metrics
from holdfast.actors.worker.breakers import FORGOTTEN_S, MOST_ROUTES, MOST_TOLD, Breakers, PassedOver
from holdfast.conversation import Breaker
from holdfast.counting import LABEL, Counts, families
from holdfast.persistence import MemoryStore, OpenBreakers
from holdfast.persistence.directory import BREAKERS_MS
from holdfast.testing import FailBefore, Faults, FaultyStore

ROUTE = ("openai/a", "")
TERMS = Breaker(failures=3, cooldown_s=30)


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counts():
    return Counts()


@pytest.fixture
def breakers(counts, clock):
    return Breakers(counts, clock)


def fail(breakers, times=1, terms=TERMS):
    for _ in range(times):
        breakers.enter(ROUTE, terms).ended(failed=True)


def test_it_opens_after_so_many_failures_in_a_row_and_says_for_how_long(breakers, clock):
    fail(breakers, 2)
    breakers.enter(ROUTE, TERMS).ended(failed=False)
    fail(breakers, 2)
    assert not breakers.shown()
    fail(breakers)
    clock.now_s += 10
    with pytest.raises(PassedOver, match="not asked for another 20 s") as passed:
        breakers.enter(ROUTE, TERMS)
    assert passed.value.for_s == 20
    assert breakers.shown() == [{"model": "openai/a", "state": "open", "for_s": 20.0}]


def test_after_its_cooldown_one_probe_passes_and_an_answer_closes_it(breakers, clock, counts):
    fail(breakers, 3)
    clock.now_s += 30
    probe = breakers.enter(ROUTE, TERMS)
    for _ in range(50):
        with pytest.raises(PassedOver, match="tried by another call"):
            breakers.enter(ROUTE, TERMS)
    probe.ended(failed=False)
    several = [breakers.enter(ROUTE, TERMS) for _ in range(50)]
    assert len(several) == 50
    assert not breakers.shown()
    [family] = families(counts.standing(), [metrics.BREAKERS])
    assert family.values == {("openai/a", "open"): 1, ("openai/a", "closed"): 1}


def test_so_many_probes_pass_as_declared(breakers, clock):
    terms = Breaker(failures=1, cooldown_s=30, probes=2)
    fail(breakers, terms=terms)
    clock.now_s += 30
    probes = [breakers.enter(ROUTE, terms) for _ in range(2)]
    with pytest.raises(PassedOver):
        breakers.enter(ROUTE, terms)
    probes[0].ended(failed=True)
    with pytest.raises(PassedOver, match="30 s"):
        breakers.enter(ROUTE, terms)
    probes[1].ended(failed=False)  # the other probe has opened it anew
    assert breakers.shown()


def test_a_probe_that_is_left_makes_room_for_another_once(breakers, clock):
    fail(breakers, 3)
    clock.now_s += 30
    left = breakers.enter(ROUTE, TERMS)
    left.ended(failed=None)
    left.ended(failed=True)
    breakers.enter(ROUTE, TERMS)
    with pytest.raises(PassedOver, match="tried by another call"):
        breakers.enter(ROUTE, TERMS)


def test_a_try_that_began_before_the_breaker_opened_decides_nothing(breakers):
    early = [breakers.enter(ROUTE, TERMS) for _ in range(2)]
    fail(breakers, 3)
    early[0].ended(failed=False)
    early[1].ended(failed=True)
    with pytest.raises(PassedOver, match="30 s"):
        breakers.enter(ROUTE, TERMS)


def test_routes_are_apart_and_bounded(breakers):
    fail(breakers, 3)
    breakers.enter(("openai/a", "https://elsewhere.example"), TERMS).ended(failed=False)
    for number in range(MOST_ROUTES):
        breakers.enter((f"openai/{number}", ""), TERMS).ended(failed=True)
    assert not breakers.shown()


def test_without_terms_nothing_is_kept(breakers):
    fail(breakers, 100, terms=None)
    assert not breakers.shown()
    breakers.enter(ROUTE, None)


async def test_the_store_is_told_of_breakers_while_they_are_not_closed(breakers, clock):
    store = FaultyStore(MemoryStore(), Faults())
    await breakers.tell(store, "worker:a:0")
    assert not store.calls["note_breakers"]
    fail(breakers, 3)
    breakers.enter(("openai/a", "http://other"), TERMS.model_copy(update={"failures": 1})).ended(failed=True)
    await breakers.tell(store, "worker:a:0")
    assert await store.open_breakers() == [OpenBreakers("worker:a:0", "openai/a", "open", 2)]
    clock.now_s += 30
    await breakers.tell(store, "worker:a:0")
    assert await store.open_breakers() == [OpenBreakers("worker:a:0", "openai/a", "half_open", 2)]
    breakers.enter(ROUTE, TERMS).ended(failed=False)
    breakers.enter(("openai/a", "http://other"), TERMS).ended(failed=False)
    await breakers.tell(store, "worker:a:0")
    assert await store.open_breakers() == []
    await breakers.tell(store, "worker:a:0")
    assert store.calls["note_breakers"] == 3


def test_a_breaker_that_nobody_has_tried_for_long_is_not_shown(breakers, clock):
    fail(breakers, 3)
    clock.now_s += TERMS.cooldown_s + FORGOTTEN_S - 1
    assert [one["state"] for one in breakers.shown()] == ["half_open"]
    clock.now_s += 1
    assert breakers.shown() == []


async def test_a_worker_that_leaves_takes_its_note_back_and_one_that_dies_is_forgotten(breakers):
    now = [1_000_000]
    store = MemoryStore(clock=lambda: now[0])
    fail(breakers, 3)
    await breakers.tell(store, "worker:a:0")
    await breakers.tell(store, "worker:a:0", leaving=True)
    assert await store.open_breakers() == []
    await breakers.tell(store, "worker:a:0")
    now[0] += BREAKERS_MS - 1
    await breakers.tell(store, "worker:b:0")
    assert [one.worker for one in await store.open_breakers()] == ["worker:a:0", "worker:b:0"]
    now[0] += 1
    assert [one.worker for one in await store.open_breakers()] == ["worker:b:0"]


async def test_a_note_that_is_refused_is_told_the_next_time(breakers):
    store = FaultyStore(MemoryStore(), Faults())
    store.policy = Faults(note_breakers=FailBefore())
    fail(breakers, 3)
    await breakers.tell(store, "worker:a:0")
    store.policy = Faults()
    assert await store.open_breakers() == []
    await breakers.tell(store, "worker:a:0")
    assert len(await store.open_breakers()) == 1


async def test_many_models_with_open_breakers_are_told_as_others_and_long_names_are_cut(breakers):
    once = TERMS.model_copy(update={"failures": 1})
    for number in range(MOST_TOLD + 20):
        breakers.enter((f"{number:03}" + "m" * 1000, ""), once).ended(failed=True)
    store = MemoryStore()
    await breakers.tell(store, "worker:a:0")
    found = await store.open_breakers()
    assert len(found) == MOST_TOLD + 1
    assert [one.count for one in found if one.model == "other"] == [20]
    assert max(len(one.model) for one in found) == LABEL
