"""A turnstile: who came first goes first, and who gave up takes no place."""

import asyncio

import pytest

from holdfast.actors.worker import turnstile
from holdfast.actors.worker.turnstile import NotYet, Turnstile


async def waiting(stile, at_most=0):
    """A task that stands in the line."""
    task = asyncio.create_task(stile.enter(at_most=at_most))
    await asyncio.sleep(0)
    return task


async def ended(*tasks):
    async with asyncio.timeout(10):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_waits_goes_through_in_order():
    stile, through = Turnstile(1), []

    async def one(number):
        await stile.enter()
        through.append(number)
        stile.leave()

    await stile.enter()
    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    stile.leave()
    await ended(*tasks)
    assert through == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("granted", [False, True], ids=["before its turn", "just as it is let in"])
async def test_who_gives_up_takes_no_place(granted):
    stile = Turnstile(1)
    await stile.enter()
    gives_up = await waiting(stile)
    if granted:
        stile.leave()
    gives_up.cancel()
    if not granted:
        stile.leave()
    assert isinstance((await ended(gives_up))[0], asyncio.CancelledError)
    await ended(asyncio.create_task(stile.enter()))
    assert stile.full()


async def test_the_line_has_an_end(monkeypatch):
    monkeypatch.setattr(turnstile, "MOST_WAITING", 2)
    stile = Turnstile(1)
    await stile.enter()
    waits = [await waiting(stile), await waiting(stile)]
    with pytest.raises(NotYet, match="2 wait"):
        await stile.enter()
    stile.leave()
    await ended(waits[0])
    third = await waiting(stile)
    for _ in range(2):
        stile.leave()
    await ended(waits[1], third)


async def test_as_many_are_inside_as_each_of_them_bears():
    stile = Turnstile(100)
    for _ in range(3):
        await stile.enter(at_most=4)
    fourth = await waiting(stile, at_most=2)
    fifth = await waiting(stile, at_most=4)
    assert not fourth.done()
    assert not fifth.done()  # nobody overtakes: who bears little would wait for ever
    stile.leave(at_most=4)
    stile.leave(at_most=4)
    await ended(fourth)
    assert not fifth.done()  # with it they would be three
    stile.leave(at_most=4)
    await ended(fifth)
    third = await waiting(stile)
    assert not third.done()
    third.cancel()
    await ended(third)


async def test_who_gives_up_waiting_to_be_alone_lets_those_behind_through():
    stile = Turnstile(100)
    await stile.enter(at_most=4)
    alone = await waiting(stile, at_most=1)
    behind = await waiting(stile, at_most=4)
    assert not behind.done()
    alone.cancel()
    await ended(behind, alone)
    assert not behind.cancelled()


async def test_it_is_full_when_one_more_would_wait():
    stile = Turnstile(2)
    assert not stile.full()
    await stile.enter()
    assert not stile.full()
    await stile.enter()
    assert stile.full()
    stile.leave()
    assert not stile.full()
    assert stile.full(at_most=1)
    await stile.enter(at_most=2)
    stile.leave()
    alone = await waiting(stile, at_most=1)
    assert stile.full()
    alone.cancel()
    await ended(alone)
