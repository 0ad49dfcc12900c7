"""A client starts a conversation itself, as a guest; whatever keeps it from that, an actor does."""

import asyncio

import pytest
from hosted import FakeWorkers, FromStore, Keeps
from writer import APP, DESK, Writer, start

from holdfast import metrics
from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.answers import Replied
from holdfast.actors.workers import NoWorker
from holdfast.conversation import Start
from holdfast.errors import CorruptStore, InvalidInput, WrongStore
from holdfast.persistence import MemoryStore, RunStatus
from holdfast.registry import starts as module
from holdfast.registry.registry import Delivery, Refused
from holdfast.registry.starts import Starts
from holdfast.settings import TraceSettings
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore

START = Start(agent="desk", app=APP.app, text="hi", message_id="m-1", spec=DESK)


class Told(FakeWorkers):
    """Workers that keep the model calls they are told of."""

    def __init__(self, store, *answers):
        super().__init__(*(answers or (Keeps("i.1"),)))
        self.store = store


@pytest.fixture
async def inner():
    store = MemoryStore()
    await store.put_app(APP, [DESK])
    return store


def starting(store, workers=None, traces=None):
    return Starts(store, workers or Told(store), "1", traces or TraceSettings())


def delivered(command=START, conversation_id="c-1"):
    return Delivery(conversation_id, command, timeout_s=20, create=True)


async def run_of(store, status):
    async with asyncio.timeout(20):
        while (run := await store.run("c-1", "t1.m1")) is None or run.status is not status:
            await asyncio.sleep(0.001)


async def test_a_start_is_acknowledged_with_its_turn_begun_and_a_worker_told(inner):
    workers = Told(inner)
    starts = starting(inner, workers)
    delivery = delivered()
    answer = await starts.started(delivery)
    assert isinstance(answer, Replied)
    assert delivery.began == await inner.load("c-1")
    assert [event.kind for _, event in await inner.read("c-1")] == ["conversation_started", "message_accepted", "turn_started"]
    owner = await inner.owner("c-1")
    assert (owner.token, owner.epoch) == ("", 1)
    await run_of(inner, RunStatus.CLAIMED)
    (request,) = workers.calls
    assert (request.upto_seq, len(request.log_tail), request.max_claims) == (3, 3, 0)
    assert (await inner.attention(9)).conversation_ids == []
    await starts.close()
    assert (await inner.survey()).counts[f"{metrics.STARTED.name}|desk"] == 1


@pytest.mark.parametrize("message", ["m-1", "m-2"])
async def test_an_id_that_is_taken_is_for_an_actor(inner, message):
    await (await Writer.of(inner, "c-1")).do(start(message_id=message))
    delivery = delivered()
    assert await starting(inner).started(delivery) is None
    assert not delivery.handed
    assert len(await inner.read("c-1")) == 2


@pytest.mark.parametrize(
    "fault", [FailBefore(), FailAfter(), FailBefore(CorruptStore("x"))], ids=["before", "after", "corrupt"]
)
async def test_a_start_of_unknown_fate_is_repeated_by_way_of_an_actor(inner, fault):
    delivery = delivered()
    assert await starting(FaultyStore(inner, Faults(append=fault))).started(delivery) is None
    assert delivery.handed


async def test_a_store_that_is_another_one_has_nothing_of_the_start(inner):
    delivery = delivered()
    faults = Faults(append=FailBefore(WrongStore("a", "b")))
    assert await starting(FaultyStore(inner, faults)).started(delivery) is None
    assert not delivery.handed


async def test_a_start_that_is_refused_writes_nothing(inner):
    answer = await starting(inner).started(delivered(START.model_copy(update={"text": "x" * 10_000_000})))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)
    assert await inner.owner("c-1") is None


@pytest.mark.parametrize("fault", [NoWorker("none"), RuntimeError("nobody foresaw this")])
async def test_a_model_call_that_no_worker_takes_is_seen_to_by_an_actor(inner, fault):
    starts = starting(inner, Told(inner, fault))
    assert isinstance(await starts.started(delivered()), Replied)
    async with asyncio.timeout(20):
        while (await inner.attention(9)).conversation_ids != ["c-1"]:
            await asyncio.sleep(0.001)
    await starts.close()


async def test_a_paused_agents_turn_is_begun_by_an_actor(inner):
    await inner.pause("desk", by="ana", reason="")
    assert isinstance(await starting(inner).started(delivered()), Replied)
    assert len(await inner.read("c-1")) == 2
    assert (await inner.attention(9)).conversation_ids == ["c-1"]


async def test_an_app_that_nobody_can_vouch_for_leaves_the_turn_to_an_actor(inner):
    class Unsigned(FromStore):
        async def published(self, app, agent):
            raise NoWorker("not signed")

    assert isinstance(await starting(inner, Unsigned()).started(delivered()), Replied)
    assert len(await inner.read("c-1")) == 2


async def test_without_guests_and_with_traces_actors_start_conversations(inner, monkeypatch):
    assert await starting(inner, traces=TraceSettings(on=True)).started(delivered()) is None
    monkeypatch.setenv(GUESTS, "0")
    assert await starting(inner).started(delivered()) is None
    assert await inner.owner("c-1") is None


async def test_a_client_of_a_release_that_serves_no_more_leaves_starts_to_actors(inner):
    await inner.serve("2", before=None)
    assert await starting(inner).started(delivered()) is None
    assert await inner.owner("c-1") is None


async def test_a_client_that_closes_has_told_a_worker_or_leaves_the_work_to_an_actor(inner, monkeypatch):
    monkeypatch.setattr(module, "CLOSING_S", 0.05)
    starts = starting(inner, Told(inner, Keeps("i.1")))
    await starts.started(delivered())
    await starts.close()
    assert (await inner.run("c-1", "t1.m1")).status is RunStatus.CLAIMED
    silent = Told(inner)
    silent.answers.clear()  # nobody ever answers
    starts = starting(inner, silent)
    await starts.started(delivered(conversation_id="c-2"))
    await starts.close()
    assert (await inner.attention(9)).conversation_ids == ["c-2"]


async def test_an_error_that_nobody_foresaw_leaves_the_start_to_an_actor(inner):
    faults = Faults(append=FailBefore(ZeroDivisionError("nobody foresaw this")))
    delivery = delivered()
    assert await starting(FaultyStore(inner, faults)).started(delivery) is None
    assert delivery.handed
