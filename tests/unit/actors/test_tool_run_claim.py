"""A body runs only if its claim is known to have been won."""

import pytest
from given_worker import GivenWorker

from holdfast.actors import NoOutcome
from holdfast.actors.requests import RunRequest
from holdfast.agent import Agent, tool
from holdfast.conversation import StoreUnavailable
from holdfast.persistence import AppRecord, MemoryStore, RunStatus
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore
from holdfast.testing.activation import DESK, Activation, begin, call, start

RAN = []


@tool
async def lookup() -> str:
    """Look something up."""
    RAN.append("lookup")
    return "found"


DESK_WITH_LOOKUP = Agent(name="desk", model="m", tools=[lookup])


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


async def runnable():
    """A store with a run that nobody has claimed, and the request for it."""
    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    activation = await Activation.of(store, "c-1")
    await activation.do(start("hello"), begin(), call("lookup"))
    (called,) = activation.state.turn.calls
    source = next(seq for seq, event in await store.read("c-1", after=0) if event.kind == "model_answered")
    request = RunRequest(
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=f"{called.tool_call_id}#1",
        turn_id=activation.state.turn.turn_id,
        tool_call_id=called.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=source,
    )
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.RUNNABLE
    return store, request


async def run(store, request):
    """What a worker that has never seen the run makes of it."""
    return await GivenWorker(store, DESK_WITH_LOOKUP)._tool_run(request)


async def test_a_body_whose_claim_is_won_runs_once_and_its_outcome_is_recorded():
    store, request = await runnable()
    assert (await run(store, request)).ok
    assert RAN == ["lookup"]
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.DONE
    assert await run(store, request) is NoOutcome.NOT_MINE
    assert RAN == ["lookup"]


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not claimed", "claimed, answer lost"])
async def test_a_body_whose_claim_has_an_unknown_outcome_does_not_run(fault):
    store, request = await runnable()
    with pytest.raises(StoreUnavailable):
        await run(FaultyStore(store, Faults(claim=fault)), request)
    assert RAN == []
    stands = (await store.run("c-1", request.effect_id)).status
    assert stands is (RunStatus.RUNNABLE if isinstance(fault, FailBefore) else RunStatus.CLAIMED)


async def test_what_was_claimed_by_another_or_is_settled_does_not_run():
    store, request = await runnable()
    assert await store.claim("c-1", request.effect_id, incarnation="other.1", worker="worker-2")
    assert await run(store, request) is NoOutcome.NOT_MINE
    assert RAN == []
