"""A rehearsal shows what happens while a model is down."""

from holdfast import Agent, FailureReason, Model, Status
from holdfast.testing import Rehearsal, say

DESK = Agent(name="desk", model=Model("openai/a", fallbacks=["openai/b", "openai/c"]))


async def test_the_next_reply_is_the_fallbacks_and_the_event_names_it():
    script = [ConnectionError("down"), TimeoutError("down"), say("Hello."), say("Again.")]
    async with Rehearsal(DESK, model=script) as rehearsal:
        await rehearsal.send("hello")
        result = await rehearsal.send("hello again")
    answered = [one.body for one in result.events if one.body.kind == "model_answered"]
    assert [(one.content, one.model) for one in answered] == [("Hello.", "openai/c"), ("Again.", "")]


async def test_if_all_are_down_the_turn_fails():
    async with Rehearsal(DESK, model=[ConnectionError("down")] * 3) as rehearsal:
        failed = await rehearsal.send("hello")
    assert (failed.status, failed.events[-1].body.reason) == (Status.FAILED, FailureReason.MODEL_ERROR)


async def test_an_error_that_is_no_outage_asks_no_other_model():
    async with Rehearsal(DESK, model=[ValueError("refused"), say("Hello.")]) as rehearsal:
        failed = await rehearsal.send("hello")
    assert failed.status is Status.FAILED


async def test_a_request_that_is_too_long_has_a_reason_of_its_own():
    async with Rehearsal(DESK, model=[ValueError("prompt is too long: 210000 tokens > 200000 maximum")]) as rehearsal:
        failed = await rehearsal.send("hello")
    assert (failed.status, failed.state.failed) == (Status.FAILED, FailureReason.CONTEXT_OVERFLOW)
