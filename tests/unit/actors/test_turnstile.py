"""A turnstile: who came first goes first, who comes back has kept the place, and who gave up takes none."""

import asyncio

import pytest

from holdfast.actors.worker import turnstile
from holdfast.actors.worker.turnstile import KEEP_S, NotYet, Turnstile


async def waiting(stile, ticket, within_s=30, at_most=0):
    """A task that stands in the line."""
    task = asyncio.create_task(stile.enter(ticket, within_s, at_most=at_most))
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


async def test_as_many_are_inside_as_each_of_them_bears():
    stile = Turnstile(100)
    for number in range(3):
        await stile.enter(number, 0, at_most=4)
    fourth = await waiting(stile, "bears two", at_most=2)
    fifth = await waiting(stile, "bears four", at_most=4)
    assert not fourth.done()
    assert not fifth.done()  # nobody overtakes: who bears little would wait for ever
    stile.leave(at_most=4)
    stile.leave(at_most=4)
    await fourth
    assert not fifth.done()  # with it they would be three
    stile.leave(at_most=4)
    async with asyncio.timeout(10):
        await fifth
    with pytest.raises(NotYet):
        await stile.enter("a third", 0)


async def test_who_gives_up_waiting_to_be_alone_lets_those_behind_through():
    stile = Turnstile(100)
    await stile.enter("first", 0, at_most=4)
    alone = await waiting(stile, "alone", at_most=1)
    behind = await waiting(stile, "behind", at_most=4)
    assert not behind.done()
    alone.cancel()
    async with asyncio.timeout(10):
        await behind
    with pytest.raises(asyncio.CancelledError):
        await alone


async def test_who_is_sent_away_and_wants_to_be_alone_is_not_overtaken_until_it_has_been_away_for_long():
    now_s = 0.0
    stile = Turnstile(100, clock=lambda: now_s)
    await stile.enter("first", 0, at_most=4)
    with pytest.raises(NotYet):
        await stile.enter("alone", 0, at_most=1)
    behind = await waiting(stile, "behind", at_most=4)
    assert stile.full(4)
    again = await waiting(stile, "alone", at_most=1)
    stile.leave(at_most=4)
    async with asyncio.timeout(10):
        await again
    assert not behind.done()
    with pytest.raises(NotYet):
        await stile.enter("alone too", 0, at_most=1)
    now_s = KEEP_S + 1
    stile.leave(at_most=1)
    async with asyncio.timeout(10):
        await behind


async def test_who_wants_to_be_alone_and_never_comes_back_keeps_nobody_waiting_for_ever(monkeypatch):
    monkeypatch.setattr(turnstile, "KEEP_S", 0.05)
    stile = Turnstile(100)
    await stile.enter("first", 0, at_most=4)
    with pytest.raises(NotYet):
        await stile.enter("alone", 0, at_most=1)
    behind = await waiting(stile, "behind", at_most=4)
    stile.leave(at_most=4)
    assert not behind.done()
    async with asyncio.timeout(10):
        await behind  # though nobody else comes or goes


async def test_it_is_full_when_one_more_would_wait():
    stile = Turnstile(2)
    assert not stile.full()
    await stile.enter("a", 0)
    assert not stile.full()
    await stile.enter("b", 0)
    assert stile.full()
    stile.leave()
    assert not stile.full()
    assert stile.full(at_most=1)
    await stile.enter("alone", 0, at_most=2)
    stile.leave()
    await waiting(stile, "all alone", at_most=1)
    assert stile.full()
