"""A body runs only if its claim is known to have been won."""

import pytest
from given_worker import GivenWorker, carried_out, runnable

from holdfast.actors.workers import NoOutcome
from holdfast.agent import Agent, tool
from holdfast.errors import StoreUnavailable
from holdfast.persistence import RunStatus
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore

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


async def run(store, request):
    """What a worker that has never seen the run makes of it."""
    worker = GivenWorker(store, DESK_WITH_LOOKUP)
    return await carried_out(worker, request)


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
