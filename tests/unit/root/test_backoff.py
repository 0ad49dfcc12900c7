"""Pauses that grow."""

import pytest

from holdfast.backoff import Backoff


def test_each_pause_is_twice_as_long_as_the_one_before_up_to_the_longest():
    backoff = Backoff(0.1, 0.5)

    assert [backoff.next_s() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_jitter_takes_away_its_share_of_a_pause_at_most():
    backoff = Backoff(1, 1, jitter=0.5)

    pauses = [backoff.next_s() for _ in range(200)]

    assert min(pauses) >= 0.5
    assert max(pauses) <= 1
    assert len(set(pauses)) > 1


async def test_who_sleeps_may_ask_for_a_longer_pause(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    backoff = Backoff(0.1, 0.5)
    await backoff.sleep()
    await backoff.sleep(at_least_s=3)
    await backoff.sleep(at_least_s=0.01)

    assert slept == pytest.approx([0.1, 3, 0.4])
