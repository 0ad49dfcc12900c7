"""What the model is sent, after the log that a worker has read before became another one."""

import asyncio
import copy
import sys
import types

import pytest
from given_worker import GivenWorker
from hosted import ABSENT, FromStore, activated, stored
from writer import start

from holdfast.actors import worker as worker_package
from holdfast.agent import Agent
from holdfast.conversation import ModelReplied, Send, Status
from holdfast.persistence import TakeoverReason

AGENT = Agent(name="desk", model="m")


class Model:
    """Notes what it is sent, and says which of its answers this is."""

    def __init__(self):
        self.sent = []

    async def call(self, store, request, *, messages, **_):
        self.sent.append([message["content"] for message in messages if message["role"] in ("user", "assistant")])
        return ModelReplied(effect_id=request.effect_id, content=f"answer {len(self.sent)}")


class OneWorker(FromStore):
    """The only worker, which outlives whatever happens to actors and store."""

    def __init__(self, worker):
        self._worker = worker
        self.store = worker._given

    async def call_model(self, app, code, request):
        return await self._worker._model_called(request)

    def drop(self, conversation_id, effect_id):
        pass


@pytest.fixture
def model(monkeypatch):
    found = Model()
    module = types.ModuleType("holdfast.actors.worker.model")
    module.call = found.call
    monkeypatch.setitem(sys.modules, "holdfast.actors.worker.model", module)
    monkeypatch.setattr(worker_package, "model", module, raising=False)
    return found


async def hosted(store, worker):
    owner = await store.owner("c-1")
    seen = owner.token if owner is not None else ""
    return await activated(store, OneWorker(worker), seen=seen, because=TakeoverReason.DIED, clock=lambda: 1_700_000_000_000)


async def answered(store, activation, command):
    """The command, and the turn that it begins, to its end."""
    receipt = await activation.ask(command)
    async with asyncio.timeout(10):
        while (state := await store.load("c-1")).status is not Status.IDLE or state.seq <= receipt.seq:
            await asyncio.sleep(0)


def set_back(store, kept):
    """As after a failover to a replica that lacks the tail."""
    store._conversations = copy.deepcopy(kept)


async def test_the_model_is_sent_what_the_log_holds_after_the_log_was_set_back(model):
    store = await stored(AGENT.spec)
    worker = GivenWorker(store, AGENT)
    activation = await hosted(store, worker)
    await answered(store, activation, start("one", spec=AGENT.spec)(ABSENT))
    kept = copy.deepcopy(store._conversations)
    await answered(store, activation, Send(text="two", message_id="m-2"))
    await answered(store, activation, Send(text="three", message_id="m-3"))
    set_back(store, kept)
    activation = await hosted(store, worker)
    await answered(store, activation, Send(text="instead", message_id="m-4"))
    assert model.sent == [
        ["one"],
        ["one", "answer 1", "two"],
        ["one", "answer 1", "two", "answer 2", "three"],
        ["one", "answer 1", "instead"],
    ]
