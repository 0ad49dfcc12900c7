"""A model is called only if the call's claim is known to have been won, and what it answered is recorded."""

import asyncio
from dataclasses import replace

import pytest
from given_worker import bench_at
from writer import DESK, Writer, begin, cancel, reply, start

from holdfast.actors.steps import Step
from holdfast.actors.worker import model_run
from holdfast.actors.worker.asking import JUDGING_S
from holdfast.actors.worker.bench import at_any_time
from holdfast.actors.worker.claims import Claims
from holdfast.actors.workers import GRACE_S, ModelRequest, NoOutcome, WorkPaused
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied
from holdfast.conversation.records.commands import ProposedCall
from holdfast.errors import CipherFailed, CorruptStore, StoreUnavailable
from holdfast.persistence import MemoryStore, RunStatus, codec
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore

REQUEST = ModelRequest(
    code="k", conversation_id="c-1", agent="desk", spec_digest=DESK.digest, effect_id="t1.m1", upto_seq=3, attempt=1
)
REPLIED = ModelReplied(effect_id="t1.m1", content="Hi.", input_tokens=7, output_tokens=3)
FAILED = ModelFailed(effect_id="t1.m1", error="bad key", reason=FailureReason.MODEL_ERROR)


async def calling():
    """A store with one model call that nobody has claimed, and the writer of its conversation."""
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    return store, writer


class Model:
    """A model that answers so, after what happens meanwhile; `calls` is how often it was called."""

    def __init__(self, outcome=REPLIED, meanwhile=None):
        self.outcome, self.meanwhile, self.calls = outcome, meanwhile, 0

    async def __call__(self):
        self.calls += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.outcome


async def run(store, model, request=REQUEST, *, claim=None, admit=at_any_time, timeout_s=60.0, reached=lambda _: None):
    """What a worker makes of the request."""
    claim = claim or Claims("process-1").new(("c-1", "t1.m1"))
    async with asyncio.timeout(20):
        return await model_run.run(
            bench_at(store, admit=admit, reached=reached), request, model, claim=claim, timeout_s=timeout_s
        )


async def record(store):
    return await store.run("c-1", "t1.m1")


async def recorded(store):
    found = await record(store)
    assert found.status is RunStatus.DONE
    return codec.decode_outcome(found.outcome)


@pytest.mark.parametrize("outcome", [REPLIED, FAILED], ids=lambda outcome: outcome.kind)
async def test_a_call_is_claimed_before_the_model_is_called_and_its_outcome_is_recorded(outcome):
    store, _ = await calling()
    seen, steps = [], []

    async def look():
        seen.append(await record(store))

    claim = Claims("process-1").new(("c-1", "t1.m1"))
    model = Model(outcome, look)
    before = await store.now()
    assert await run(store, model, claim=claim, timeout_s=60, reached=steps.append) == outcome
    (stood,) = seen
    assert (stood.status, stood.incarnation, stood.worker) == (RunStatus.CLAIMED, claim.incarnation, "w-1")
    bound_ms = round((60 + JUDGING_S + GRACE_S) * 1000)
    assert before + bound_ms <= stood.until <= await store.now() + bound_ms
    assert await recorded(store) == outcome
    assert steps == [Step.MODEL_1_ASKED, Step.MODEL_2_CLAIMED, Step.MODEL_3_ANSWERED, Step.MODEL_4_RECORDED]
    # and once only
    assert await run(store, model) is NoOutcome.NOT_MINE
    assert model.calls == 1


async def test_who_waits_for_the_claim_hears_of_it_once_it_stands():
    store, _ = await calling()
    claim, gate = Claims("process-1").new(("c-1", "t1.m1")), asyncio.Event()
    running = asyncio.create_task(run(store, Model(meanwhile=gate.wait), claim=claim))
    async with asyncio.timeout(10):
        await claim.confirmed
    assert (await record(store)).incarnation == claim.incarnation
    gate.set()
    assert await running == REPLIED


async def test_a_call_that_another_has_claimed_is_not_made():
    store, _ = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="process-2.x", worker="w")
    model, claim = Model(), Claims("process-1").new(("c-1", "t1.m1"))
    assert await run(store, model, claim=claim) is NoOutcome.NOT_MINE
    assert await run(store, model, replace(REQUEST, instead_of="process-3.x"), claim=claim) is NoOutcome.NOT_MINE
    assert (model.calls, claim.confirmed.done()) == (0, False)
    assert (await record(store)).incarnation == "process-2.x"


async def test_a_call_is_made_instead_of_that_of_a_process_that_is_gone():
    store, _ = await calling()
    assert await store.claim("c-1", "t1.m1", incarnation="process-2.x", worker="w")
    model = Model()
    assert await run(store, model, replace(REQUEST, instead_of="process-2.x")) == REPLIED
    assert model.calls == 1
    assert await recorded(store) == REPLIED


async def test_a_call_that_is_settled_is_not_made():
    store, writer = await calling()
    await writer.do(reply())
    model = Model()
    assert await run(store, model) is NoOutcome.NOT_MINE
    assert model.calls == 0


async def test_a_call_that_comes_after_the_moment_until_which_it_may_begin_is_not_made():
    store, _ = await calling()
    model, now = Model(), await store.now()

    async def until_then(agent):
        return now - 1

    assert await run(store, model, admit=until_then) is NoOutcome.NOT_MINE
    assert (model.calls, (await record(store)).status) == (0, RunStatus.RUNNABLE)


async def test_a_claim_that_only_came_too_late_is_made_again(monkeypatch):
    monkeypatch.setattr(model_run, "FRESH_S", 0.0)  # as if each claim were long on its way
    store, _ = await calling()
    until = iter([1, None])

    async def admit(agent):
        return next(until)

    model = Model()
    assert await run(store, model, admit=admit) == REPLIED
    assert model.calls == 1


async def test_a_call_that_waits_for_the_end_of_a_pause_claims_nothing():
    store, _ = await calling()
    model = Model()

    async def paused(agent):
        raise WorkPaused("the new work of agent desk is paused")

    with pytest.raises(WorkPaused):
        await run(store, model, admit=paused)
    assert (model.calls, (await record(store)).status) == (0, RunStatus.RUNNABLE)


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not claimed", "claimed, answer lost"])
async def test_a_call_whose_claim_has_an_unknown_outcome_is_not_made(fault):
    store, _ = await calling()
    model = Model()
    with pytest.raises(StoreUnavailable):
        await run(FaultyStore(store, Faults(claim=fault)), model)
    assert model.calls == 0
    assert (await record(store)).status is (RunStatus.RUNNABLE if isinstance(fault, FailBefore) else RunStatus.CLAIMED)


@pytest.mark.parametrize(
    "error", [None, CipherFailed("outcome", "the key is gone")], ids=["the store is away", "the cipher fails"]
)
async def test_an_outcome_is_recorded_once_it_can_be_and_the_model_is_called_once(error):
    store, _ = await calling()
    model = Model()
    away = FaultyStore(store, Faults(finish={1: FailBefore(error), 2: FailBefore(error)}))
    assert await run(away, model) == REPLIED
    assert (model.calls, away.calls["finish"]) == (1, 3)
    assert await recorded(store) == REPLIED


async def test_an_outcome_whose_record_was_not_confirmed_counts_all_the_same():
    store, _ = await calling()
    assert await run(FaultyStore(store, Faults(finish={1: FailAfter()})), Model()) == REPLIED
    assert await recorded(store) == REPLIED


UNUSABLE = {
    "half a character": ModelReplied(effect_id="t1.m1", content="\ud800"),
    "a number too large": ModelReplied(effect_id="t1.m1", content="x", input_tokens=1 << 70),
    "half a character in a call": ModelReplied(
        effect_id="t1.m1", calls=(ProposedCall(tool_call_id="c", name="lookup", arguments='"\ud800"'),)
    ),
}


@pytest.mark.parametrize("outcome", UNUSABLE.values(), ids=UNUSABLE)
async def test_an_outcome_that_cannot_be_encoded_is_a_failure_of_the_model_and_is_not_asked_for_again(outcome):
    store, _ = await calling()
    model = Model(outcome)
    found = await run(store, model)
    assert (type(found), found.reason, found.effect_id) == (ModelFailed, FailureReason.UNUSABLE, "t1.m1")
    assert "cannot be recorded" in found.error
    assert await recorded(store) == found
    assert model.calls == 1


async def test_an_outcome_that_the_store_refuses_is_a_failure_of_the_model_and_says_why():
    store, _ = await calling()
    model = Model()
    refusing = FaultyStore(store, Faults(finish={1: FailBefore(CorruptStore("the runs are no hash"))}))
    found = await run(refusing, model)
    assert (found.reason, "the runs are no hash" in found.error) == (FailureReason.UNUSABLE, True)
    assert await recorded(store) == found
    assert model.calls == 1


async def test_where_the_store_refuses_every_outcome_whoever_asked_is_told_so():
    store, _ = await calling()
    refusing = FaultyStore(store, Faults(finish=FailBefore(CorruptStore("the runs are no hash"))))
    with pytest.raises(CorruptStore, match="no hash"):
        await run(refusing, Model())
    assert (await record(store)).status is RunStatus.CLAIMED


async def test_an_outcome_of_a_call_that_was_settled_meanwhile_is_not_mine_and_is_not_kept():
    store, writer = await calling()

    async def cancelled():
        await writer.do(cancel())

    assert await run(store, Model(meanwhile=cancelled)) is NoOutcome.NOT_MINE
    assert await record(store) is None
    assert await store.late("c-1") == {}


async def test_an_outcome_of_a_call_that_gave_way_to_another_is_not_mine():
    store, _ = await calling()
    claim = Claims("process-1").new(("c-1", "t1.m1"))

    async def taken():
        assert await store.claim("c-1", "t1.m1", incarnation="process-2.x", worker="w", instead_of=claim.incarnation)

    assert await run(store, Model(meanwhile=taken), claim=claim) is NoOutcome.NOT_MINE
    assert ((await record(store)).status, (await record(store)).incarnation) == (RunStatus.CLAIMED, "process-2.x")


async def test_a_call_that_fails_for_a_reason_that_nobody_foresaw_leaves_its_claim_which_the_next_try_names():
    store, _ = await calling()
    claim = Claims("process-1").new(("c-1", "t1.m1"))

    async def breaking():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run(store, Model(meanwhile=breaking), claim=claim)
    assert (await record(store)).incarnation == claim.incarnation
    assert await run(store, Model(), replace(REQUEST, instead_of=claim.incarnation)) == REPLIED
