"""`Agent(stop=)`: a turn that reaches a bound is completed with its last answer; calls that this asked for do not run."""

import json

import pytest
from pydantic import ValidationError

from holdfast import Agent, ConfigurationError, Status, Stop, StopReason, tool
from holdfast.conversation import State, evolve
from holdfast.conversation.judging.stopping import by_answer
from holdfast.conversation.records.events import ModelAnswered, RequestedCall, TurnStarted
from holdfast.conversation.records.state import Queued
from holdfast.testing import Rehearsal, call, calls, say

CALLS = (RequestedCall(tool_call_id="c1", name="look_up", arguments="{}"),)


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    if order == "none":
        raise LookupError(order)
    return f"{order} is paid"


@tool
def finish(summary: str) -> str:
    """Say that all is done."""
    return summary


def desk(**bounds):
    return Agent(name="desk", tools=[look_up, finish], stop=Stop(**bounds))


def order(number):
    return call("look_up", {"order": f"{number}"})


async def stopped(agent, *script, text="Where is it?"):
    """The result of a turn, whose script has more than the turn needs."""
    async with Rehearsal(agent, model=[*script, *(order(f"later {n}") for n in range(30))]) as rehearsal:
        result = await rehearsal.send(text)
        state = await rehearsal.result()
    assert result.status is Status.IDLE
    return result, state.state


def told(result):
    return [json.loads(one["content"]) for one in result.messages if one["role"] == "tool"]


async def test_a_turn_of_so_many_rounds_ends_with_the_answer_that_asks_for_more():
    result, state = await stopped(desk(rounds=2))
    assert (state.stopped, state.detail) == (StopReason.ROUNDS, "Stop(rounds=2)")
    assert [one["ok"] for one in told(result)] == [True, True, False]
    assert "the turn was stopped (Stop(rounds=2)): this call did not run" in told(result)[-1]["error"]
    assert [run.ok for run in result.runs] == [True, True]
    assert len(result.prompts) == 3


async def test_results_in_a_row_that_failed_end_it_and_one_that_did_not_begins_anew():
    script = [order("none"), order(1), order("none"), order("none"), order(2)]
    result, state = await stopped(desk(errors=2), *script)
    assert (state.stopped, state.detail) == (StopReason.ERRORS, "Stop(errors=2)")
    assert [one["ok"] for one in told(result)] == [False, True, False, False]
    assert len(result.prompts) == 4


async def test_a_call_of_a_tool_ends_it_once_the_answers_calls_have_their_results():
    script = [order(1), calls(call("finish", {"summary": "paid"}), order(2)), order(3)]
    result, state = await stopped(desk(tool="finish"), *script)
    assert (state.stopped, state.detail) == (StopReason.TOOL, "Stop(tool='finish')")
    assert [one["ok"] for one in told(result)] == [True, True, True]
    assert len(result.prompts) == 2


@pytest.mark.parametrize(("window", "ends_at"), [(1, 6), (2, 3)])
async def test_the_same_call_with_the_same_arguments_ends_it_within_so_many_answers(window, ends_at):
    script = [order(1), order(2), order(1), order(3), order(4), order(4)]
    result, state = await stopped(desk(loop=window), *script)
    assert (state.stopped, state.detail) == (StopReason.LOOP, f"Stop(loop={window})")
    assert len(result.prompts) == ends_at
    assert [one["ok"] for one in told(result)] == [True] * (ends_at - 1) + [False]


async def test_tokens_that_nobody_counts_end_nothing():
    result, state = await stopped(desk(tokens=1), order(1), say("Done."))
    assert (result.reply, state.stopped, state.detail) == ("Done.", None, "")


def test_tokens_of_requests_and_answers_are_added_up_for_turns_that_stop_by_them():
    start = {"turn_id": "t1", "message_seq": 2, "spec_digest": "s", "code": "k", "max_model_calls": 9}
    for counted, tokens in ((True, 240), (False, 0)):
        state = State(conversation_id="c-1", seq=2, queue=(Queued(seq=2),))
        state = evolve(state, TurnStarted(at=1, counted=counted, **start))
        for number in (1, 2):
            answer = ModelAnswered(at=1, effect_id=f"t1.m{number}", calls=CALLS, input_tokens=100, output_tokens=20)
            state = evolve(state, answer)
        assert state.turn.tokens == tokens
        reached = by_answer(state.turn, desk(tokens=240).spec)
        assert (reached is not None and reached.reason is StopReason.TOKENS) is counted
        assert by_answer(state.turn, desk(tokens=241).spec) is None
        assert by_answer(state.turn, None) is None


async def test_the_next_turn_begins_anew_and_an_answer_without_calls_is_whole():
    async with Rehearsal(desk(rounds=1), model=[order(1), order(2), order(3), say("Paid.")]) as rehearsal:
        assert (await rehearsal.send("one")).state.stopped is StopReason.ROUNDS
        second = await rehearsal.send("two")
    assert (second.reply, second.state.stopped) == ("Paid.", None)
    assert [message["role"] for message in second.messages][:5] == ["user", "assistant", "tool", "assistant", "tool"]


def test_a_stop_that_is_none_is_refused():
    for bounds in ({}, {"rounds": 0}, {"loop": 17}, {"tool": ""}, {"tokens": -1}, {"errors": 1.5}):
        with pytest.raises(ValidationError):
            Stop(**bounds)
    with pytest.raises(ConfigurationError, match="int is not Stop"):
        Agent(name="desk", stop=3)
