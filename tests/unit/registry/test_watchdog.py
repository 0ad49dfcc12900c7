"""Watching, against processes that are fakes: who answers nothing is ended, and whose work it was is known."""

import asyncio

from writer import Writer, begin, call, send, start

from holdfast.counting import Counts
from holdfast.persistence import Blame, MemoryStore
from holdfast.registry.watchdog import FIRST, Gone, Watchdog
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailBefore, Faults, FaultyStore

TIMING = Timing()
PATIENCE = 15
"""How many looks it takes until one that has answered before is ended: `stale_ms` of `TIMING`."""


class Fakes:
    """Workers and actors that answer, hang or are gone."""

    def __init__(self, *names):
        self.living = list(names)
        self.hanging = {}
        self.gone = set()
        self.ended = []
        self.broken = False

    async def names(self):
        return self.living

    def hosts(self, name):
        return "actor" in name

    async def answer(self, name):
        if name in self.gone:
            raise Gone(name)
        if name in self.hanging:
            await self.hanging[name].wait()

    async def end(self, name):
        if self.broken:
            raise ZeroDivisionError
        self.ended.append(name)

    def hang(self, name):
        self.hanging[name] = asyncio.Event()


async def looked(watch, times):
    for _ in range(times):
        await watch.look()
        for _ in range(3):
            await asyncio.sleep(0)


def watch_of(store, fakes, strikes=2, counts=None):
    return Watchdog(store, fakes, timing=TIMING, process_limits=ProcessLimits(strikes=strikes), counts=counts)


async def hosted(store, actor, conversation_id="c-1", seen=""):
    writer = await Writer.of(store, conversation_id, holder=actor, seen=seen)
    await store.hosts(actor, conversation_id)
    return writer


async def test_an_actor_that_stops_answering_is_ended_and_who_answers_or_is_gone_is_not():
    store, fakes = MemoryStore(), Fakes("a:actor:1", "a:actor:2", "a:worker:1", "a:actor:3")
    counts = Counts()
    watch = watch_of(store, fakes, counts=counts)
    await looked(watch, 1)
    fakes.hang("a:actor:1")
    fakes.hang("a:worker:1")
    fakes.gone.add("a:actor:3")

    await looked(watch, PATIENCE - 1)
    assert fakes.ended == []
    await looked(watch, 2)

    assert sorted(fakes.ended) == ["a:actor:1", "a:worker:1"]
    assert counts.taken() == {"holdfast_processes_ended_total|actor": 1, "holdfast_processes_ended_total|worker": 1}


async def test_an_actor_that_is_being_made_is_given_more_time():
    fakes = Fakes("a:actor:1")
    fakes.hang("a:actor:1")
    watch = watch_of(MemoryStore(), fakes)
    await looked(watch, FIRST * PATIENCE)
    assert fakes.ended == []
    await looked(watch, 1)
    assert fakes.ended == ["a:actor:1"]


async def test_a_conversation_that_hangs_actor_after_actor_is_put_in_quarantine_with_the_reason():
    # given one whose actor hangs, and another that rests beside it
    store, fakes = MemoryStore(), Fakes("a:actor:1", "a:actor:2", "a:actor:3")
    watch = watch_of(store, fakes)
    await looked(watch, 1)
    first = await hosted(store, "a:actor:1")
    await first.do(start(), begin(), call("ask"))
    await hosted(store, "a:actor:3", "c-2")
    fakes.hang("a:actor:1")
    await looked(watch, PATIENCE + 1)
    assert await store.quarantine("c-1") is None
    # when it hangs the next one too
    second = await hosted(store, "a:actor:2", seen=first.token)
    await second.do(send())
    fakes.hang("a:actor:2")
    await looked(watch, PATIENCE + 1)
    # then it is in quarantine, and only it
    assert "hang" in (await store.quarantine("c-1")).reason
    assert await store.quarantine("c-2") is None
    assert set(fakes.ended) == {"a:actor:1", "a:actor:2"}


async def test_an_actor_that_cannot_be_ended_at_once_counts_once_and_its_conversation_may_be_elsewhere_already():
    store, fakes = MemoryStore(), Fakes("a:actor:1")
    watch = watch_of(store, fakes)
    await looked(watch, 1)
    first = await hosted(store, "a:actor:1")
    await first.do(start(), begin(), call("ask"))
    taken_over = await first.succeeded()
    fakes.hang("a:actor:1")
    fakes.broken = True
    await looked(watch, 4 * PATIENCE + 1)
    fakes.broken = False
    await looked(watch, PATIENCE)
    assert fakes.ended == ["a:actor:1"]
    assert await store.quarantine("c-1") is None
    await taken_over.do(send())


async def test_a_blank_actor_that_hangs_and_a_store_that_is_away_keep_nobody_from_ending_it():
    inner, fakes = MemoryStore(), Fakes("a:actor:1", "a:actor:2")
    store = FaultyStore(inner, Faults(hosted={2: FailBefore()}))
    watch = watch_of(store, fakes)
    await looked(watch, 1)
    await (await hosted(inner, "a:actor:2")).do(start())
    await inner.hosts("a:actor:2", None)
    fakes.hang("a:actor:1")
    fakes.hang("a:actor:2")
    await looked(watch, PATIENCE + 1)
    assert sorted(fakes.ended) == ["a:actor:1", "a:actor:2"]
    assert await inner.strike("c-1", (await inner.owner("c-1")).token, process="p", reason="r", limit=9) == Blame(1, 1)
