"""`Agent(stop=)`: a turn that reaches a bound is completed with its last answer; calls that this asked for do not run."""

import asyncio
import json

import pytest
from pydantic import ValidationError

from holdfast import Agent, Approve, ConfigurationError, Status, Stop, StopReason, Tool, tool
from holdfast.actors.worker.prompt import SENT
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


def rehearsed(messages):
    """The messages as a rehearsal's prompts have them."""
    return [{key: one[key] for key in SENT if key in one} for one in messages]


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
        reached = by_answer(state.turn, desk(tokens=240).spec, 1)
        assert (reached is not None and reached.reason is StopReason.TOKENS) is counted
        assert by_answer(state.turn, desk(tokens=241).spec, 1) is None
        assert by_answer(state.turn, None, 1) is None


async def test_the_next_turn_begins_anew_and_an_answer_without_calls_is_whole():
    async with Rehearsal(desk(rounds=1), model=[order(1), order(2), order(3), say("Paid.")]) as rehearsal:
        assert (await rehearsal.send("one")).state.stopped is StopReason.ROUNDS
        second = await rehearsal.send("two")
    assert (second.reply, second.state.stopped) == ("Paid.", None)
    assert [message["role"] for message in second.messages][:5] == ["user", "assistant", "tool", "assistant", "tool"]


async def test_last_words_are_asked_for_in_an_envelope_that_no_later_request_has():
    script = [order(1), order(2), say("One is paid."), say("Fine.")]
    async with Rehearsal(desk(rounds=1, then="last_words"), model=script) as rehearsal:
        first = await rehearsal.send("Where is it?")
        assert (first.reply, first.state.stopped, first.state.detail) == ("One is paid.", StopReason.ROUNDS, "Stop(rounds=1)")
        assert [run.ok for run in first.runs] == [True]
        assert (first.prompts[-1][-1]["role"], len(first.prompts)) == ("user", 3)
        told = json.loads(first.prompts[-1][-1]["content"])
        assert (told["_kind"], told["bound"]) == ("holdfast.turn_ends", "Stop(rounds=1)")
        assert first.prompts[-1][:-1] == rehearsed(first.messages[:-1])
        second = await rehearsal.send("Thanks.")
    assert "turn_ends" not in json.dumps([second.messages, second.prompts[-1]])


async def test_a_model_that_asks_for_calls_with_its_last_words_gets_error_results():
    script = [order(1), order(2), {**call("finish", {"summary": "paid"}), "content": "One is paid."}]
    result, state = await stopped(desk(rounds=1, then="last_words"), *script)
    assert (result.reply, state.stopped) == ("One is paid.", StopReason.ROUNDS)
    assert [one["ok"] for one in told(result)] == [True, False, False]
    assert len(result.runs) == 1


async def test_last_words_that_fail_leave_the_turn_completed():
    result, state = await stopped(desk(tool="finish", then="last_words"), call("finish", {"summary": "paid"}), OSError("away"))
    assert (result.status, state.stopped) == (Status.IDLE, StopReason.TOOL)
    assert state.detail.startswith("Stop(tool='finish'); the model's last words failed: ")
    assert "away" in state.detail


@tool
async def count_all() -> str:
    """Count for ever."""
    await asyncio.Event().wait()
    return "done"


async def test_a_turn_that_has_gone_on_for_too_long_ends_and_so_does_what_runs():
    agent = Agent(name="desk", tools=[count_all, look_up], stop=Stop(timeout_s=30))
    async with Rehearsal(agent, model=[calls(call("count_all", {}), order(1)), say("Fine.")]) as rehearsal:
        await rehearsal.post("Count.")
        assert (await rehearsal.advance(29)).status is Status.EXECUTING_TOOLS
        result = await rehearsal.advance(1)
        assert (result.status, result.state.stopped, result.state.detail) == (
            Status.IDLE,
            StopReason.TIMEOUT,
            "Stop(timeout_s=30)",
        )
        counted, looked = told(result)
        assert (counted["ok"], looked["ok"]) == (False, True)
        assert "it may or may not have taken effect: the turn was stopped (Stop(timeout_s=30))" in counted["error"]
        assert (await rehearsal.send("And now?")).reply == "Fine."


async def test_a_model_that_takes_too_long_is_not_waited_for_and_another_call_has_the_last_words():
    async def model(messages):
        if "turn_ends" not in messages[-1]["content"]:
            await asyncio.Event().wait()
        return "I was thinking."

    async with Rehearsal(desk(timeout_s=30, then="last_words"), model=model) as rehearsal:
        await rehearsal.post("Think.")
        await rehearsal.advance(30)
        result = await rehearsal.rest()
    assert (result.reply, result.state.stopped) == ("I was thinking.", StopReason.TIMEOUT)


@tool(approval="required")
def pay(order: str) -> str:
    """Pay."""
    return order


@pytest.mark.parametrize("waits", [False, True])
async def test_time_in_which_somebody_is_asked_counts_only_where_the_agent_says_so(waits):
    agent = Agent(name="desk", tools=[pay], stop=Stop(timeout_s=30, waits=waits))
    async with Rehearsal(agent, model=[call("pay", {"order": "7"}), say("Paid.")]) as rehearsal:
        await rehearsal.send("Pay.")
        result = await rehearsal.advance(3600)
        assert (result.status, result.state.stopped) == (
            (Status.IDLE, StopReason.TIMEOUT) if waits else (Status.AWAITING_INPUT, None)
        )
        if not waits:
            result = await rehearsal.resolve(result.pending[0], Approve())
            assert (result.reply, result.state.stopped) == ("Paid.", None)


def test_a_stop_that_is_none_is_refused():
    for bounds in (
        {"then": "last_words"},
        {"waits": True},
        {"rounds": 1, "waits": True},
        {"timeout_s": 0},
        {"timeout_s": float("inf")},
        {"rounds": 1, "then": "more"},
        {},
        {"rounds": 0},
        {"loop": 17},
        {"tool": ""},
        {"tokens": -1},
        {"errors": 1.5},
    ):
        with pytest.raises(ValidationError):
            Stop(**bounds)
    with pytest.raises(ConfigurationError, match="int is not Stop"):
        Agent(name="desk", stop=3)
    search = Tool(name="search", executor="provider", definition={"type": "web_search"})
    for name in ("lookup", "search"):
        with pytest.raises(ConfigurationError, match=rf"no tool '{name}' whose calls have results here"):
            Agent(name="desk", tools=[look_up, search], stop=Stop(tool=name))
