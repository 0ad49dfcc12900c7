"""A turnstile: who came first goes first, who comes back has kept the place, and who gave up takes none."""

import asyncio

import pytest

from holdfast.actors.worker import turnstile
from holdfast.actors.worker.turnstile import KEEP_S, NotYet, Turnstile


async def waiting(stile, ticket, within_s=30):
    """A task that stands in the line."""
    task = asyncio.create_task(stile.enter(ticket, within_s))
    await asyncio.sleep(0)
    return task


async def test_who_waits_goes_through_in_order():
    stile, through = Turnstile(1), []

    async def one(ticket):
        await stile.enter(ticket, 30)
        through.append(ticket)
        stile.leave()

    await stile.enter("first", 0)
    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    stile.leave()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks)
    assert through == [0, 1, 2, 3, 4]


async def test_who_is_sent_away_and_comes_back_is_before_who_came_later():
    stile = Turnstile(1)
    await stile.enter("first", 0)
    with pytest.raises(NotYet):
        await stile.enter("patient", 0)
    later = await waiting(stile, "later")
    patient = await waiting(stile, "patient")
    stile.leave()
    async with asyncio.timeout(10):
        await patient
    assert not later.done()
    stile.leave()
    async with asyncio.timeout(10):
        await later


async def test_who_is_away_holds_up_nobody():
    stile = Turnstile(1)
    await stile.enter("first", 0)
    with pytest.raises(NotYet):
        await stile.enter("away", 0)
    later = await waiting(stile, "later")
    stile.leave()
    async with asyncio.timeout(10):
        await later


async def test_who_gives_up_takes_no_place_even_if_it_was_just_given_one():
    stile = Turnstile(1)
    await stile.enter("first", 0)
    granted = await waiting(stile, "granted")
    stile.leave()
    granted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await granted
    async with asyncio.timeout(10):
        await stile.enter("next", 1)


async def test_the_line_has_an_end_and_forgets_who_does_not_come_back(monkeypatch):
    monkeypatch.setattr(turnstile, "MOST_WAITING", 2)
    now_s = 0.0
    stile = Turnstile(1, clock=lambda: now_s)
    await stile.enter("first", 0)
    for ticket in ("a", "b"):
        with pytest.raises(NotYet, match="has waited"):
            await stile.enter(ticket, 0)
    with pytest.raises(NotYet, match="2 wait"):
        await stile.enter("c", 0)
    now_s = KEEP_S + 1
    with pytest.raises(NotYet, match="has waited"):
        await stile.enter("c", 0)
