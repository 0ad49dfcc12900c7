"""What a model call used, for the key that its conversation is charged to."""

import logging

import pytest
from writer import Writer, start

from holdfast.actors.worker.model_outcome import spend
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.conversation.terms.money import NANOS
from holdfast.persistence import MemoryStore
from holdfast.persistence.access import COST, TOKENS
from holdfast.testing import FailBefore, FaultyStore


@pytest.fixture
async def store():
    kept = MemoryStore()
    await (await Writer.of(kept, "c-1")).do(start())
    await kept.charge("c-1", "k1")
    return kept


def replied(**used):
    return ModelReplied(effect_id="t1.m1", content="Hi.", **used)


@pytest.mark.parametrize(
    ("outcome", "usd", "amounts"),
    [
        (replied(input_tokens=7, output_tokens=3), 0.25, {TOKENS: 10, COST: NANOS // 4}),
        (replied(input_tokens=7), None, {TOKENS: 7, COST: 0}),
        (replied(), 0.5, {TOKENS: 0, COST: NANOS // 2}),
        (replied(), None, {}),
        (replied(), float("nan"), {}),
        (ModelFailed(effect_id="t1.m1", error="no", reason=FailureReason.MODEL_ERROR), None, {}),
    ],
)
async def test_a_call_counts_what_its_provider_says_that_it_used(store, outcome, usd, amounts):
    await spend(store, "c-1", outcome, usd)
    assert (await store.used(["k1"]))[0].amounts == amounts


async def test_a_call_of_a_conversation_that_nobody_is_charged_for_counts_nowhere(store):
    await spend(store, "c-2", replied(input_tokens=7), 0.25)
    assert store._quotas_used == {}


async def test_a_call_of_a_child_counts_for_the_key_of_the_root(store):
    path = (Ancestor(conversation_id="c-1", agent="desk"), Ancestor(conversation_id="d-1", agent="clerk"))
    parent = Parent(suspension_id="s-1", path=path, depth=1, descendants=1, must_end_by=1 << 50)
    first = start()(None).model_copy(update={"parent": parent})
    await (await Writer.of(store, "d-2")).do(lambda _: first)
    await spend(store, "d-2", replied(input_tokens=7), 0.25)
    await (await Writer.of(store, "d-mine")).do(start())
    await spend(store, "d-mine", replied(input_tokens=5), None)
    assert (await store.used(["k1"]))[0].amounts == {TOKENS: 7, COST: NANOS // 4}


async def test_a_store_that_is_away_stops_no_turn(store, caplog):
    caplog.set_level(logging.WARNING)
    await spend(FaultyStore(store, lambda *_: FailBefore()), "c-1", replied(input_tokens=7), None)
    assert "is not counted" in caplog.text
