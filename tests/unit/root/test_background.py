"""Tasks in the background."""

import asyncio

import pytest

from holdfast.background import Background


async def test_a_task_is_held_until_it_is_over():
    background, go_on = Background(), asyncio.Event()
    task = background.start(go_on.wait())
    assert len(background) == 1

    go_on.set()

    assert await task is True
    assert len(background) == 0


async def test_the_error_of_a_task_is_for_whoever_waits_and_troubles_nobody_else():
    async def fail():
        raise ZeroDivisionError

    background = Background()
    with pytest.raises(ZeroDivisionError):
        await background.start(fail())
    background.start(fail())
    while len(background):
        await asyncio.sleep(0)


async def test_the_close_cancels_what_goes_on():
    background = Background()
    task = background.start(asyncio.Event().wait())

    await background.close()

    assert task.cancelled()
    assert len(background) == 0


async def test_the_close_waits_for_what_comes_to_its_end_in_time():
    background, done = Background(), []

    async def finish():
        await asyncio.sleep(0.01)
        done.append(True)

    background.start(finish())
    late = background.start(asyncio.Event().wait())

    await background.close(wait_s=0.1)

    assert done == [True]
    assert late.cancelled()
