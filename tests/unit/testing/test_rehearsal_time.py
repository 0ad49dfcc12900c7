"""Time in a rehearsal stands still until it is moved: deadlines, bounds, and runs that are lost."""

import asyncio
import json

import pytest

from holdfast import (
    Agent,
    Answer,
    Approve,
    InvalidInput,
    Limits,
    Quarantined,
    Redispatch,
    StaleCall,
    Status,
    Tool,
    ToolContext,
    tool,
)
from holdfast.testing import NeverRested, Rehearsal, call, calls, run

DAY_S = 86_400


@tool(approval="required", approval_timeout_s=3 * DAY_S)
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


@tool(executor="human", response_schema=str, answer_timeout_s=60)
def ask() -> str:
    """Ask the customer."""


@tool(run_timeout_s=30)
async def hang() -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


DESK = Agent(name="desk", tools=[refund, ask, hang], limits=Limits(model_timeout_s=90))
REFUND = call("refund", {"order": "A-1"}, id="call_1")


def errors(result):
    """What the model read of calls that came to nothing."""
    told = [json.loads(message["content"]) for message in result.messages if message["role"] == "tool"]
    return [one["error"] for one in told if not one["ok"]]


async def test_an_approval_expires_when_its_time_has_passed_and_not_before():
    async with Rehearsal(DESK, model=[REFUND, "Too late."]) as conversation:
        (shown,) = (await conversation.send("Refund")).pending
        assert shown.expires_at == conversation.now + 3 * DAY_S * 1000
        assert (await conversation.advance(3 * DAY_S - 1)).status is Status.AWAITING_INPUT
        expired = await conversation.advance(1)
        assert (expired.status, expired.reply, expired.runs) == (Status.IDLE, "Too late.", [])
        assert "nobody approved this call in time" in errors(expired)[0]
        with pytest.raises(StaleCall) as stale:
            await shown.resolve(Approve())
        assert stale.value.reason == "expired"


async def test_each_deadline_passes_at_its_own_moment():
    async with Rehearsal(DESK, model=[calls(REFUND, call("ask", {})), "Neither."]) as conversation:
        began = conversation.now
        await conversation.send("Go")
        result = await conversation.advance(10 * DAY_S)
        settled = [event.at - began for event in result.events if event.kind == "suspension_settled"]
        assert settled == [60_000, 3 * DAY_S * 1000]
        assert conversation.now == began + 10 * DAY_S * 1000


async def test_what_follows_from_a_deadline_has_deadlines_of_its_own_on_the_way():
    async with Rehearsal(DESK, model=[call("ask", {}), call("ask", {}), "Nobody is there."]) as conversation:
        await conversation.send("Go")
        result = await conversation.advance(120)
        assert (result.reply, len(errors(result))) == ("Nobody is there.", 2)


async def test_a_run_ends_at_its_bound_when_the_time_is_moved():
    async with Rehearsal(DESK, model=[call("hang", {}), "It hangs."]) as conversation:
        await conversation.post("Go")
        going = await conversation.advance(29)
        assert (going.status, [one.tool for one in going.state.running]) == (Status.EXECUTING_TOOLS, ["hang"])
        ended = await conversation.advance(1)
        assert (ended.status, ended.reply) == (Status.IDLE, "It hangs.")
        assert errors(ended) == ["the tool did not finish within 30 s"]


async def test_a_model_call_ends_at_its_bound_when_the_time_is_moved():
    async def silent(_messages):
        await asyncio.Event().wait()

    async with Rehearsal(DESK, model=silent) as conversation:
        await conversation.post("Go")
        failed = await conversation.advance(90)
        assert (failed.status, failed.state.failed) == (Status.FAILED, "model_timeout")
        assert failed.error == "the model did not answer within 90 s (Limits.model_timeout_s)"


async def test_time_may_be_moved_before_anything_was_said():
    async with Rehearsal(DESK, model=["Hello."]) as conversation:
        began = conversation.now
        await conversation.advance(5)
        result = await conversation.send("Hi")
        assert {event.at for event in result.events} == {began + 5000}


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "1", None, True])
async def test_what_is_no_time_moves_nothing(seconds):
    async with Rehearsal(DESK, model=[]) as conversation:
        with pytest.raises(InvalidInput, match="seconds"):
            await conversation.advance(seconds)


async def test_what_never_rests_is_named_and_does_not_hang():
    with pytest.raises(NeverRested, match=r"within 0\.05 s .*executing_tools.*run_tool hang"):
        await run(DESK, "Go", model=[call("hang", {})], within_s=0.05)


async def test_a_decision_that_never_comes_is_an_error_too():
    async def decide(_shown):
        await asyncio.Event().wait()

    with pytest.raises(NeverRested, match="awaiting_input"):
        await run(DESK, "Go", model=[REFUND], decide=decide, within_s=0.05)


def charging(on_lost, bodies):
    """An agent whose one tool says what becomes of a lost run."""

    async def charge(context: ToolContext) -> str:
        bodies.append((context.tool_call_id, context.attempt))
        return "charged"

    return Agent(name="till", tools=[Tool(callback=charge, on_lost=on_lost)])


async def test_a_lost_run_is_run_again_under_the_same_key():
    bodies = []
    result = await run(charging("redispatch", bodies), "Go", model=[call("charge", {}, id="c1"), "Done."], lose={"charge": 1})
    assert bodies == [("c1", 1), ("c1", 2)]
    assert [(one.attempt, one.lost, one.ok) for one in result.runs] == [(1, True, False), (2, False, True)]
    assert result.reply == "Done."


async def test_a_lost_run_that_must_not_be_repeated_is_told_to_the_model():
    bodies = []
    result = await run(charging("error", bodies), "Go", model=[call("charge", {}), "I do not know."], lose={"charge": 1})
    assert len(bodies) == 1
    assert "outcome unknown" in errors(result)[0]


async def test_a_lost_run_is_asked_about():
    bodies = []
    agent, script = charging("ask", bodies), [call("charge", {}), "Done."]
    (shown,) = (await run(agent, "Go", model=script, lose={"charge": 1})).pending
    assert shown.kind == "lost"
    answered = await run(agent, "Go", model=script, lose={"charge": 1}, decide=lambda _: Answer("charged"))
    again = await run(agent, "Go", model=script, lose={"charge": 1}, decide=lambda _: Redispatch())
    assert (len(answered.runs), len(again.runs)) == (1, 2)


async def test_a_run_that_is_lost_again_and_again_ends_in_quarantine():
    with pytest.raises(Quarantined, match="its worker died"):
        await run(charging("redispatch", []), "Go", model=[call("charge", {})], lose={"charge": 9})
