"""One actor without Ray: when it leaves, and what it does while it does."""

import asyncio

from holdfast.actors import Fleet, Host, Occupied, Timing
from holdfast.persistence import Because, MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore


async def test_an_actor_that_leaves_ends_and_is_adopted_by_nobody_also_while_the_store_does_not_hear_of_it():
    inner = MemoryStore()
    left = asyncio.Event()
    host = Host(
        FaultyStore(inner, Faults(delist=FailBefore())),
        None,
        name="actor-1",
        timing=Timing(tick_ms=10),
        fleet=Fleet(adoptions=0),  # it is worn from the start
        clock=lambda: 0,
        leave=left.set,
    )
    await host.offer_blank()

    async with asyncio.timeout(10):
        await left.wait()

    assert await host.activate("c-1", "", Because.ASKED, create=True) == Occupied()
    assert await inner.offers() == 0
    assert await inner.owner("c-1") is None
