"""Turns that stop, on the real stack: what runs is ended at the worker, and the last words are asked for without tools."""

import asyncio
import json

import pytest
from stack_fixture import client_of, eventually, runs_of

from holdfast.client import Status, StopReason
from holdfast.testing import call, calls

WITHIN_S = 90

pytestmark = pytest.mark.gate


@pytest.fixture
async def client(stack):
    """A client of a namespace whose worker is there: a turn's time does not pass while one begins."""
    async with client_of("stopping", "stopping_app:app", timeout_s=90) as connected:
        warm = await connected.start("brief", stack.scenarios.add("warm", "Ready."))
        assert (await warm.wait(timeout_s=WITHIN_S)).reply == "Ready."
        yield connected


def tidied_up(stack, name):
    return [one for one in runs_of(stack, name) if one["kind"] == "tidied up"]


async def test_a_turn_whose_time_is_over_ends_and_its_tool_is_told_so(stack, client):
    text = stack.scenarios.add("hasty", call("until_cancelled", {}), "Never mind.")
    conversation = await client.start("hasty", text, conversation_id="hasty")
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.status, state.stopped, state.detail) == (Status.IDLE, StopReason.TIMEOUT, "Stop(timeout_s=4)")
    await asyncio.to_thread(eventually, lambda: tidied_up(stack, "hasty"), WITHIN_S, "the tool's end")
    (result,) = [one for one in await conversation.messages() if one["role"] == "tool"]
    assert "the turn was stopped (Stop(timeout_s=4))" in result["content"]
    rows = (await client.conversations(stopped=True, agent="hasty")).items
    assert [(row.conversation_id, row.stopped) for row in rows] == [("hasty", StopReason.TIMEOUT)]
    sent = await conversation.send("and now?")
    assert (await conversation.wait(after=sent.seq, timeout_s=WITHIN_S)).reply == "Never mind."


async def test_a_model_that_takes_too_long_is_given_up_and_asked_for_its_last_words(stack, client):
    stack.scenarios.add("talkative", "I was thinking.")
    stack.model.hold(times=1)
    try:
        conversation = await client.start("talkative", "talkative", conversation_id="talkative")
        await stack.model.held(1)
        state = await conversation.wait(timeout_s=WITHIN_S)
    finally:
        stack.model.release()
    assert (state.reply, state.stopped) == ("I was thinking.", StopReason.TIMEOUT)
    (turn,) = await conversation.turns()
    assert (turn.usage.model_calls, turn.stopped) == (1, StopReason.TIMEOUT)


async def test_the_last_words_are_asked_for_without_tools(stack, client):
    looks = [call("lookup", {"order": f"{number}"}) for number in range(2)]
    text = stack.scenarios.add("brief", *looks, "Half is done.")
    conversation = await client.start("brief", text, conversation_id="brief")
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.reply, state.stopped) == ("Half is done.", StopReason.ROUNDS)
    *before, last = [one.body for one in stack.model.requests if one.body["messages"][0]["content"] == "brief"]
    assert all(one["tools"] for one in before)
    assert "tools" not in last
    assert json.loads(last["messages"][-1]["content"])["bound"] == "Stop(rounds=1)"


def look(number, content=None, prompt=1000, answered=100):
    return calls(
        call("lookup", {"order": f"{number}"}), content=content, usage={"prompt_tokens": prompt, "completion_tokens": answered}
    )


@pytest.mark.parametrize(
    ("name", "answers", "stopped", "detail"),
    [
        # at litellm's prices of the model: 0.15 US dollars for a million tokens of requests, 0.60 of answers
        ("cost", [look(1, answered=400_000), look(2, answered=300_000)], StopReason.COST, "Stop(cost_usd=0.4): 0.4203 so far"),
        ("content", [look(1, "I look."), look(2, "I have NO IDEA.")], StopReason.CONTENT, "Stop(content='(?i)no idea')"),
        ("when", [look(1, prompt=1_200_000)], StopReason.WHEN, "Stop(when=wanders): 1200100 tokens for 0.18 USD"),
        ("fails", [look(1, "Break it.")], StopReason.WHEN, "Stop(when=breaks): it failed (LookupError)"),
    ],
    ids=["cost", "content", "when", "fails"],
)
async def test_a_turn_ends_by_money_by_what_the_model_says_and_by_functions_of_the_app(
    stack, client, name, answers, stopped, detail
):
    text = stack.scenarios.add(f"judged-{name}", *answers, "Fine.")
    conversation = await client.start("judged", text, conversation_id=f"judged-{name}")
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.status, state.stopped, state.detail) == (Status.IDLE, stopped, detail)
    results = [json.loads(one["content"])["ok"] for one in await conversation.messages() if one["role"] == "tool"]
    assert results == [True] * (len(answers) - 1) + [False]
    (turn,) = await conversation.turns()
    assert (turn.stopped, turn.detail, turn.usage.model_calls) == (stopped, detail, len(answers))
    rows = (await client.conversations(stopped=True, agent="judged")).items
    assert (f"judged-{name}", stopped) in [(row.conversation_id, row.stopped) for row in rows]
    sent = await conversation.send("and now?")
    state = await conversation.wait(after=sent.seq, timeout_s=WITHIN_S)
    assert (state.reply, state.stopped) == ("Fine.", None)
