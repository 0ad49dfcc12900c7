"""`Agent(reply=)`: the reply is an object, and the model is told what is wrong with another one."""

import pytest
from pydantic import BaseModel, field_validator

from holdfast import Agent, Context, FailureReason, Rules, Status, tool
from holdfast.conversation.text import jsontext
from holdfast.testing import call, calls, run, say


class Order(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _known(cls, number):
        if number > 100:
            raise ValueError("no such order")
        if number < 0:
            raise RuntimeError("the validator is broken")
        return number


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is 7"


DESK = Agent(name="desk", tools=[look_up], reply=Order)


@pytest.mark.parametrize("answer", [say('{"number": 7}'), call("final_answer", {"number": 7})], ids=["text", "call"])
async def test_the_reply_is_text_and_value_in_either_form(answer):
    result = await run(DESK, "Which?", model=[call("look_up", {"order": "A"}), answer])
    assert (result.value, jsontext.loads(result.reply)) == ({"number": 7}, {"number": 7})
    assert (result.status, result.pending, [one.tool for one in result.runs]) == (Status.IDLE, [], ["look_up"])


@pytest.mark.parametrize(("number", "words"), [(700, "no such order"), (-1, "the validator is broken")])
async def test_a_validator_of_the_type_is_asked_and_the_model_reads_what_it_says(number, words):
    answers = [call("final_answer", {"number": number}), say(f'{{"number": {number}}}'), say('{"number": 7}')]
    result = await run(DESK, "Which?", model=answers)
    assert result.value == {"number": 7}
    (by_call, by_text) = result.prompts[1][-1], result.prompts[2][-1]
    assert [one["role"] for one in (by_call, by_text)] == ["tool", "user"]
    assert all(words in jsontext.loads(one["content"])["error"] for one in (by_call, by_text))
    assert by_text.keys() == {"role", "content"}


async def test_a_turn_fails_after_two_repairs_and_has_no_value():
    result = await run(DESK, "Which?", model=["Seven.", "Seven!", "7"])
    assert (result.status, result.state.failed, result.value) == (Status.FAILED, FailureReason.INVALID_REPLY, None)


async def test_no_rule_is_asked_about_the_reply():
    agent = Agent(name="desk", tools=[look_up], reply=Order, rules=Rules(deny=["*"]))
    result = await run(agent, "Which?", model=[call("final_answer", {"number": 7})])
    assert result.value == {"number": 7}


async def test_other_calls_of_the_same_answer_run_and_the_reply_is_given_again():
    both = calls(call("look_up", {"order": "A"}), call("final_answer", {"number": 7}))
    result = await run(DESK, "Which?", model=[both, call("final_answer", {"number": 8})])
    assert (result.value, len(result.runs)) == ({"number": 8}, 1)


async def test_an_agent_without_a_shape_has_no_value():
    result = await run(Agent(name="desk"), "Which?", model=['{"number": 7}'])
    assert (result.reply, result.value) == ('{"number": 7}', None)


async def test_a_repair_stays_with_its_answer_when_the_oldest_messages_are_left_out():
    agent = Agent(name="desk", reply=Order, instructions="x", context=Context(budget=2000, keep=2, preview=None))
    script = [answer for _ in range(12) for answer in (say("Seven. " + "so " * 150), say('{"number": 7}'))]
    result = await run(agent, *["Which? " + "hm " * 50] * 12, model=script)
    assert result.value == {"number": 7}
    for prompt in result.prompts:
        roles = [one["role"] for one in prompt[1:]]
        assert roles[0] == "user"
        told = [
            place for place, one in enumerate(prompt) if str(one["content"]).startswith('{"_kind":"holdfast.reply_refused"')
        ]
        assert all(prompt[place - 1]["role"] == "assistant" for place in told)
    assert len(result.prompts[-1]) < 20
