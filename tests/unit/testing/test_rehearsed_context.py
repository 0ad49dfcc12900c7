"""A rehearsal sends what a worker would send: within the agent's budget, and nothing if that cannot be."""

from holdfast import Agent, Context, FailureReason, Retain, Status, tool
from holdfast.testing import Rehearsal, call, say


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order * 40


def words(messages):
    return [message["content"] for message in messages if message["role"] == "user"]


async def test_a_long_conversation_goes_on_in_a_window_of_200_tokens():
    desk = Agent(name="desk", model="own/model", context=Context(budget=200, keep=1))
    said = [f"{n} is a number that I tell you of" for n in range(30)]
    async with Rehearsal(desk, model=[say(f"{n}") for n in range(30)]) as rehearsal:
        for one in said:
            assert (await rehearsal.send(one)).status is Status.IDLE
        view, result = await rehearsal.context(), await rehearsal.result()
    assert words(result.messages) == said
    assert words(result.prompts[-1])[-1] == said[-1]
    assert all(words(prompt) == said[said.index(words(prompt)[0]) :][: len(words(prompt))] for prompt in result.prompts)
    assert 1 <= len(words(result.prompts[-1])) < 10
    assert view.tokens <= view.budget == 140
    assert view.left_out[0].rule == "truncated"


async def test_a_message_that_is_too_large_fails_its_turn_with_the_numbers_and_the_next_turn_goes_on():
    desk = Agent(name="desk", model="own/model", context=Context(budget=200))
    async with Rehearsal(desk, model=[say("Fine.")]) as rehearsal:
        failed = await rehearsal.send("x" * 2000)
        assert (failed.status, failed.events[-1].body.reason) == (Status.FAILED, FailureReason.CONTEXT_OVERFLOW)
        assert "about 610 tokens, 140 are left of Context.budget" in failed.error
        assert not failed.prompts
        assert not (await rehearsal.context()).fits
        result = await rehearsal.send("short")
        assert result.reply == "Fine."
        assert words(result.prompts[0]) == ["short"]


async def test_a_model_reads_stubs_of_results_that_are_old_and_the_conversation_keeps_them():
    desk = Agent(
        name="desk", model="own/model", tools=[look_up], context=Context(budget=4000, retain={"look_up": Retain(count=1)})
    )
    script = [one for n in range(12) for one in (call("look_up", {"order": f"{n}-order"}), say("Done."))]
    async with Rehearsal(desk, model=script) as rehearsal:
        for n in range(12):
            result = await rehearsal.send(str(n))
        view = await rehearsal.context()
    sent = [one["content"] for one in result.prompts[-1] if one["role"] == "tool"]
    assert '"left_out"' in sent[0]
    assert "11-order" in sent[-1]
    assert not [one for one in result.messages if "left_out" in str(one["content"])]
    assert {one.rule for one in view.left_out} == {"retain"}
