"""The turn that an approval function reads: what the store has of it is read before the model is called."""

import pytest
from writer import Writer, begin, start

from holdfast.actors.worker.model_outcome import turn_of
from holdfast.actors.workers import ModelRequest
from holdfast.agent import Agent, Tool, TurnContext
from holdfast.errors import StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore


def desk(approval):
    return Agent(name="desk", model="m", tools=[Tool(name="refund", callback=lambda amount: amount, approval=approval)])


OF_TURN = desk(lambda _arguments, turn: turn.context["tier"] != "gold")


@pytest.fixture
async def store():
    found = FaultyStore(MemoryStore(), Faults())
    await (await Writer.of(found, "c-1")).do(start(context='{"tier":"gold"}'), begin())
    return found


REQUEST = ModelRequest(
    code="k", conversation_id="c-1", agent="desk", spec_digest="d", effect_id="t1.m1", upto_seq=3, attempt=1, message_seq=2
)


async def test_the_turn_has_the_requester_and_the_context(store):
    turn = await (await turn_of(store, REQUEST, OF_TURN))()
    (_, message) = await store.at("c-1", [1, 2])
    assert turn == TurnContext(conversation_id="c-1", agent="desk", requester=message.principal, context={"tier": "gold"})
    assert not OF_TURN.tool("refund").needs_approval({}, turn)


@pytest.mark.parametrize("agent", [desk("required"), desk(lambda _: True), None])
async def test_nothing_is_read_where_no_function_is_one_of_the_turn(store, agent):
    turn = await (await turn_of(store, REQUEST, agent))()
    assert turn == TurnContext(conversation_id="c-1", agent="desk")
    assert store.calls["at"] == 0


async def test_a_store_that_fails_does_so_before_the_model_is_called_and_spoils_no_answer(store):
    turn = await turn_of(store, REQUEST, OF_TURN)
    store.policy = Faults(at=FailBefore())
    assert (await turn()).context == {"tier": "gold"}
    with pytest.raises(StoreUnavailable):
        await turn_of(store, REQUEST, OF_TURN)
