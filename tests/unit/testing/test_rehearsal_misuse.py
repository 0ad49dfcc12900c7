"""What a test does wrong is an error of the test: it is raised where the conversation is driven, and says what to do."""

import asyncio

import pytest

from holdfast import (
    Agent,
    Answer,
    App,
    Approve,
    ConfigurationError,
    InvalidConversationId,
    InvalidDecision,
    InvalidMessage,
    tool,
)
from holdfast.testing import NoAnswer, Rehearsal, Replay, call, run, say


@tool(approval="required")
async def refund(order: str) -> str:
    """Refund an order."""
    return order


DESK = Agent(name="desk", tools=[refund])
REFUND = call("refund", {"order": "A-1"})


async def test_a_script_that_ends_too_soon_says_how_long_it_was_and_what_was_asked():
    with pytest.raises(
        NoAnswer, match=r"the script has 1 reply, and the model is asked once more, after the user message 'More'"
    ):
        await run(DESK, "Hi", "More", model=[say("Hello.")])


async def test_a_recording_that_does_not_go_on_says_so():
    with pytest.raises(NoAnswer, match="no recorded transcript matches"):
        await run(DESK, "Hi", model=Replay([[{"role": "user", "content": "Other"}, say("Hello.")]]))


async def test_what_a_models_function_raises_is_raised_in_the_test():
    def model(messages):
        assert messages[-1]["content"] == "Bye", "the wrong words"

    with pytest.raises(AssertionError, match="the wrong words"):
        await run(DESK, "Hi", model=model)


async def test_what_a_deciding_function_raises_is_raised_in_the_test():
    def decide(shown):
        raise LookupError(shown.tool)

    with pytest.raises(LookupError, match="refund"):
        await run(DESK, "Hi", model=[REFUND], decide=decide)


@pytest.mark.parametrize("model", ["Hello.", say("Hello."), 7, None, {"a": 1}])
async def test_what_is_no_script_is_refused(model):
    with pytest.raises(ConfigurationError, match=r"model: .* is no script; give a list"):
        await run(DESK, "Hi", model=model)


@pytest.mark.parametrize("reply", [7, None, {"role": "user", "content": "Hi"}, {"content": 7}])
async def test_what_is_no_reply_is_refused_with_its_place(reply):
    with pytest.raises(ConfigurationError, match=r"model\[1\]"):
        await run(DESK, "Hi", model=["Hello.", reply])
    with pytest.raises(ConfigurationError, match="the reply of the model's function"):
        await run(DESK, "Hi", model=lambda _: reply)


@pytest.mark.parametrize("decide", [Ellipsis, 7, "approve"])
async def test_what_decides_nothing_is_refused(decide):
    with pytest.raises(ConfigurationError, match=r"decide: .* is no function and no mapping"):
        await run(DESK, "Hi", model=[REFUND], decide=decide)


async def test_a_decision_on_a_tool_that_there_is_not_is_refused():
    with pytest.raises(ConfigurationError, match="agent 'desk' has no tool refnud; name one of its tools: refund"):
        await run(DESK, "Hi", model=[REFUND], decide={"refnud": None})


async def test_what_is_no_decision_is_refused():
    with pytest.raises(InvalidDecision, match="it gave True for tool refund"):
        await run(DESK, "Hi", model=[REFUND], decide=lambda _: True)


async def test_an_answer_that_the_schema_refuses_is_the_tests_to_correct():
    @tool(executor="human", response_schema=bool)
    def confirm() -> bool:
        """Ask."""

    with pytest.raises(InvalidDecision):
        await run(Agent(name="a", tools=[confirm]), "Hi", model=[call("confirm", {})], decide=lambda _: Answer("yes"))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"resources": 1, "app": App(agents=[DESK])}, "resources"),
        ({"lose": {"charge": 1}}, "lose"),
        ({"lose": {"refund": "once"}}, "lose"),
        ({"within_s": 0}, "within_s"),
        ({"within_s": "long"}, "within_s"),
    ],
)
async def test_an_argument_that_cannot_be_used_is_named(more, named):
    with pytest.raises(ConfigurationError) as refused:
        await run(DESK, "Hi", model=[], **more)
    assert refused.value.field == named


async def test_messages_context_ids_and_agents_are_checked_as_the_client_checks_them():
    with pytest.raises(ConfigurationError, match="texts"):
        await run(DESK, model=[])
    with pytest.raises(ConfigurationError, match="str is no Agent"):
        await run("desk", "Hi", model=[])
    with pytest.raises(InvalidMessage, match="text"):
        await run(DESK, 7, model=[])
    async with Rehearsal(DESK, model=[]) as conversation:
        with pytest.raises(InvalidMessage, match="message_id"):
            await conversation.send("Hi", message_id="")
    with pytest.raises(InvalidMessage, match="context"):
        await run(DESK, "Hi", model=[], context=object())
    with pytest.raises(InvalidConversationId):
        Rehearsal(DESK, model=[], conversation_id="no id")


async def test_a_rehearsal_is_used_while_it_is_open():
    conversation = Rehearsal(DESK, model=[REFUND])
    with pytest.raises(RuntimeError, match="not open"):
        await conversation.send("Hi")
    async with conversation:
        (shown,) = (await conversation.send("Hi")).pending
    with pytest.raises(RuntimeError, match="not open"):
        await shown.resolve(Approve())


async def test_a_rehearsal_that_is_left_while_it_works_lets_go():
    async def hang() -> None:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    async with Rehearsal(Agent(name="a", tools=[hang]), model=[call("hang", {})]) as conversation:
        await conversation.post("Go")
        await conversation.advance(1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
