"""A conversation without a stack: turns, decisions, resources, hooks of the app, and what a live stack's log has too."""

import asyncio
import contextlib
import json
import threading

import pydantic
import pytest

from holdfast import (
    Agent,
    Answer,
    App,
    Approve,
    Deny,
    Fail,
    Limits,
    StaleCall,
    Status,
    SuspensionKind,
    Tool,
    ToolContext,
    tool,
)
from holdfast.testing import Rehearsal, Replay, call, calls, run, say


@tool
async def look_up(order: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order, "state": "paid"}


@tool(approval="required")
async def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} of {order}"


@tool(executor="human", response_schema=bool)
def ask(question: str) -> bool:
    """Ask the customer."""


locate = Tool(name="locate", executor="client", parameters={"type": "object"}, response_schema={"type": "string"})
share = Tool(name="share", executor="client", approval="required", parameters={"type": "object"})
DESK = Agent(name="desk", instructions="Be kind.", tools=[look_up, refund, ask, locate, share])
REFUND = call("refund", {"order": "A-1", "amount": 40}, id="call_1")


def results(result):
    """What the model read of its calls."""
    return [json.loads(message["content"]) for message in result.messages if message["role"] == "tool"]


async def test_three_turns_run_in_the_process():
    result = await run(
        DESK, "Where is A-1?", "And A-2?", "Thanks", model=[call("look_up", {"order": "A-1"}), *("Paid.", "Gone.", "Bye.")]
    )
    assert (result.status, result.reply, result.replies_left) == (Status.IDLE, "Bye.", 0)
    spoken = [message["content"] for message in result.messages if message["role"] != "tool" and message["content"]]
    assert spoken == ["Where is A-1?", "Paid.", "And A-2?", "Gone.", "Thanks", "Bye."]
    assert [(one.tool, one.arguments, one.result) for one in result.runs] == [
        ("look_up", {"order": "A-1"}, {"order": "A-1", "state": "paid"})
    ]
    assert [receipt.seq for receipt in result.receipts] == sorted(receipt.seq for receipt in result.receipts)


async def test_the_events_are_those_of_a_live_stack():
    result = await run(DESK, "Where?", model=[call("look_up", {"order": "A-1"}), "Paid."])
    assert [event.seq for event in result.events] == list(range(1, len(result.events) + 1))
    assert result.kinds == [  # as test_events_come_without_gaps_from_any_cursor_and_deltas_are_live has them of Redis and Ray
        "conversation_started",
        "message_accepted",
        "turn_started",
        "model_answered",
        "run_scheduled",
        "call_resolved",
        "model_answered",
        "turn_completed",
    ]


async def test_the_model_is_sent_what_a_worker_sends():
    result = await run(DESK, "Where?", model=[call("look_up", {"order": "A-1"}, id="c1"), "Paid."])
    assert [[message["role"] for message in prompt] for prompt in result.prompts] == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
    ]
    assert result.prompts[0][0]["content"] == "Be kind."


async def test_a_call_that_nobody_decides_waits_as_it_is_shown():
    result = await run(DESK, "Refund", model=[REFUND])
    (shown,) = result.pending
    assert (result.status, shown.tool, shown.kind) == (Status.AWAITING_INPUT, "refund", SuspensionKind.APPROVAL)
    assert (shown.arguments, result.runs) == ({"order": "A-1", "amount": 40}, [])


@pytest.mark.parametrize(
    ("decision", "read"),
    [
        (Approve(), {"ok": True, "result": "refunded 40.00 of A-1"}),
        (Approve({"order": "A-1", "amount": 30}), {"ok": True, "result": "refunded 30.00 of A-1"}),
        (Deny("too much"), {"ok": False, "error": "the user denied this call: too much"}),
    ],
    ids=["approved", "approved with edited arguments", "denied"],
)
async def test_an_approval_is_decided_by_a_function_of_the_pending_call(decision, read):
    asked = []

    def decide(shown):
        asked.append((shown.tool, shown.arguments))
        return decision

    result = await run(DESK, "Refund", model=[REFUND, "Done."], decide=decide)
    assert asked == [("refund", {"order": "A-1", "amount": 40})]
    assert result.reply == "Done."
    (told,) = results(result)
    assert told["ok"] is read["ok"]
    assert told.get("result") == read.get("result")
    assert ("too much" in str(told)) is (not read["ok"])


async def test_decisions_are_a_mapping_from_tools_too():
    async def answer(shown):
        await asyncio.sleep(0)
        return Answer(shown.arguments["question"] == "Really?")

    script = [calls(REFUND, call("ask", {"question": "Really?"}), call("locate", {})), "Done."]
    result = await run(DESK, "Go", model=script, decide={"refund": Approve(), "ask": answer, "locate": Answer("here")})
    assert [one["result"] for one in results(result)] == ["refunded 40.00 of A-1", True, "here"]
    assert len(result.receipts) == 4


async def test_what_a_mapping_does_not_name_waits():
    result = await run(DESK, "Go", model=[calls(REFUND, call("ask", {"question": "?"}))], decide={"refund": Approve()})
    assert [shown.tool for shown in result.pending] == ["ask"]


async def test_a_client_tool_is_answered_or_fails():
    result = await run(DESK, "Go", model=[call("locate", {}), "Sorry."], decide={"locate": Fail("no signal")})
    (told,) = results(result)
    assert told["ok"] is False
    assert "no signal" in told["error"]


async def test_a_gated_client_tool_is_decided_twice():
    kinds = []

    def decide(shown):
        kinds.append(shown.kind)
        return Approve() if shown.kind is SuspensionKind.APPROVAL else Answer("done")

    assert (await run(DESK, "Go", model=[call("share", {}), "Shared."], decide=decide)).reply == "Shared."
    assert kinds == ["approval", "client_exec"]


async def test_a_pending_call_is_decided_step_by_step_and_once():
    async with Rehearsal(DESK, model=[REFUND, "Done."]) as conversation:
        (shown,) = (await conversation.send("Refund")).pending
        receipt = await shown.resolve(Approve(), decision_id="d-1")
        assert (await conversation.rest()).reply == "Done."
        assert (await shown.resolve(Approve(), decision_id="d-1")).seq == receipt.seq
        with pytest.raises(StaleCall):
            await conversation.resolve(shown, Deny())


async def test_an_argument_that_the_signature_refuses_is_told_to_the_model_and_nobody_is_asked():
    result = await run(
        DESK, "Go", model=[call("refund", {"order": "A-1", "amount": "much"}), "I see."], decide={"refund": Approve()}
    )
    (told,) = results(result)
    assert "amount" in told["error"]
    assert len(result.receipts) == 1
    assert result.runs == []


async def test_a_prompt_is_rendered_as_a_worker_renders_it():
    async def pay(amount: int) -> None:
        pass

    agent = Agent(name="a", tools=[Tool(callback=pay, approval="required", prompt=lambda given: f"Pay {given['amount']}?")])
    (shown,) = (await run(agent, "Go", model=[call("pay", {"amount": 3})])).pending
    assert shown.prompt == "Pay 3?"


@pytest.mark.parametrize(("tier", "waits"), [("gold", False), ("tin", True)])
async def test_an_approval_by_function_reads_the_arguments_and_the_turn_as_in_a_worker(tier, waits):
    async def pay(amount: int) -> str:
        return "paid"

    gated = Tool(callback=pay, approval=lambda given, turn: given["amount"] > 2 and turn.context["tier"] != "gold")
    result = await run(
        Agent(name="a", tools=[gated]), "Go", model=[call("pay", {"amount": 3}), "Done."], context={"tier": tier}
    )
    assert [one.tool for one in result.pending] == (["pay"] if waits else [])
    assert [one.result for one in result.runs] == ([] if waits else ["paid"])


async def test_a_tool_that_raises_is_told_to_the_model_as_the_agent_says():
    async def broken() -> None:
        raise ValueError("the database is away")

    script = [call("broken", {}), "Sorry."]
    full = await run(Agent(name="a", tools=[broken]), "Go", model=script)
    typed = await run(Agent(name="a", tools=[broken], errors="type"), "Go", model=script)
    own = await run(Agent(name="a", tools=[broken], errors=lambda error: f"our words: {error!r}"), "Go", model=script)
    assert [one.runs[0].ok for one in (full, typed, own)] == [False] * 3
    assert "the database is away" in full.runs[0].result
    assert typed.runs[0].result == "ValueError"
    assert own.runs[0].result == "our words: ValueError('the database is away')"
    assert own.reply == "Sorry."


async def test_a_plain_function_runs_in_a_thread_of_its_own():
    where = []

    def blocking() -> str:
        where.append(threading.current_thread())
        return "done"

    result = await run(Agent(name="a", tools=[blocking]), "Go", model=[call("blocking", {}), "Done."])
    assert (result.runs[0].result, result.reply) == ("done", "Done.")
    assert where[0] is not threading.main_thread()


async def test_a_body_finds_its_context_and_its_resources():
    seen = []

    async def peek(context: ToolContext) -> None:
        seen.append((context.context, context.resources, context.attempt, context.turn_id))

    agent = Agent(name="a", tools=[peek])
    await run(agent, "Go", model=[call("peek", {}), "Done."], context={"user": 7}, resources="a database")
    assert seen == [({"user": 7}, "a database", 1, "t1")]


async def test_the_lifespan_of_an_app_is_entered_and_left():
    steps = []

    @contextlib.asynccontextmanager
    async def lifespan():
        steps.append("opened")
        yield {"rate": 3}
        steps.append("closed")

    async def rate(context: ToolContext) -> int:
        steps.append("ran")
        return context.resources["rate"]

    agent = Agent(name="a", tools=[rate])
    result = await run(agent, "Go", model=[call("rate", {}), "Done."], app=App(agents=[agent], lifespan=lifespan))
    assert result.runs[0].result == 3
    assert steps == ["opened", "ran", "closed"]


async def test_a_streaming_tool_may_report():
    async def count(context: ToolContext) -> int:
        context.report_progress(1, message="one")
        await asyncio.sleep(0)
        return 2

    agent = Agent(name="a", tools=[Tool(callback=count, streaming=True)])
    assert (await run(agent, "Go", model=[call("count", {}), "Done."])).runs[0].result == 2


async def test_a_pydantic_argument_arrives_as_its_model():
    class Order(pydantic.BaseModel):
        number: int

    async def ship(order: Order) -> int:
        return order.number + 1

    result = await run(Agent(name="a", tools=[ship]), "Go", model=[call("ship", {"order": {"number": 6}}), "Done."])
    assert result.runs[0].result == 7


async def test_a_model_is_a_function_of_the_messages():
    def model(messages):
        return say("Done.") if messages[-1]["role"] == "tool" else call("look_up", {"order": messages[-1]["content"]})

    assert (await run(DESK, "A-7", model=model)).runs[0].arguments == {"order": "A-7"}


async def test_a_model_is_an_async_function_too():
    async def model(messages):
        await asyncio.sleep(0)
        return f"You said {messages[-1]['content']}."

    assert (await run(DESK, "hello", "more", model=model)).reply == "You said more."


async def test_a_model_is_a_recording_too():
    recorded = [{"role": "user", "content": "Hi"}, say("Hello."), {"role": "user", "content": "Bye"}, say("See you.")]
    assert (await run(DESK, "Hi", "Bye", model=Replay([recorded]))).reply == "See you."


async def test_a_model_that_fails_fails_its_turn_and_the_next_message_begins_another():
    async with Rehearsal(DESK, model=[RuntimeError("overloaded"), "Better now."]) as conversation:
        failed = await conversation.send("Hi")
        assert (failed.status, failed.error, failed.state.failed) == (Status.FAILED, "RuntimeError: overloaded", "model_error")
        again = await conversation.send("Hi?")
        assert (again.status, again.reply) == (Status.IDLE, "Better now.")


async def test_an_answer_that_was_cut_off_runs_no_call():
    cut = {**call("look_up", {"order": "A-1"}), "finish_reason": "length"}
    result = await run(DESK, "Go", model=[cut, "Then not."])
    assert (result.runs, result.reply) == ([], "Then not.")
    assert "cut off" in results(result)[0]["error"]
    assert (await run(DESK, "Go", model=[cut] * 3)).state.failed == "length"


async def test_an_answer_beyond_the_limits_fails_the_turn():
    agent = Agent(name="a", limits=Limits(reply_bytes=1024))
    result = await run(agent, "Go", model=["x" * 2000])
    assert (result.status, result.state.failed) == (Status.FAILED, "reply_bytes")


async def test_a_model_that_calls_for_ever_ends_at_the_agents_limit():
    agent = Agent(name="a", tools=[look_up], limits=Limits(max_model_calls=4))
    result = await run(agent, "Go", model=lambda _: call("look_up", {"order": "A-1"}))
    assert len(result.prompts) == 4
    assert result.status is not Status.EXECUTING_TOOLS


async def test_a_message_during_a_turn_queues():
    async with Rehearsal(DESK, model=[REFUND, "One.", "Two."]) as conversation:
        (shown,) = (await conversation.send("first")).pending
        await conversation.post("second")
        result = await conversation.resolve(shown, Approve())
        assert [message["content"] for message in result.messages if message["role"] == "user"] == ["first", "second"]
        assert result.reply == "Two."


async def test_a_turn_is_cancelled_and_a_conversation_ended():
    async with Rehearsal(DESK, model=[REFUND, "Next."]) as conversation:
        await conversation.send("Refund")
        assert (await conversation.cancel()).status is Status.IDLE
        assert (await conversation.send("Hi")).reply == "Next."
        ended = await conversation.end()
        assert (ended.status, ended.kinds[-1]) == (Status.ENDED, "conversation_ended")


async def test_two_rehearsals_side_by_side_know_nothing_of_each_other():
    both = await asyncio.gather(run(DESK, "a", model=["One."]), run(DESK, "b", model=["Two."]))
    assert [one.reply for one in both] == ["One.", "Two."]


async def test_nothing_of_a_rehearsal_goes_on_after_it():
    before = asyncio.all_tasks()
    async with Rehearsal(DESK, model=["One."]) as conversation:
        await conversation.send("a")
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
