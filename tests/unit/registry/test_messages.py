"""A client accepts starts and messages itself, as a guest; whatever keeps it from that, an actor does."""

import asyncio

import pytest
from hosted import FakeWorkers, FromStore, Keeps
from writer import APP, DESK, Writer, begin, call, end, reply, send, start

from holdfast import metrics
from holdfast.actors import admission
from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.answers import Replied
from holdfast.actors.workers import NoWorker
from holdfast.conversation import Send, Start, Tell
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.errors import (
    ConversationExists,
    CorruptStore,
    Fenced,
    InvalidInput,
    InvalidMessage,
    StaleCall,
    WrongStore,
)
from holdfast.persistence import PAUSE_LAG_MS, MemoryStore, RunStatus
from holdfast.registry import messages as module
from holdfast.registry.messages import Messages
from holdfast.registry.registry import Delivery, Refused
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


def messages_of(store, workers=None, traces=None):
    return Messages(store, workers or Told(store), "1", traces or TraceSettings())


def delivered(command=START, conversation_id="c-1"):
    return Delivery(conversation_id, command, timeout_s=20, create=True)


async def run_of(store, status):
    async with asyncio.timeout(20):
        while (run := await store.run("c-1", "t1.m1")) is None or run.status is not status:
            await asyncio.sleep(0.001)


async def test_a_start_is_acknowledged_with_its_turn_begun_and_a_worker_told(inner):
    workers = Told(inner)
    messages = messages_of(inner, workers)
    delivery = delivered()
    answer = await messages.accepted(delivery)
    assert isinstance(answer, Replied)
    assert delivery.began == await inner.load("c-1")
    assert [event.kind for _, event in await inner.read("c-1")] == ["conversation_started", "message_accepted", "turn_started"]
    owner = await inner.owner("c-1")
    assert (owner.token, owner.epoch) == ("", 1)
    await run_of(inner, RunStatus.CLAIMED)
    (request,) = workers.calls
    assert (request.upto_seq, len(request.log_tail), request.max_claims) == (3, 3, 0)
    assert (await inner.attention(9)).conversation_ids == []
    await messages.close()
    assert (await inner.survey()).counts[f"{metrics.STARTED.name}|desk"] == 1


async def test_of_many_starts_at_once_some_are_judged_at_a_time(inner):
    under_way, most = set(), []

    class Slow(Told):
        async def published(self, app, agent):
            me = object()
            under_way.add(me)
            most.append(len(under_way))
            await asyncio.sleep(0.001)
            under_way.discard(me)
            return await super().published(app, agent)

    count = 3 * module.AT_ONCE
    messages = messages_of(inner, Slow(inner, *[Keeps(f"i.{number}") for number in range(count)]))
    answers = await asyncio.gather(*(messages.accepted(delivered(START, f"c-{number}")) for number in range(count)))
    assert all(isinstance(answer, Replied) for answer in answers)
    assert max(most) == module.AT_ONCE
    await messages.close()


@pytest.mark.parametrize("message", ["m-1", "m-2"])
async def test_an_id_that_is_taken_is_for_an_actor(inner, message):
    await (await Writer.of(inner, "c-1")).do(start(message_id=message))
    delivery = delivered()
    assert await messages_of(inner).accepted(delivery) is None
    assert not delivery.handed
    assert len(await inner.read("c-1")) == 2


@pytest.mark.parametrize(
    "fault", [FailBefore(), FailAfter(), FailBefore(CorruptStore("x"))], ids=["before", "after", "corrupt"]
)
async def test_a_start_of_unknown_fate_is_repeated_by_way_of_an_actor(inner, fault):
    delivery = delivered()
    assert await messages_of(FaultyStore(inner, Faults(append=fault))).accepted(delivery) is None
    assert delivery.handed


async def test_a_store_that_is_another_one_has_nothing_of_the_start(inner):
    delivery = delivered()
    faults = Faults(append=FailBefore(WrongStore("a", "b")))
    assert await messages_of(FaultyStore(inner, faults)).accepted(delivery) is None
    assert not delivery.handed


async def test_a_start_that_is_refused_writes_nothing(inner):
    answer = await messages_of(inner).accepted(delivered(START.model_copy(update={"text": "x" * 10_000_000})))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, InvalidInput)
    assert await inner.owner("c-1") is None


@pytest.mark.parametrize("fault", [NoWorker("none"), RuntimeError("nobody foresaw this")])
async def test_a_model_call_that_no_worker_takes_is_seen_to_by_an_actor(inner, fault):
    messages = messages_of(inner, Told(inner, fault))
    assert isinstance(await messages.accepted(delivered()), Replied)
    async with asyncio.timeout(20):
        while (await inner.attention(9)).conversation_ids != ["c-1"]:
            await asyncio.sleep(0.001)
    await messages.close()


async def test_a_paused_agents_turn_is_begun_by_an_actor(inner):
    await inner.pause("desk", by="ana", reason="")
    workers = Told(inner)
    workers.published = None  # else the turn would begin with the code from before the pause
    assert isinstance(await messages_of(inner, workers).accepted(delivered()), Replied)
    assert len(await inner.read("c-1")) == 2
    assert (await inner.attention(9)).conversation_ids == ["c-1"]


async def test_an_app_that_nobody_can_vouch_for_leaves_the_turn_to_an_actor(inner):
    class Unsigned(FromStore):
        async def published(self, app, agent):
            raise NoWorker("not signed")

    assert isinstance(await messages_of(inner, Unsigned()).accepted(delivered()), Replied)
    assert len(await inner.read("c-1")) == 2


async def test_a_client_that_freezes_after_it_has_read_what_is_published_begins_no_turn_with_it(monkeypatch):
    monkeypatch.setattr(admission, "FRESH_S", 0.0)
    now = [1_700_000_000_000]
    store = MemoryStore(clock=lambda: now[0])
    await store.put_app(APP, [DESK])

    class Frozen(Told):
        async def published(self, app, agent):
            found = await super().published(app, agent)
            now[0] += PAUSE_LAG_MS  # in which somebody may pause, publish and resume
            return found

    assert isinstance(await messages_of(store, Frozen(store)).accepted(delivered()), Replied)
    assert len(await store.read("c-1")) == 2
    assert (await store.attention(9)).conversation_ids == ["c-1"]


async def test_without_guests_and_with_traces_actors_start_conversations(inner, monkeypatch):
    assert await messages_of(inner, traces=TraceSettings(on=True)).accepted(delivered()) is None
    monkeypatch.setenv(GUESTS, "0")
    assert await messages_of(inner).accepted(delivered()) is None
    assert await inner.owner("c-1") is None


async def test_a_client_of_a_release_that_serves_no_more_leaves_starts_to_actors(inner):
    await inner.serve("2", before=None)
    assert await messages_of(inner).accepted(delivered()) is None
    assert await inner.owner("c-1") is None


async def test_a_client_that_closes_has_told_a_worker_or_leaves_the_work_to_an_actor(inner, monkeypatch):
    monkeypatch.setattr(module, "CLOSING_S", 0.05)
    messages = messages_of(inner, Told(inner, Keeps("i.1")))
    await messages.accepted(delivered())
    await messages.close()
    assert (await inner.run("c-1", "t1.m1")).status is RunStatus.CLAIMED
    silent = Told(inner)
    silent.answers.clear()  # nobody ever answers
    messages = messages_of(inner, silent)
    await messages.accepted(delivered(conversation_id="c-2"))
    await messages.close()
    assert (await inner.attention(9)).conversation_ids == ["c-2"]


async def test_an_error_that_nobody_foresaw_leaves_the_start_to_an_actor(inner):
    faults = Faults(append=FailBefore(ZeroDivisionError("nobody foresaw this")))
    delivery = delivered()
    assert await messages_of(FaultyStore(inner, faults)).accepted(delivery) is None
    assert delivery.handed


# -- messages to a conversation that is there ------------------------------------------------------------------------------


@pytest.fixture
async def resting(inner):
    """The last owner of a conversation that has done a turn, and that nobody owns."""
    writer = await Writer.of(inner, "c-1")
    await writer.do(start(app=APP.app, message_id="m-1"), begin(), reply())
    await writer.release()
    return writer


def sent(text="and then?", message_id="m-2"):
    return delivered(Send(text=text, message_id=message_id))


async def kinds(store):
    return [event.kind for _, event in await store.read("c-1", after=5)]


async def again(store):
    """Have the turn done that is open, by an owner that leaves."""
    writer = await Writer.of(store, "c-1")
    await writer.do(reply())
    await writer.release()


async def test_a_message_is_acknowledged_with_its_turn_begun_and_a_worker_told(inner, resting):
    workers = Told(inner)
    messages = messages_of(inner, workers)
    delivery = sent()
    answer = await messages.accepted(delivery)
    assert isinstance(answer, Replied)
    assert delivery.began == await inner.load("c-1")
    assert (answer.reply.seq, answer.reply.duplicate) == (6, False)
    assert await kinds(inner) == ["message_accepted", "turn_started"]
    owner = await inner.owner("c-1")
    assert (owner.token, owner.epoch) == ("", resting.epoch + 1)
    async with asyncio.timeout(20):
        while (await inner.run("c-1", "t2.m1")).status is not RunStatus.CLAIMED:
            await asyncio.sleep(0.001)
    (request,) = workers.calls
    assert (request.upto_seq, len(request.log_tail)) == (7, 2)
    assert (await inner.attention(9)).conversation_ids == []
    await messages.close()


@pytest.mark.usefixtures("resting")
async def test_a_message_that_is_repeated_has_the_same_receipt(inner):
    messages = messages_of(inner)
    first = await messages.accepted(sent())
    await again(inner)
    before = await kinds(inner)
    repeated = sent()
    second = await messages.accepted(repeated)
    assert repeated.began is None
    assert second.reply.duplicate
    assert second.reply.model_copy(update={"duplicate": False}) == first.reply
    assert await kinds(inner) == before
    await messages.close()


@pytest.mark.usefixtures("resting")
async def test_a_start_that_is_repeated_when_its_conversation_rests_has_the_same_receipt(inner):
    messages = messages_of(inner)
    answer = await messages.accepted(delivered(START.model_copy(update={"text": "hello", "context": "null"})))
    assert (answer.reply.seq, answer.reply.duplicate) == (2, True)
    answer = await messages.accepted(delivered(START.model_copy(update={"message_id": "m-9"})))
    assert isinstance(answer.error, ConversationExists)
    assert await kinds(inner) == []
    await messages.close()


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize(
    ("delivery", "error"),
    [(lambda: sent("x" * 10_000_000), InvalidMessage), (lambda: sent("something else", "m-1"), InvalidMessage)],
    ids=["too long", "an id of another message"],
)
async def test_a_message_that_is_refused_leaves_nothing(inner, delivery, error):
    answer = await messages_of(inner).accepted(delivery())
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, error)
    assert await kinds(inner) == []
    assert (await inner.attention(9)).conversation_ids == []


STEPS = {
    "new": (),
    "about to begin": (start(app=APP.app),),
    "at work": (start(app=APP.app), begin()),
    "suspended": (start(app=APP.app), begin(), call("ask")),
    "ended": (start(app=APP.app), end()),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
async def test_a_message_to_a_conversation_that_does_not_rest_is_for_an_actor(inner, steps):
    writer = await Writer.of(inner, "c-1")
    if steps:
        await writer.do(*steps)
    await writer.release()
    before = await inner.read("c-1")
    delivery = sent()
    assert await messages_of(inner).accepted(delivery) is None
    assert not delivery.handed
    assert await inner.read("c-1") == before


async def test_a_message_to_a_conversation_with_an_owner_is_for_its_actor(inner, resting):
    await Writer.of(inner, "c-1")
    delivery = sent()
    assert await messages_of(inner).accepted(delivery) is None
    assert not delivery.handed
    assert await kinds(inner) == []


@pytest.mark.usefixtures("resting")
async def test_a_message_to_a_conversation_in_quarantine_is_for_an_actor(inner):
    assert await inner.strike("c-1", "", process="p", reason="why", limit=1) is None
    assert await messages_of(inner).accepted(sent()) is None
    assert await kinds(inner) == []


@pytest.mark.usefixtures("resting")
async def test_what_is_too_large_to_read_for_a_message_is_for_an_actor(inner, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 16)
    assert await messages_of(inner).accepted(sent()) is None
    assert await kinds(inner) == []


@pytest.mark.usefixtures("resting")
async def test_a_message_that_another_writer_precedes_is_judged_anew(inner):
    class Crossed(FaultyStore):
        async def visit(self, conversation_id, *, most_bytes):
            visited = await inner.visit(conversation_id, most_bytes=most_bytes)
            if not await inner.known("c-1", ["m:m-9"]):
                other = Writer.visiting(inner, "c-1", visited)
                await other.do(send(message_id="m-9"), begin())
                await again(inner)
            return visited

    answer = await messages_of(Crossed(inner, Faults())).accepted(sent())
    assert answer.reply.seq == 10
    assert (await kinds(inner))[-2:] == ["message_accepted", "turn_started"]


@pytest.mark.usefixtures("resting")
async def test_a_message_that_is_fenced_three_times_is_for_an_actor(inner):
    faulty = FaultyStore(inner, Faults(append=FailBefore(Fenced("c-1"))))
    delivery = sent()
    assert await messages_of(faulty).accepted(delivery) is None
    assert (faulty.calls["visit"], faulty.calls["append"]) == (3, 3)
    assert not delivery.handed
    assert await kinds(inner) == []


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize(
    ("faults", "handed"),
    [
        (Faults(visit=FailBefore()), False),
        (Faults(visit=FailBefore(CorruptStore("x"))), False),
        (Faults(append=FailBefore()), True),
        (Faults(append=FailAfter()), True),
    ],
    ids=["unread", "unreadable", "before", "after"],
)
async def test_a_message_of_unknown_fate_is_repeated_by_way_of_an_actor(inner, faults, handed):
    delivery = sent()
    assert await messages_of(FaultyStore(inner, faults)).accepted(delivery) is None
    assert delivery.handed is handed


async def waiting(store, count):
    """A conversation that nobody owns and that waits for so many others; their words."""
    writer = await Writer.of(store, "c-1")
    asked = [ProposedCall(tool_call_id=f"call_{one}", name="consult", arguments='{"task":"look"}') for one in range(count)]
    await writer.do(start(app=APP.app, spec=DESK), begin(), call(*asked))
    await writer.release()
    waits = [one.suspension for one in writer.state.calls]
    return [Tell(suspension_id=one.suspension_id, source=one.source, ok=True, content='"fine"') for one in waits]


async def test_the_words_of_many_children_at_once_are_written_without_an_actor_and_a_worker_is_told_after_the_last(inner):
    words = await waiting(inner, 10)
    workers, store = Told(inner), FaultyStore(inner, Faults())
    messages = messages_of(store, workers)
    answers = await asyncio.gather(*(messages.accepted(delivered(word)) for word in words))
    assert all(isinstance(answer, Replied) for answer in answers)
    await until_told(workers)
    (request,) = workers.calls
    assert request.effect_id == "t1.m2"
    assert (await inner.owner("c-1")).token == ""
    assert store.calls["visit"] == 1  # the first word reads what the further ones are judged on
    await messages.close()


@pytest.mark.parametrize("most", [0, 256])
async def test_a_word_after_another_writer_is_judged_on_what_that_one_wrote(inner, monkeypatch, most):
    monkeypatch.setattr(module, "MOST_KNOWN", most)
    first, second = await waiting(inner, 2)
    store = FaultyStore(inner, Faults())
    messages = messages_of(store)
    assert isinstance(await messages.accepted(delivered(first)), Replied)
    other = Writer.visiting(inner, "c-1", await inner.visit("c-1", most_bytes=1 << 20))
    await other.do(send(message_id="m-9"))
    assert isinstance(await messages.accepted(delivered(second)), Replied)
    assert (store.calls["visit"], store.calls["append"]) == (2, 3 if most else 2)
    assert [event.kind for _, event in await inner.read("c-1")].count("call_resolved") == 2
    await messages.close()


async def test_a_word_is_judged_by_the_spec_that_its_turn_began_with(inner):
    (word,) = await waiting(inner, 1)
    newer = DESK.model_copy(update={"limits": DESK.limits.model_copy(update={"result_bytes": 1})})
    await inner.put_app(APP.model_copy(update={"code": "code-2", "agents": {"desk": newer.digest}}), [newer])
    messages = messages_of(inner)
    assert isinstance(await messages.accepted(delivered(word)), Replied)
    (result,) = [event for _, event in await inner.read("c-1") if event.kind == "call_resolved"]
    assert "fine" in result.content
    await messages.close()


async def until_told(workers):
    async with asyncio.timeout(20):
        while not workers.calls:
            await asyncio.sleep(0.001)


async def test_a_word_for_a_wait_that_is_settled_is_refused_and_one_for_a_busy_conversation_is_an_actors(inner):
    first, second = await waiting(inner, 2)
    messages = messages_of(inner)
    assert isinstance(await messages.accepted(delivered(first)), Replied)
    again = await messages.accepted(delivered(first))
    assert isinstance(again, Refused)
    assert isinstance(again.error, StaleCall)
    await messages.accepted(delivered(second))
    assert (await inner.load("c-1")).busy
    assert await messages.accepted(delivered(second)) is None
    await messages.close()
