"""Breakers: a model that failed again and again is passed over, and probed one try at a time."""

import pytest

from holdfast import metrics
from holdfast.actors.worker.breakers import MOST_ROUTES, Breakers, PassedOver
from holdfast.conversation import Breaker
from holdfast.counting import Counts, families

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
