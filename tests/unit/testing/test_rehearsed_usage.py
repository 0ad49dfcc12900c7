"""A rehearsal's replies may say what they used: in the event, in the turn, and in the sums."""

import pytest

from holdfast import Agent, ConfigurationError, Model, Stop, tool
from holdfast.testing import Rehearsal, call, calls, say

COUNTED = {"prompt_tokens": 900, "completion_tokens": 40}
DETAILED = {
    **COUNTED,
    "prompt_tokens_details": {"cached_tokens": 512},
    "completion_tokens_details": {"reasoning_tokens": 32, "audio_tokens": None},
}


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


DESK = Agent(name="desk", model=Model("openai/a", fallbacks=["openai/b"]), tools=[look_up])


async def test_usage_reaches_the_event_the_turn_and_the_sums():
    asked = calls(call("look_up", {"order": "A-1"}), call("look_up", {"order": "A-2"}), usage=DETAILED)
    async with Rehearsal(DESK, model=[asked, OSError("down"), say("Paid.", usage=COUNTED)]) as rehearsal:
        result = await rehearsal.send("Where is it?")
        found = await rehearsal.usage()
    answers = [one.body for one in result.events if one.body.kind == "model_answered"]
    assert [(one.input_tokens, one.cached_tokens, one.reasoning_tokens) for one in answers] == [(900, 512, 32), (900, 0, 0)]
    assert [(one.cost_usd, one.duration_ms, one.first_token_ms) for one in answers] == [(None, None, None)] * 2
    used = {row.name: (row.usage.input_tokens, row.usage.cached_tokens, row.tool_calls) for row in found.rows}
    assert used == {"openai/a": (900, 512, 2), "openai/b": (900, 0, 0)}
    assert (found.total.output_tokens, found.turns) == (80, 1)


async def test_without_it_an_answer_writes_what_it_wrote():
    async with Rehearsal(DESK, model=[say("Hello.")]) as rehearsal:
        result = await rehearsal.send("hello")
    (answer,) = [one.body for one in result.events if one.body.kind == "model_answered"]
    assert answer.model_dump(exclude_defaults=True).keys() == {"at", "effect_id", "content", "finish_reason"}


async def test_tokens_that_a_reply_counts_reach_a_stop():
    agent = Agent(name="desk", model="openai/a", tools=[look_up], stop=Stop(tokens=900))
    script = [call("look_up", {"order": "A-1"}, usage=COUNTED), say("Never.")]
    async with Rehearsal(agent, model=script) as rehearsal:
        result = await rehearsal.send("Where is it?")
    assert result.events[-1].body.stopped == "tokens"


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 7}, {"prompt_tokens": "7", "completion_tokens": 1}])
async def test_a_usage_without_its_counts_is_refused(usage):
    with pytest.raises(ConfigurationError, match="prompt_tokens and completion_tokens"):
        Rehearsal(DESK, model=[say("Hello.", usage=usage)])
