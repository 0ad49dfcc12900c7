"""`send(overrides=)`: the turn of that message, and no other, runs with them."""

import pytest

from holdfast import Agent, Approve, Context, FailureReason, InvalidMessage, Model, Overrides, Status, tool
from holdfast.testing import Rehearsal, call, say


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


DESK = Agent(
    name="desk",
    model=Model("openai/a", fallbacks=["openai/b"]),
    tools=[refund],
    overridable={"model": ["openai/c", "openai/b"], "temperature": (0, 1)},
)
LARGE = Overrides(model="openai/c", temperature=0.5)


def models(result):
    return [one.body.model for one in result.events if one.body.kind == "model_answered"]


async def test_one_turn_with_all_its_calls_is_asked_of_another_model():
    script = [call("refund", {"order": "A-1"}), say("Done."), say("Again.")]
    async with Rehearsal(DESK, model=script) as rehearsal:
        waits = await rehearsal.send("Refund A-1.", overrides=LARGE)
        await rehearsal.resolve(waits.pending[0], Approve())
        result = await rehearsal.send("And now?")
    assert models(result) == ["openai/c", "openai/c", ""]
    (first, second) = [one.body for one in result.events if one.body.kind == "message_accepted"]
    assert (first.overrides, second.overrides) == (LARGE, None)
    assert "overrides" not in second.model_dump(exclude_defaults=True)


async def test_the_fallbacks_follow_the_chosen_model_and_each_answer_says_which_gave_it():
    async with Rehearsal(DESK, model=[OSError("down"), say("B."), say("B again.")]) as rehearsal:
        await rehearsal.send("Hello.", overrides={"model": "openai/c"})
        result = await rehearsal.send("Hello?", overrides={"model": "openai/b"})
    assert models(result) == ["openai/b", "openai/b"]


async def test_a_queued_message_keeps_its_own_and_an_interruption_has_them_too():
    script = [call("refund", {"order": "A-1"}), say("One."), say("Two."), say("Three.")]
    async with Rehearsal(DESK, model=script) as rehearsal:
        await rehearsal.send("Refund A-1.")
        waits = await rehearsal.send("later", overrides=LARGE)
        assert models(waits) == [""]
        await rehearsal.resolve(waits.pending[0], Approve())
        result = await rehearsal.send("stop", when="interrupt", overrides={"model": "openai/b"})
    assert models(result) == ["", "", "openai/c", "openai/b"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"model": "openai/z"}, "openai/c, openai/b"),
        ({"temperature": 1.5}, "from 0 to 1"),
        ({"max_tokens": 7}, "max_tokens may not be overridden"),
        ({"seed": 7}, "Extra inputs"),
        (7, "int is none"),
    ],
    ids=str,
)
async def test_what_the_agent_does_not_allow_is_refused_and_nothing_is_recorded(given, problem):
    async with Rehearsal(DESK, model=[say("Hello.")]) as rehearsal:
        before = await rehearsal.send("Hello.")
        with pytest.raises(InvalidMessage, match=problem):
            await rehearsal.send("More?", overrides=given)
        for when in ("queue", "interrupt"):
            with pytest.raises(InvalidMessage):
                await rehearsal.send("More?", when=when, overrides=given)
        after = await rehearsal.rest()
    assert len(after.events) == len(before.events)


async def test_a_message_that_joins_a_turn_has_none():
    async with Rehearsal(DESK, model=[call("refund", {"order": "A-1"})]) as rehearsal:
        await rehearsal.send("Refund A-1.")
        with pytest.raises(InvalidMessage, match="steer"):
            await rehearsal.send("quickly", when="steer", overrides=LARGE)
        with pytest.raises(InvalidMessage, match="no text"):
            await rehearsal.interrupt(overrides=LARGE)


async def test_the_same_id_with_other_overrides_is_another_message():
    async with Rehearsal(DESK, model=[say("Hello."), say("Again.")]) as rehearsal:
        await rehearsal.send("Hi.", overrides={"model": "openai/b"})
        await rehearsal.send("Hello.", message_id="m-1", overrides=LARGE)
        again = await rehearsal.send("Hello.", message_id="m-1", overrides={"model": "openai/c", "temperature": 0.5})
        assert models(again) == ["openai/b", "openai/c"]
        with pytest.raises(InvalidMessage, match="m-1"):
            await rehearsal.send("Hello.", message_id="m-1")


async def test_an_agent_that_was_published_anew_without_it_fails_the_turn_with_the_reason(monkeypatch):
    async with Rehearsal(DESK, model=[say("Hello."), say("Again.")]) as rehearsal:
        await rehearsal.send("Hello.")
        monkeypatch.setattr("holdfast.testing.rehearsal.check_allowed", lambda *_: None)  # it was allowed as it was sent
        failed = await rehearsal.send("More?", overrides={"max_tokens": 7})
        assert (failed.status, failed.state.failed) == (Status.FAILED, FailureReason.NOT_OVERRIDABLE)
        assert "max_tokens may not be overridden" in failed.error
        assert (await rehearsal.send("And now?")).reply == "Again."


async def test_more_tokens_for_the_answer_leave_less_of_the_window():
    agent = Agent(name="desk", context=Context(budget=1000), model_options={"max_tokens": 100}, overridable={"max_tokens": 900})
    async with Rehearsal(agent, model=[say("x" * 1200)] * 3) as rehearsal:
        await rehearsal.send("Hello.")
        await rehearsal.send("Hello again.")
        result = await rehearsal.send("Write.", overrides={"max_tokens": 800})
    assert [len(prompt) for prompt in result.prompts] == [1, 3, 1]
