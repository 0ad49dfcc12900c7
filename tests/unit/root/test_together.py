"""Calls of one turn of the event loop are one call."""

import asyncio

import pytest

from holdfast.together import Together


class Doubling:
    def __init__(self, *, gate=None, error=None):
        self.calls, self.gate, self.error = [], gate, error

    async def __call__(self, key, asked):
        self.calls.append((key, list(asked)))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [ValueError(f"{one} is too much") if one > 100 else 2 * one for one in asked]


async def test_what_is_asked_in_one_turn_is_one_call_for_each_key_up_to_a_number():
    work = Doubling()
    together = Together(work, most=3)
    found = await asyncio.gather(*(together.result(key, one) for one in range(4) for key in "ab"))
    assert found == [0, 0, 2, 2, 4, 4, 6, 6]
    assert work.calls == [("a", [0, 1, 2]), ("b", [0, 1, 2]), ("a", [3]), ("b", [3])]
    assert await together.result("a", 5) == 10
    assert work.calls[4:] == [("a", [5])]


async def test_one_that_fails_fails_no_other():
    together = Together(Doubling(), most=8)
    found = await asyncio.gather(*(together.result("a", one) for one in (1, 101, 2)), return_exceptions=True)
    assert found[::2] == [2, 4]
    with pytest.raises(ValueError, match="101 is too much"):
        raise found[1]


async def test_an_error_of_the_call_is_everybodys():
    together = Together(Doubling(error=OSError("gone")), most=8)
    found = await asyncio.gather(*(together.result("a", one) for one in (1, 2)), return_exceptions=True)
    assert [str(one) for one in found] == ["gone", "gone"]


async def test_a_caller_that_stops_waiting_stops_no_other():
    gate = asyncio.Event()
    together = Together(Doubling(gate=gate), most=8)
    leaves, stays = (asyncio.create_task(together.result("a", one)) for one in (1, 2))
    await asyncio.sleep(0.01)
    leaves.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await stays == 4
    assert leaves.cancelled()


async def test_what_is_asked_while_a_call_goes_on_is_another_call():
    gate = asyncio.Event()
    work = Doubling(gate=gate)
    together = Together(work, most=8)
    first = asyncio.create_task(together.result("a", 1))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(together.result("a", 2))
    await asyncio.sleep(0.01)
    gate.set()
    assert [await first, await second] == [2, 4]
    assert work.calls == [("a", [1]), ("a", [2])]
