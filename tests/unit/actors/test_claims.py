"""The claims of a worker's process: what goes on here, who is told so, and what ends when nobody waits for it."""

import asyncio

import pytest
from writer import Writer, begin, call, cancel, start

from holdfast.actors.worker import claims as module
from holdfast.actors.worker.claims import Claims
from holdfast.actors.worker.refusals import Dropped
from holdfast.actors.workers import Claimed, NoOutcome
from holdfast.errors import StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore

HERE = ("c-1", "t1.m1")
"""The conversation and the effect of a model call, which ends once nobody waits for it."""
RUN = ("c-1", "call_1#1")
"""Those of a run, which does not."""


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(module, "CONFIRM_S", 0.01)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)


@pytest.fixture
def claims():
    return Claims("process-1")


def carried(claims, claim, work, store=None):
    return asyncio.create_task(claims.during(claim, work, store or MemoryStore()))


async def forever():
    await asyncio.Event().wait()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_each_claim_names_its_process_and_itself(claims):
    made = [claims.new(RUN) for _ in range(20)]
    assert len({claim.incarnation for claim in made}) == 20
    assert {claim.incarnation.partition(".")[0] for claim in made} == {"process-1"}
    assert claims.new(RUN, process="process-2").incarnation.startswith("process-2.")
    assert all("|" not in claim.incarnation for claim in made)


@pytest.mark.parametrize("end", ["returns", "raises", "cancelled"])
async def test_work_is_kept_from_its_beginning_to_its_end_however_it_ends(claims, end):
    claim, gate = claims.new(HERE, ends=True), asyncio.Event()

    async def work():
        await gate.wait()
        if end == "raises":
            raise ZeroDivisionError
        return "found"

    task = carried(claims, claim, work)
    assert claims.task(claim.incarnation) is None
    await asyncio.sleep(0)
    assert claims.task(claim.incarnation) is task
    task.cancel() if end == "cancelled" else gate.set()
    await asyncio.gather(task, return_exceptions=True)
    assert claims.task(claim.incarnation) is None


async def test_what_ends_within_a_moment_of_its_claim_is_told_as_its_outcome(claims):
    claim = claims.new(RUN)

    async def work():
        claim.made()
        return "found"

    async with asyncio.timeout(10):
        assert await claims.answer(carried(claims, claim, work)) == "found"


async def test_what_goes_on_after_its_claim_is_told_as_claimed_to_each_who_asks(claims):
    claim, gate = claims.new(RUN), asyncio.Event()

    async def work():
        claim.made()
        await gate.wait()
        return "found"

    task = carried(claims, claim, work)
    async with asyncio.timeout(10):
        for _ in range(2):
            assert await claims.answer(task) is Claimed.BEGUN
        gate.set()
        assert await task == "found"


async def test_what_waits_for_its_claim_is_told_as_waiting_for_its_turn(claims, monkeypatch):
    claim, turn, gate = claims.new(RUN), asyncio.Event(), asyncio.Event()

    async def work():
        await turn.wait()
        claim.made()
        await gate.wait()

    task = carried(claims, claim, work)
    asked = asyncio.create_task(claims.answer(task))
    await asyncio.sleep(10 * module.CONFIRM_S)
    assert not asked.done()
    asked.cancel()
    monkeypatch.setattr(module, "QUEUED_S", 0.01)
    async with asyncio.timeout(10):
        assert await claims.answer(task) is Claimed.QUEUED
        turn.set()
        await asyncio.sleep(0)
        assert await claims.answer(task) is Claimed.BEGUN


# -- work that was said to wait here, and is not begun ---------------------------------------------------------------------


async def waiting(claims, monkeypatch, store):
    """A conversation left to a worker which has said that its model call waits there; what fails the call, and its task."""
    monkeypatch.setattr(module, "QUEUED_S", 0.01)
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    failing = asyncio.get_running_loop().create_future()
    faulty = FaultyStore(store, Faults())
    task = carried(claims, claims.new(HERE, ends=True), lambda: failing, faulty)
    assert await claims.answer(task) is Claimed.QUEUED
    return writer, failing, task, faulty


async def due(store):
    return list((await store.attention(10)).conversation_ids)


def ends(how, failing, task):
    match how:
        case "too late to begin":
            failing.set_result(NoOutcome.NOT_MINE)
        case "cancelled":
            task.cancel()
        case error:
            failing.set_exception(error)


@pytest.mark.parametrize("how", ["too late to begin", "cancelled", StoreUnavailable("away"), Dropped("its turn did not come")])
async def test_work_that_ends_unclaimed_after_its_actor_was_told_that_it_waits_has_its_conversation_looked_at(
    claims, monkeypatch, how
):
    store = MemoryStore()
    writer, failing, task, _ = await waiting(claims, monkeypatch, store)
    await store.release("c-1", writer.token, look_ms=30_000)
    assert await due(store) == []

    ends(how, failing, task)

    async with asyncio.timeout(10):
        while await due(store) != ["c-1"]:
            await asyncio.sleep(0.001)


async def test_work_is_not_given_back_where_it_waits_here_again_nor_where_nobody_was_told(claims):
    faulty = FaultyStore(MemoryStore(), Faults())
    first = claims.new(HERE)
    first.queued = True
    again = carried(claims, claims.new(HERE), forever)
    await asyncio.sleep(0)
    task = carried(claims, first, lambda: asyncio.sleep(0), faulty)
    untold = carried(claims, claims.new(("c-2", "t1.m1")), lambda: asyncio.sleep(0), faulty)
    await asyncio.gather(task, untold)
    await until(lambda: not len(claims._giving_back))
    assert faulty.calls["give_back"] == 0
    again.cancel()


async def test_a_store_that_is_away_when_work_is_given_back_is_told_a_few_times_and_finds_the_conversation_later(
    claims, monkeypatch
):
    monkeypatch.setattr(module, "GIVING_BACK_S", (0.0, 0.0, 0.0))
    store = MemoryStore()
    _, failing, _, faulty = await waiting(claims, monkeypatch, store)
    faulty.policy = Faults(give_back=FailBefore())
    failing.set_exception(StoreUnavailable("away"))
    await until(lambda: faulty.calls["give_back"] == 3 and not len(claims._giving_back))


async def test_work_is_given_back_once_the_actor_that_was_told_of_it_has_left(claims, monkeypatch):
    monkeypatch.setattr(module, "GIVING_BACK_S", (0.001,) * 1000)
    store = MemoryStore()
    writer, failing, _, faulty = await waiting(claims, monkeypatch, store)
    failing.set_exception(Dropped("its turn did not come"))
    await until(lambda: faulty.calls["give_back"] > 1)
    await store.release("c-1", writer.token, look_ms=30_000)
    async with asyncio.timeout(10):
        while await due(store) != ["c-1"]:
            await asyncio.sleep(0.001)


async def test_what_fails_is_told_so_and_what_was_cancelled_was_dropped(claims):
    async def failing():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await claims.answer(carried(claims, claims.new(RUN), failing))
    task = carried(claims, claims.new(RUN), forever)
    asking = [asyncio.create_task(claims.answer(task)) for _ in range(2)]
    await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Dropped, Dropped]


async def test_who_stops_asking_ends_nothing(claims):
    gate, claim = asyncio.Event(), claims.new(HERE, ends=True)

    async def work():
        await gate.wait()
        return "found"

    task = carried(claims, claim, work)
    asking = asyncio.create_task(claims.answer(task))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert claims.task(claim.incarnation) is not None
    gate.set()
    assert await task == "found"


async def test_dropped_work_ends_or_is_told_and_only_the_claim_that_is_named(claims):
    model, other, run = claims.new(HERE, ends=True), claims.new(("c-2", "t1.m1"), ends=True), claims.new(RUN)
    tasks = [carried(claims, claim, forever) for claim in (model, other, run)]
    await asyncio.sleep(0)
    for incarnation in (model.incarnation, run.incarnation, "process-2.x"):
        claims.drop(incarnation)
    await until(lambda: claims.task(model.incarnation) is None)
    assert None not in (claims.task(other.incarnation), claims.task(run.incarnation))
    assert [task.cancelled() for task in tasks] == [True, False, False]
    assert [claim.cancellation.is_set for claim in (model, other, run)] == [True, False, True]
    for task in tasks:
        task.cancel()


# -- the look ------------------------------------------------------------------------------------------------------------


class Asking(FaultyStore):
    """Which claims it was asked for, each time."""

    def __init__(self, inner, faults=None):
        super().__init__(inner, faults or Faults())
        self.asked = []

    async def claims_stand(self, claims):
        self.asked.append(list(claims))
        return await self.__getattr__("claims_stand")(claims)


async def calling(claims, conversation_id="c-1", *, confirmed=True):
    """The writer of a conversation whose model call goes on here, its store and its claim."""
    store = MemoryStore()
    writer = await Writer.of(store, conversation_id)
    await writer.do(start(), begin())
    claim = claims.new((conversation_id, "t1.m1"), ends=True)
    assert await store.claim(conversation_id, "t1.m1", incarnation=claim.incarnation, worker="worker-0")
    carried(claims, claim, forever)
    await asyncio.sleep(0)
    if confirmed:
        claim.made()
        await claim.confirmed
    return writer, store, claim


def looking(claims, store):
    async def connected():
        return store

    claims.look(connected)


async def test_a_look_leaves_alone_what_is_waited_for_and_ends_what_is_not(claims):
    writer, inner, claim = await calling(claims)
    store = Asking(inner)
    looking(claims, store)
    await until(lambda: len(store.asked) > 2)
    assert store.asked[-1] == [("c-1", "t1.m1", claim.incarnation)]
    assert claims.task(claim.incarnation) is not None
    await writer.do(cancel())
    await until(lambda: claims.task(claim.incarnation) is None)


async def test_a_look_ends_what_has_given_way_to_another_claim(claims):
    _, store, claim = await calling(claims)
    looking(claims, store)
    assert await store.claim("c-1", "t1.m1", incarnation="process-2.x", worker="w", instead_of=claim.incarnation)
    await until(lambda: claims.task(claim.incarnation) is None)
    assert (await store.run("c-1", "t1.m1")).incarnation == "process-2.x"


async def test_a_look_does_not_ask_for_what_has_perhaps_not_been_claimed_yet(claims):
    _, inner, claim = await calling(claims, confirmed=False)
    store = Asking(inner)
    looking(claims, store)
    await until(lambda: len(store.asked) > 2)
    assert store.asked == [[]] * len(store.asked)
    assert claims.task(claim.incarnation) is not None


async def test_a_run_that_nobody_waits_for_is_told_so_once_and_goes_on(claims):
    writer, inner, _ = await calling(claims)
    await writer.do(call("lookup"))
    (effect_id,) = writer.effect_ids
    run = claims.new(("c-1", effect_id))
    assert await inner.claim("c-1", effect_id, incarnation=run.incarnation, worker="worker-0")
    carried(claims, run, forever)
    await asyncio.sleep(0)
    run.made()
    store = Asking(inner)
    looking(claims, store)
    await until(lambda: ("c-1", effect_id, run.incarnation) in store.asked[-1] if store.asked else False)
    assert not run.cancellation.is_set
    await writer.do(cancel())
    async with asyncio.timeout(10):
        await run.cancellation.wait()
    assert claims.task(run.incarnation) is not None
    asked = len(store.asked)
    await until(lambda: len(store.asked) > asked + 1)
    assert store.asked[-1] == []


async def test_a_look_that_the_store_does_not_answer_ends_nothing_and_is_made_again(claims):
    writer, inner, claim = await calling(claims)
    await writer.do(cancel())
    store = Asking(inner, Faults(claims_stand=FailBefore()))
    looking(claims, store)
    await until(lambda: len(store.asked) > 2)
    assert claims.task(claim.incarnation) is not None
    store.policy = Faults()
    await until(lambda: claims.task(claim.incarnation) is None)


async def test_however_often_a_look_is_begun_one_goes_on(claims):
    begun = []

    async def connected():
        begun.append(len(begun))
        return await forever()

    for _ in range(3):
        claims.look(connected)
    await asyncio.sleep(10 * module.LOOK_EVERY_S)
    assert begun == [0]
