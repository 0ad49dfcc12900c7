"""The sweeper, against a store that went away and came back: whose lease ran out meanwhile could not renew it."""

import asyncio

import pytest
from writer import Writer, begin, call, start

from holdfast.actors.answers import Hosted, Replied
from holdfast.errors import StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.registry.sweep import Sweep
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailBefore, Faults, FaultyStore

LEASE_MS = 10_000


class Living:
    """The owner: it lives, and notes what it is asked."""

    def __init__(self):
        self.asked = []

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        return Hosted()

    async def ask(self, conversation_id, command):
        self.asked.append((conversation_id, command.kind))
        return Replied(None)


class Cluster:
    """Every name is the owner's, or nobody's; whoever is spawned is as willing."""

    def __init__(self, owner, spawned=None):
        self.owner = owner
        self.spawned = spawned

    async def find(self, name):
        return self.owner

    def ours(self, name):
        return True

    def judges(self, name):
        return True

    def new_name(self):
        return "new-1"

    async def spawn(self, name, *, offer):
        return self.spawned


async def overdue(*steps, holder, late_ms=10 * LEASE_MS):
    """A store in which a conversation is at work whose lease ran out long ago."""
    now = [1_700_000_000_000]
    store = MemoryStore(clock=lambda: now[0])
    writer = await Writer.of(store, "c-1", holder=holder, lease_ms=LEASE_MS)
    await writer.do(start("hello"), *steps)
    now[0] += late_ms
    return FaultyStore(store, Faults())


async def ticked(sweep):
    """Tick, and let what that began come to its end."""
    before = asyncio.all_tasks()
    await sweep.tick()
    async with asyncio.timeout(10):
        while begun := asyncio.all_tasks() - before:  # what is begun may begin more
            await asyncio.gather(*begun)


def sweeping(store, owner, spawned=None):
    return Sweep(store, Cluster(owner, spawned), timing=Timing(lease_ms=LEASE_MS), process_limits=ProcessLimits(standby=0))


async def test_an_owner_that_lives_is_left_in_peace_until_the_store_was_there_for_a_lease(skip):
    owner = Living()
    store = await overdue(holder="owner-1")
    sweep = sweeping(store, owner)
    await ticked(sweep)
    skip(LEASE_MS / 2000)
    await ticked(sweep)
    assert owner.asked == [], "half a lease is too short to have renewed"
    skip(LEASE_MS / 2000)
    await ticked(sweep)
    assert owner.asked == [("c-1", "wake")]


async def test_an_owner_beside_whose_work_a_deadline_is_to_come_is_left_in_peace_until_it_has_come():
    work = (begin(), call("ask", "lookup"))  # a run goes on while a person has an hour to answer
    owner = Living()
    await ticked(sweeping(await overdue(*work, holder="owner-1"), owner))
    assert owner.asked == []
    await ticked(sweeping(await overdue(*work, holder="owner-1", late_ms=3600 * 1000), owner))
    assert owner.asked == [("c-1", "wake")]


async def test_a_store_that_was_away_must_be_there_for_a_lease_once_more(skip):
    owner = Living()
    store = await overdue(holder="owner-1")
    sweep = sweeping(store, owner)
    await ticked(sweep)
    skip(0.9 * LEASE_MS / 1000)
    store.policy = Faults(attention=FailBefore())
    with pytest.raises(StoreUnavailable):
        await sweep.tick()
    store.policy = Faults()
    for _ in range(2):  # the first is when it is found to be there
        skip(0.9 * LEASE_MS / 1000)
        await ticked(sweep)
        assert owner.asked == []
    skip(0.2 * LEASE_MS / 1000)
    await ticked(sweep)
    assert owner.asked == [("c-1", "wake")]


async def test_an_owner_that_lives_no_more_is_not_waited_for():
    store = await overdue(holder="dead-1")
    spawned = Living()
    await ticked(sweeping(store, None, spawned))
    assert spawned.asked == [("c-1", "wake")]
