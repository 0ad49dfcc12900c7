"""A sweeper looks at conversations that nobody owns: it wakes those whose work nobody keeps, and leaves the others alone."""

import asyncio

from writer import Writer, begin, start

from holdfast.actors.answers import Hosted, Replied
from holdfast.persistence import MemoryStore
from holdfast.registry.sweep import Sweep
from holdfast.settings import ProcessLimits, Timing
from holdfast.testing import FailBefore, Faults, FaultyStore

LEASE_MS = 1000
BOUND_MS = 60_000


class Cluster:
    """Whoever is spawned takes every conversation; `answers` is what each worker says of its claims."""

    def __init__(self, **answers):
        self.answers, self.asked, self.woken, self.taken_over = answers, [], [], []

    async def keeps(self, worker, incarnations):
        self.asked.append((worker, sorted(incarnations)))
        answer = self.answers[worker]
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else [one in answer for one in incarnations]

    async def find(self, name):
        return None

    def ours(self, name):
        return True

    def judges(self, name):
        return True

    def new_name(self):
        return "new-1"

    async def spawn(self, name, *, offer):
        return self

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        self.taken_over.append(conversation_id)
        return Hosted()

    async def ask(self, conversation_id, command):
        self.woken.append((conversation_id, command.kind))
        return Replied(None)


class Clock:
    """The clock of a store."""

    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        return self.now


async def parked(store, conversation_id, worker, incarnation):
    """A conversation that nobody owns, which a worker has claimed, and which is to be looked at now."""
    writer = await Writer.of(store, conversation_id)
    await writer.do(start(), begin())
    assert await store.claim(conversation_id, "t1.m1", incarnation=incarnation, worker=worker, bound_ms=BOUND_MS)
    await store.release(conversation_id, writer.token, look_ms=0)


def sweeping(store, cluster):
    return Sweep(store, cluster, timing=Timing(lease_ms=LEASE_MS), process_limits=ProcessLimits(standby=0))


async def over(doing=None):
    """Let what is begun come to its end."""
    before = asyncio.all_tasks()
    if doing is not None:
        await doing
    async with asyncio.timeout(10):
        while begun := asyncio.all_tasks() - before:
            await asyncio.gather(*begun)


async def ticked(sweep):
    await over(sweep.tick())


async def due(store):
    return sorted((await store.attention(10)).conversation_ids)


async def test_what_a_worker_keeps_is_left_alone_and_looked_at_again_after_a_lease():
    clock = Clock()
    store, cluster = MemoryStore(clock=clock), Cluster(w={"p-1.a"})
    await parked(store, "c-1", "w", "p-1.a")
    sweep = sweeping(store, cluster)

    await ticked(sweep)
    assert (cluster.asked, cluster.woken) == ([("w", ["p-1.a"])], [])
    await ticked(sweep)
    assert len(cluster.asked) == 1
    clock.now += LEASE_MS
    await ticked(sweep)
    assert (len(cluster.asked), cluster.woken) == (2, [])
    assert (await store.owner("c-1")).token == ""


async def test_each_worker_is_asked_once_for_all_and_only_what_it_does_not_keep_is_woken():
    store, cluster = MemoryStore(), Cluster(w={"p-1.a", "p-1.c"}, v=set())
    for conversation_id, worker, incarnation in (
        ("c-1", "w", "p-1.a"),
        ("c-2", "w", "p-1.b"),
        ("c-3", "w", "p-1.c"),
        ("c-4", "v", "p-2.a"),
    ):
        await parked(store, conversation_id, worker, incarnation)

    await ticked(sweeping(store, cluster))

    assert sorted(cluster.asked) == [("v", ["p-2.a"]), ("w", ["p-1.a", "p-1.b", "p-1.c"])]
    assert sorted(cluster.woken) == [("c-2", "wake"), ("c-4", "wake")]


async def test_what_a_worker_does_not_answer_for_is_left_alone_until_its_bound_has_passed():
    clock = Clock()
    store, cluster = MemoryStore(clock=clock), Cluster(w=None, v=ZeroDivisionError())
    await parked(store, "c-1", "w", "p-1.a")
    await parked(store, "c-2", "v", "p-2.a")
    sweep = sweeping(store, cluster)

    for _ in range(3):
        await ticked(sweep)
        clock.now += LEASE_MS
    assert (len(cluster.asked), cluster.woken) == (6, [])

    clock.now += BOUND_MS
    await ticked(sweep)
    assert sorted(cluster.woken) == [("c-1", "wake"), ("c-2", "wake")]


async def test_a_worker_that_hangs_holds_up_nothing_that_another_is_asked_for():
    store, cluster = MemoryStore(), Cluster(v=set())
    hanging, answered = asyncio.Event(), cluster.keeps

    async def keeps(worker, incarnations):
        if worker == "w":
            await hanging.wait()
            return [True]
        return await answered(worker, incarnations)

    cluster.keeps = keeps
    await parked(store, "c-1", "w", "p-1.a")
    await parked(store, "c-2", "v", "p-2.a")
    sweep = sweeping(store, cluster)

    async with asyncio.timeout(10):
        await sweep.tick()
        while not cluster.woken:
            await asyncio.sleep(0)
    assert cluster.woken == [("c-2", "wake")]
    hanging.set()
    await over()


async def test_what_breaks_as_it_is_looked_at_is_woken_too():
    store, cluster = MemoryStore(), Cluster()
    await parked(store, "c-1", "w", "p-1.a")

    class Broken(FaultyStore):
        async def look(self, conversation_id, look_ms):
            raise ZeroDivisionError

    await ticked(sweeping(Broken(store, Faults()), cluster))

    assert cluster.woken == [("c-1", "wake")]


async def test_what_cannot_be_looked_at_is_woken():
    inner, cluster = MemoryStore(), Cluster()
    await parked(inner, "c-1", "w", "p-1.a")

    await ticked(sweeping(FaultyStore(inner, Faults(look=FailBefore())), cluster))

    assert (cluster.asked, cluster.woken) == ([], [("c-1", "wake")])


async def test_an_outcome_that_is_heard_of_is_taken_up_without_a_tick_and_once():
    store, cluster = MemoryStore(), Cluster(w={"p-1.a"})
    await parked(store, "c-1", "w", "p-1.a")
    sweep = sweeping(store, cluster)
    sweep.ring("c-1")
    await over()
    assert (cluster.asked, cluster.woken) == ([], [])  # it has not seen the store yet
    await ticked(sweep)
    assert await store.finish("c-1", "t1.m1", incarnation="p-1.a", outcome=b"Hi.")

    async def rung():
        sweep.ring("c-1")
        sweep.ring("c-1")

    await over(rung())

    assert (cluster.taken_over, cluster.woken) == (["c-1"], [("c-1", "wake")])


async def test_what_is_heard_of_although_its_work_goes_on_is_left_alone():
    store, cluster = MemoryStore(), Cluster(w={"p-1.a"})
    sweep = sweeping(store, cluster)
    await ticked(sweep)
    await parked(store, "c-1", "w", "p-1.a")

    async def rung():
        sweep.ring("c-1")

    await over(rung())

    assert (len(cluster.asked), cluster.woken) == (1, [])
    assert await due(store) == []
