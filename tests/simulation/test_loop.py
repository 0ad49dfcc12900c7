"""The simulated loop: its clock, its processes, and that nothing leaves it."""

import asyncio
import random

import pytest
from simulation.loop import Process, SimLoop, Stuck


def looped(seed=1):
    loop = SimLoop(random.Random(seed))
    return loop, Process("one", loop), Process("two", loop)


def test_hours_of_sleep_take_no_time():
    loop, _, _ = looped()
    loop.run(asyncio.sleep(36_000))
    assert loop.time() == 36_000


def test_a_timeout_is_one_of_simulated_time():
    loop, _, _ = looped()

    async def late():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 2)

    loop.run(late())
    assert loop.time() == 2


def test_handles_of_a_process_run_in_order_and_processes_in_any():
    orders = set()
    for seed in range(20):
        loop, one, two = looped(seed)
        seen = []

        async def step(name, seen=seen):
            seen.append(name)

        for number in range(3):
            one.start(step(f"one {number}"))
            two.start(step(f"two {number}"))
        loop.run(asyncio.sleep(1))
        assert [name for name in seen if name.startswith("one")] == ["one 0", "one 1", "one 2"]
        orders.add(tuple(seen))
    assert len(orders) > 5


def test_what_is_dead_never_runs_again_and_what_is_stopped_runs_late():
    loop, one, two = looped()
    seen = []

    async def ticking(name):
        while True:
            await asyncio.sleep(1)
            seen.append((name, loop.time()))

    async def judge():
        one.start(ticking("one"))
        two.start(ticking("two"))
        await asyncio.sleep(1.5)
        loop.kill(one)
        loop.stop(two)
        await asyncio.sleep(5)
        loop.go_on(two)
        await asyncio.sleep(1.2)

    loop.run(judge())
    loop.close()
    assert sorted(seen) == [("one", 1), ("two", 1), ("two", 6.5), ("two", 7.5)]


def test_a_process_starts_no_thread():
    loop, _, _ = looped()
    with pytest.raises(AssertionError, match="no thread"):
        loop.run(asyncio.to_thread(print))


def test_a_loop_in_which_nothing_can_happen_any_more_says_so():
    loop, _, _ = looped()
    with pytest.raises(Stuck):
        loop.run(asyncio.Event().wait())
    loop.close()
