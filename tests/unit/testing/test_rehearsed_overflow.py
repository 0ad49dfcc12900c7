"""Rehearsals of agents whose provider takes less than they think."""

import json

import pytest

from holdfast import Agent, Compact, Context, FailureReason, Limits, tool
from holdfast.conversation.sizes import budget_of
from holdfast.testing import Rehearsal, call, say

REFUSAL = "This model's maximum context length is exceeded"


@tool
def look(question: str) -> str:
    """Look it up."""
    return f"found {question}"


def desk(**terms):
    context = Context(budget=3900, preview=None, **terms)
    return Agent(name="desk", model="openai/gpt-4o-mini", tools=[look], context=context)


def takes(most, *, notes="notes"):
    """A model that takes requests of so many bytes; each that it was sent is noted."""
    sent = []

    def model(messages):
        sent.append(messages)
        if len(json.dumps(messages)) > most:
            return RuntimeError(REFUSAL)
        if "holdfast.to_summarize" in str(messages[-1]["content"]):
            return say(notes)
        return call("look", {"question": "?"}) if messages[-1]["role"] == "user" else say("answer " + "y" * 80)

    return model, sent


def of_kind(result, kind):
    return [event.body for event in result.events if event.kind == kind]


async def talked(agent, model, turns):
    async with Rehearsal(agent, model=model, within_s=60) as rehearsal:
        for number in range(turns):
            result = await rehearsal.send(f"question {number} " + "z" * 100)
        return result, await rehearsal.context()


async def test_a_window_that_is_too_large_for_the_provider_shrinks_for_a_turn_and_no_turn_fails():
    model, sent = takes(4000)
    result, view = await talked(desk(keep=2), model, 40)
    assert not of_kind(result, "turn_failed")
    refused = of_kind(result, "context_overflowed")
    assert refused
    assert len({one.turn_id for one in refused}) == len(refused) < 20, "what is left out stays so"
    assert "maximum context length" in refused[0].error
    assert view.budget < 2800
    assert len(sent) == 80 + len(refused)


async def test_with_compact_the_oldest_messages_are_summarised_then():
    model, _ = takes(4000)
    result, view = await talked(desk(compact=Compact()), model, 30)
    assert not of_kind(result, "turn_failed")
    kinds = [event.kind for event in result.events if event.kind in ("context_overflowed", "compacted", "summary_failed")]
    assert kinds[:2] == ["context_overflowed", "compacted"]
    assert set(kinds) == {"context_overflowed", "compacted"}
    assert view.left_out[0].rule == "compacted"


async def test_where_the_summary_is_too_long_for_the_provider_as_well_the_oldest_messages_are_left_out():
    model, _ = takes(3000)

    def refusing(messages):
        return RuntimeError(REFUSAL) if "holdfast.to_summarize" in str(messages[-1]["content"]) else model(messages)

    result, view = await talked(desk(compact=Compact(), keep=2), refusing, 30)
    assert not of_kind(result, "turn_failed")
    assert {one.reason for one in of_kind(result, "summary_failed")} == {"overflow"}
    assert view.left_out[0].rule == "truncated"


async def test_a_second_refusal_in_a_turn_fails_it_and_the_next_turn_goes_on():
    refusals = []

    def model(messages):
        if refusals or len(messages) > 6:
            refusals.append(messages)
        return RuntimeError(REFUSAL) if 0 < len(refusals) < 3 else say("answer " + "y" * 80)

    async with Rehearsal(desk(keep=2), model=model) as rehearsal:
        for number in range(10):
            result = await rehearsal.send(f"question {number} " + "z" * 400)
            if result.state.failed is not None:
                break
        assert result.state.failed is FailureReason.CONTEXT_OVERFLOW
        assert [event.kind for event in result.events[-2:]] == ["context_overflowed", "turn_failed"]
        result = await rehearsal.send("and now?")
        assert result.state.failed is None


async def test_a_message_that_is_too_long_by_itself_fails_its_turn_at_once():
    model, sent = takes(500)
    async with Rehearsal(desk(keep=2), model=model) as rehearsal:
        result = await rehearsal.send("z" * 1000)
    assert result.state.failed is FailureReason.CONTEXT_OVERFLOW
    assert (len(sent), of_kind(result, "context_overflowed")) == (1, [])


async def test_an_agent_without_a_context_fails_as_before():
    model, _ = takes(1500)
    plain = Agent(name="desk", model="openai/gpt-4o-mini", tools=[look], limits=Limits())
    async with Rehearsal(plain, model=model) as rehearsal:
        for number in range(10):
            result = await rehearsal.send(f"question {number} " + "z" * 400)
            if result.state.failed is not None:
                break
    assert result.state.failed is FailureReason.CONTEXT_OVERFLOW
    assert not of_kind(result, "context_overflowed")


async def test_other_errors_fail_the_turn():

    async with Rehearsal(desk(keep=2), model=[RuntimeError("overloaded")]) as rehearsal:
        result = await rehearsal.send("hello")
    assert result.state.failed is FailureReason.MODEL_ERROR


@pytest.mark.parametrize("compact", [None, Compact()])
async def test_refusals_of_a_while_leave_the_declared_budget_to_the_turns_after_it(compact):
    down = True

    def model(_messages):
        return RuntimeError(REFUSAL) if down else say("answer")

    agent = Agent(name="desk", context=Context(budget=60_000, keep=2, compact=compact))
    async with Rehearsal(agent, model=model, within_s=60) as rehearsal:
        for number in range(8):
            assert (await rehearsal.send(f"question {number}")).state.failed == "context_overflow"
        down = False
        result = await rehearsal.send("now? " + "z" * 900)
        assert (result.reply, (await rehearsal.context()).budget) == ("answer", budget_of(agent.spec))
