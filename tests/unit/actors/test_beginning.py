"""The beginning of a turn: in the write of the command that leads to it, or by itself where that would hold the command up."""

import asyncio

import pytest
from hosted import OPEN, START, FakeWorkers, activated, stored, until
from writer import reply

from holdfast.actors.activation import judge as judging
from holdfast.actors.workers import NoWorker
from holdfast.conversation import End, Send, Status, decide
from holdfast.conversation.records.events import MessageAccepted, TurnCompleted, TurnStarted
from holdfast.errors import ClusterUnavailable, StoreUnavailable
from holdfast.persistence import MemoryStore

OPEN_START = START.model_copy(update={"spec": OPEN})


class Counted(MemoryStore):
    """A store that keeps the events of each append."""

    def __init__(self, **options):
        super().__init__(**options)
        self.appends = []

    async def append(self, conversation_id, write):
        self.appends.append([type(event).__name__ for event in write.events])
        return await super().append(conversation_id, write)


async def counted(workers):
    store = Counted()
    inner = await stored(OPEN)
    await store.put_app(await inner.app("shop:app"), [OPEN])
    return store, await activated(store, workers)


async def test_a_start_begins_its_turn_in_the_same_write():
    store, activation = await counted(FakeWorkers())
    receipt = await activation.ask(OPEN_START)
    assert store.appends[0][-1] == "TurnStarted"
    state = await store.load("c-1")
    assert receipt.seq < state.seq
    assert state.status is Status.GENERATING
    assert state.turn.code == "k"
    assert state.turn.spec_digest == OPEN.digest


async def test_a_message_to_an_idle_conversation_begins_its_turn_in_the_same_write_and_so_does_the_end_of_the_one_before():
    workers = FakeWorkers(reply("One."), reply("Two."), reply("Three."))
    store, activation = await counted(workers)
    await activation.ask(OPEN_START)
    await until(store, lambda state: state.turns == 1 and state.status is Status.IDLE)
    workers.answers.clear()
    await activation.ask(Send(text="And?", message_id="m-2"))
    assert store.appends[-1] == ["MessageAccepted", "TurnStarted"]
    await activation.ask(Send(text="And then?", message_id="m-3"))
    assert store.appends[-1] == ["MessageAccepted"]  # the turn before goes on

    workers.answers += [reply("Two."), reply("Three.")]
    workers.gate.set()
    await until(store, lambda state: state.turns == 3 and state.status is Status.IDLE)
    assert [kind for kind in store.appends if "TurnCompleted" in kind and "TurnStarted" in kind]


@pytest.mark.parametrize(
    "trouble", [NoWorker("not signed"), StoreUnavailable("away"), ClusterUnavailable("no cluster"), None], ids=repr
)
async def test_a_start_is_acknowledged_although_what_its_turn_begins_with_is_not_known(trouble, monkeypatch):
    monkeypatch.setattr(judging, "AT_ONCE_S", 0.01)
    known = asyncio.Event()

    class Troubled(FakeWorkers):
        async def published(self, app, agent):
            if not known.is_set():
                if trouble is not None:
                    raise trouble
                await known.wait()
            return await super().published(app, agent)

    store, activation = await counted(Troubled(reply("Hello.")))
    await activation.ask(OPEN_START)
    assert "TurnStarted" not in store.appends[0]
    known.set()
    state = await until(store, lambda state: state.turns == 1 and state.status is Status.IDLE)
    assert state.last is not None


async def test_a_start_is_acknowledged_although_the_beginning_of_its_turn_cannot_be_judged(monkeypatch):
    judged = []

    def once(state, command):
        judged.append(command.kind)
        if judged.count("turn_prepared") == 1 and command.kind == "turn_prepared":
            raise ZeroDivisionError
        return decide(state, command)

    monkeypatch.setattr("holdfast.actors.activation.judge.decide", once)
    store, activation = await counted(FakeWorkers(reply("Hello.")))
    await activation.ask(OPEN_START)
    assert "TurnStarted" not in store.appends[0]
    await until(store, lambda state: state.turns == 1 and state.status is Status.IDLE)


async def test_an_end_begins_no_turn():
    store, activation = await counted(FakeWorkers())
    await activation.ask(OPEN_START)
    await activation.ask(Send(text="And?", message_id="m-2"))
    await activation.ask(End(request_id="r-1"))
    assert "TurnStarted" not in store.appends[-1]
    events = [event for _, event in await store.read("c-1", after=0)]
    assert sum(isinstance(event, TurnStarted) for event in events) == 1
    assert not any(isinstance(event, TurnCompleted) for event in events)
    assert sum(isinstance(event, MessageAccepted) for event in events) == 2
