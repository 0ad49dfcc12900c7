"""A worker that answers nothing any more, since a callback of its never gives the interpreter back."""

import asyncio

from stack_fixture import eventually, results, runs_of

from holdfast.client import AsyncClient, Status
from holdfast.testing import call, calls


async def test_a_worker_that_answers_nothing_is_replaced_and_its_run_means_what_the_tool_says(stack):
    async with AsyncClient.connect("rough_app:app", timeout_s=60) as client:
        held_text = stack.scenarios.add("holds", calls(call("hold_the_interpreter", {})), "At last.")
        quick_text = stack.scenarios.add("quick", calls(call("quick", {})), "Quickly done.")
        held = await client.start("rough", held_text, conversation_id="holds-1")
        await asyncio.to_thread(eventually, lambda: runs_of(stack, held.id))
        quick = await client.start("rough", quick_text, conversation_id="quick-1")

        state = await quick.wait(timeout_s=180)

        assert (state.status, state.reply) == (Status.IDLE, "Quickly done.")
        assert (await held.wait(timeout_s=60)).reply == "At last."
        (result,) = results(await held.messages())
        assert (result["ok"], len(runs_of(stack, held.id))) == (False, 1)
        assert "unknown" in result["error"]
