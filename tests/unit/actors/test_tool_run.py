"""What is told of a body that did not return."""

import asyncio

from given_worker import GivenWorker, carried_out, runnable

from holdfast.agent import Agent, Tool


async def outcome_of(body, **options):
    store, request = await runnable()
    worker = GivenWorker(store, Agent(name="desk", model="m", tools=[Tool(callback=body, **options)]))
    return await carried_out(worker, request)


async def test_a_body_that_passes_its_bound_is_told_so():
    async def lookup():
        await asyncio.sleep(30)

    outcome = await outcome_of(lookup, run_timeout_s=0.05)
    assert (outcome.ok, outcome.content) == (False, '{"ok":false,"error":"the tool did not finish within 0.05 s"}')


async def test_a_timeout_of_the_bodys_own_is_told_as_what_it_is():
    async def lookup():
        raise TimeoutError("the carrier does not answer")

    outcome = await outcome_of(lookup, run_timeout_s=30)
    assert not outcome.ok
    assert "the carrier does not answer" in outcome.content
    assert "did not finish" not in outcome.content
