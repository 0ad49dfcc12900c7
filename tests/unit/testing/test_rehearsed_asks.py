"""`Stop(then="ask")` in a rehearsal: a turn that reaches a bound waits for somebody's word on it."""

import pytest

from holdfast import Agent, Approve, ConfigurationError, Deny, InvalidDecision, Status, Stop, StopReason, SuspensionKind, tool
from holdfast.testing import Rehearsal, call, calls, say


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def desk(**bounds):
    return Agent(name="desk", tools=[look_up, refund], stop=Stop(then="ask", **bounds))


def order(number):
    return call("look_up", {"order": f"{number}"})


async def test_the_question_is_a_pending_call_that_says_what_is_decided():
    async with Rehearsal(desk(rounds=1), model=[order(1), order(2), say("Both are paid.")]) as rehearsal:
        result = await rehearsal.send("Are they paid?")
        (question,) = result.pending
        assert (question.kind, question.tool, question.decisions) == (
            SuspensionKind.LIMIT,
            "holdfast.limit",
            ("approve", "deny"),
        )
        assert question.arguments["bound"] == "Stop(rounds=1)"
        assert question.arguments["extends_by"] == {"rounds": 1}
        assert question.prompt == "The turn has reached Stop(rounds=1). May it go on for as much again?"
        assert result.status is Status.AWAITING_INPUT
        result = await rehearsal.resolve(question, Approve())
        assert (result.reply, result.state.stopped, result.pending) == ("Both are paid.", None, [])


async def test_no_prompt_and_no_message_knows_of_the_question():
    async with Rehearsal(desk(rounds=1), model=[order(1), order(2), say("Both are paid.")]) as rehearsal:
        (question,) = (await rehearsal.send("Are they paid?")).pending
        result = await rehearsal.resolve(question, Approve())
        assert "holdfast" not in repr(result.prompts)
        roles = [message["role"] for message in result.messages]
        assert roles == ["user", *("assistant", "tool") * 2, "assistant"]
        events = [event for event in result.events if event.kind == "call_suspended"]
        assert [event.arguments["bound"] for event in events] == ["Stop(rounds=1)"]


async def test_a_denial_ends_the_turn_as_without_a_question():
    async with Rehearsal(desk(rounds=1), model=[order(1), calls(order(2), content="One so far.")]) as rehearsal:
        (question,) = (await rehearsal.send("Are they paid?")).pending
        result = await rehearsal.resolve(question, Deny("that will do"))
        assert (result.status, result.state.stopped, result.reply) == (Status.IDLE, StopReason.ROUNDS, "One so far.")


async def test_the_decisions_of_a_rehearsal_may_name_the_question():
    script = [order(1), order(2), order(3), say("All are paid.")]
    async with Rehearsal(desk(rounds=1), model=script, decide={"holdfast.limit": Approve()}) as rehearsal:
        result = await rehearsal.send("Are they paid?")
        assert result.reply == "All are paid."
        assert [event.data["by"] for event in result.events if event.kind == "suspension_settled"] == ["approve", "approve"]


def test_an_agent_that_does_not_ask_has_no_question_to_decide():
    with pytest.raises(ConfigurationError, match=r"has no tool holdfast\.limit"):
        Rehearsal(Agent(name="desk", tools=[look_up], stop=Stop(rounds=1)), model=[], decide={"holdfast.limit": Approve()})


async def test_a_held_call_needs_its_own_approval_after_that_of_the_turn():
    script = [order(1), calls(order(2), call("refund", {"order": "2"})), say("Done.")]
    async with Rehearsal(desk(rounds=1), model=script) as rehearsal:
        (question,) = (await rehearsal.send("Refund the second.")).pending
        result = await rehearsal.resolve(question, Approve())
        (waiting,) = result.pending
        assert (waiting.kind, waiting.tool) == (SuspensionKind.APPROVAL, "refund")
        assert (await rehearsal.resolve(waiting, Approve())).reply == "Done."


async def test_nobody_approves_other_arguments():
    async with Rehearsal(desk(rounds=1), model=[order(1), order(2)]) as rehearsal:
        (question,) = (await rehearsal.send("Are they paid?")).pending
        with pytest.raises(InvalidDecision, match="as much again"):
            await rehearsal.resolve(question, Approve({"extends_by": {"rounds": 100}}))
        assert (await rehearsal.result()).pending[0].suspension_id == question.suspension_id


async def test_a_question_that_nobody_answers_ends_the_turn_at_its_deadline():
    async with Rehearsal(desk(rounds=1), model=[order(1), order(2)]) as rehearsal:
        await rehearsal.send("Are they paid?")
        result = await rehearsal.advance(7 * 86400)
        assert (result.status, result.state.stopped) == (Status.IDLE, StopReason.ROUNDS)
