"""The registry, against a store in memory and actors that are fakes: what it does when something hangs."""

import asyncio
import time

import pytest

from holdfast.actors import Failed, Fleet, NotHosted, Timing
from holdfast.conversation import StoreUnavailable, Wake
from holdfast.persistence import Because, MemoryStore
from holdfast.registry.hiring import Hiring
from holdfast.registry.registry import Registry
from holdfast.testing import Delay, Faults, FaultyStore


class Stranger:
    """An actor that is there and hosts nothing."""

    async def ask(self, conversation_id, command):
        return NotHosted()


class Found:
    """Every name is that of a stranger."""

    async def find(self, name):
        return Stranger()


class Refusing:
    """An actor whose store is away; each activation takes a moment."""

    activations = 0

    async def activate(self, conversation_id, seen_token, because, *, create):
        self.activations += 1
        await asyncio.sleep(0.02)
        return Failed(StoreUnavailable("away"))


async def test_a_deadline_that_meets_an_answer_is_still_one():
    actor = Refusing()

    class Hirable(Found):
        def new_name(self):
            return "actor-1"

        async def hire(self, name, *, offer):
            return actor

    store, actors = MemoryStore(), Hirable()
    hiring = Hiring(store, actors, timing=Timing(), fleet=Fleet())
    registry = Registry(store, actors, hiring=hiring, timing=Timing())
    # The process stands still while first the answer and then the deadline come in.
    asyncio.get_running_loop().call_later(0.01, time.sleep, 0.1)
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            await registry.ensure_started("c-1", timeout_s=0.03, create=True)
    assert actor.activations == 1


async def test_a_store_that_hangs_does_not_hold_a_caller_beyond_its_deadline():
    inner = MemoryStore()
    await inner.acquire(
        "c-1", seen_token="", new_token="t-1", because=Because.ASKED, holder="actor-1", lease_ms=10_000, create=True
    )
    hanging = asyncio.Event()
    store = FaultyStore(inner, Faults(owner={2: Delay(until=hanging)}))  # the first finds the actor, the second is in vain
    hiring = Hiring(store, Found(), timing=Timing(), fleet=Fleet())
    registry = Registry(store, Found(), hiring=hiring, timing=Timing())
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            await registry.ask("c-1", Wake(), timeout_s=0.05, create=True)
    hanging.set()
    while not registry._not_hosting:  # what it finds still helps whoever asks next
        await asyncio.sleep(0)
    assert registry._not_hosting == {"c-1": "t-1"}
