"""A rehearsal sends what a worker would send: within the agent's budget, and nothing if that cannot be."""

import json

import pytest

from holdfast import Agent, Approve, Context, FailureReason, Retain, Rules, Status, tool
from holdfast.conversation.sizes import fixed_tokens
from holdfast.testing import Rehearsal, call, calls, say


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order * 40


def words(messages):
    return [message["content"] for message in messages if message["role"] == "user"]


async def test_a_long_conversation_goes_on_in_a_window_of_200_tokens():
    desk = Agent(name="desk", model="own/model", context=Context(budget=200, keep=1))
    said = [f"{n} is a number that I tell you of" for n in range(30)]
    async with Rehearsal(desk, model=[say(f"{n}") for n in range(30)]) as rehearsal:
        for one in said:
            assert (await rehearsal.send(one)).status is Status.IDLE
        view, result = await rehearsal.context(), await rehearsal.result()
    assert words(result.messages) == said
    assert words(result.prompts[-1])[-1] == said[-1]
    assert all(words(prompt) == said[said.index(words(prompt)[0]) :][: len(words(prompt))] for prompt in result.prompts)
    assert 1 <= len(words(result.prompts[-1])) < 10
    assert view.tokens <= view.budget == 140
    assert view.left_out[0].rule == "truncated"


async def test_a_message_that_is_too_large_fails_its_turn_with_the_numbers_and_the_next_turn_goes_on():
    desk = Agent(name="desk", model="own/model", context=Context(budget=200))
    async with Rehearsal(desk, model=[say("Fine.")]) as rehearsal:
        failed = await rehearsal.send("x" * 2000)
        assert (failed.status, failed.events[-1].body.reason) == (Status.FAILED, FailureReason.CONTEXT_OVERFLOW)
        assert "about 610 tokens, 140 are left of Context.budget" in failed.error
        assert not failed.prompts
        assert not (await rehearsal.context()).fits
        result = await rehearsal.send("short")
        assert result.reply == "Fine."
        assert words(result.prompts[0]) == ["short"]


async def test_a_model_reads_stubs_of_results_that_are_old_and_the_conversation_keeps_them():
    desk = Agent(
        name="desk", model="own/model", tools=[look_up], context=Context(budget=4000, retain={"look_up": Retain(count=1)})
    )
    script = [one for n in range(12) for one in (call("look_up", {"order": f"{n}-order"}), say("Done."))]
    async with Rehearsal(desk, model=script) as rehearsal:
        for n in range(12):
            result = await rehearsal.send(str(n))
        view = await rehearsal.context()
    sent = [one["content"] for one in result.prompts[-1] if one["role"] == "tool"]
    assert '"left_out"' in sent[0]
    assert "11-order" in sent[-1]
    assert not [one for one in result.messages if "left_out" in str(one["content"])]
    assert {one.rule for one in view.left_out} == {"retain"}


@tool
def logs(service: str) -> str:
    """The log of a service."""
    return "\n".join(f"{service} line {number}: {'x' * 30}" for number in range(200))


def results(messages):
    return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


async def test_a_model_reads_on_in_a_preview_within_some_200_tokens_of_messages():
    desk = Agent(name="desk", model="own/model", tools=[logs], context=Context(budget=700, preview=100, keep=1))
    script = [
        call("logs", {"service": "web"}, id="c1"),
        call("read_result", {"call": "c1", "find": "line 150"}, id="c2"),
        call("read_result", {"call": "c1", "offset": 6660, "limit": 60}, id="c3"),
        say("It was x."),
    ]
    async with Rehearsal(desk, model=script) as rehearsal:
        result = await rehearsal.send("What was in line 150?")
        view = await rehearsal.context()
    assert (result.status, result.reply) == (Status.IDLE, "It was x.")
    assert 180 < view.budget - fixed_tokens(desk.spec) < 240
    (shown,) = results(result.prompts[1])
    assert (shown["preview"], shown["call"], shown["lines"]) == (logs("web")[:100], "c1", 200)
    assert results(result.prompts[2])[-1]["result"]["places"][0]["line"] == 151
    whole, _, page = results(result.messages)
    assert whole["result"] == logs("web"), "the conversation keeps the whole result"
    assert page["result"]["text"] == logs("web")[6660:6720]
    assert [(run.tool, run.ok) for run in result.runs] == [("logs", True), ("read_result", True), ("read_result", True)]
    assert view.fits


async def test_the_context_says_which_results_are_previews():
    desk = Agent(name="desk", model="own/model", tools=[logs], context=Context(budget=9000))
    async with Rehearsal(desk, model=[call("logs", {"service": "web"}, id="c1"), say("Long.")]) as rehearsal:
        await rehearsal.send("Look.")
        view = await rehearsal.context()
    (left,) = view.left_out
    assert (left.first, left.last, left.rule, left.tool_call_id) == (2, 2, "preview", "c1")
    assert left.tokens > 2000
    assert "preview" in json.loads(view.messages[2]["content"])


@pytest.mark.parametrize(
    ("rules", "decide"),
    [
        (Rules(deny=["read_result"]), None),
        (Rules(ask=["read_result"]), {"read_result": Approve({"call": "c1", "limit": 9})}),
        (Rules(default="deny", allow=["logs", "read_result"]), None),
    ],
    ids=["denied", "asked", "allowed"],
)
async def test_rules_and_approvals_are_about_read_result_as_about_every_tool(rules, decide, request):
    script = [call("logs", {"service": "web"}, id="c1"), call("read_result", {"call": "c1"}, id="c2"), say("Done.")]
    desk = Agent(name="desk", model="own/model", tools=[logs], context=Context(budget=9000), rules=rules)
    async with Rehearsal(desk, model=script, decide=decide) as rehearsal:
        result = await rehearsal.send("Go.")
    said = results(result.messages)[1]
    match request.node.callspec.id:
        case "denied":
            assert "denied by the rule" in said["error"]
        case "asked":
            assert (said["result"]["text"], said["edited_arguments"]) == ("web line ", {"call": "c1", "limit": 9})
        case _:
            assert said["result"]["end"] == 4000


@tool(approval="required")
def restart(service: str) -> str:
    """Restart a service."""
    return f"restarted {service}"


async def test_in_a_batch_read_result_waits_for_the_decisions_as_every_tool_does():
    both = calls(call("read_result", {"call": "c1"}, id="c2"), call("restart", {"service": "web"}, id="c3"))
    script = [call("logs", {"service": "web"}, id="c1"), both, say("Done.")]
    desk = Agent(name="desk", model="own/model", tools=[logs, restart], context=Context(budget=9000), execution="batch")
    async with Rehearsal(desk, model=script) as rehearsal:
        result = await rehearsal.send("Go.")
        assert [run.tool for run in result.runs] == ["logs"]
        (waiting,) = result.pending
        result = await rehearsal.resolve(waiting, Approve())
    assert sorted(run.tool for run in result.runs) == ["logs", "read_result", "restart"]
    assert result.reply == "Done."
