"""Bodies that ask for a person's word, in a rehearsal: the real machine, activation and run of the body."""

import asyncio
import contextlib
import json
from typing import Annotated

import pytest
from pydantic import AfterValidator

from holdfast import Agent, Answer, Approve, Cancel, Limits, Redispatch, Review, Suspend, Tool, ToolContext, tool
from holdfast.testing import call, calls, run, say

REVIEWED = "holdfast.human_review_decision"
SEEN = []
RUNNING = {}


def once(body, **options):
    """An agent with one tool, and a model that calls it once."""
    return Agent(name="desk", tools=[Tool(name="pay", callback=body, **options)], limits=Limits(result_bytes=2000))


async def told(agent, decide, *, lose=None, arguments=None):
    """What the agent reads as the call's result, and the run's log."""
    found = await run(agent, "hello", model=[call("pay", arguments or {}), say("done")], decide=decide, lose=lose)
    return found.runs, found


async def results(agent, decide, **options):
    ran, found = await told(agent, decide, **options)
    return ran, [event for event in found.events if event.kind == "call_resolved"]


def of(event):
    return json.loads(event.body.content)


async def asks_first(context: ToolContext):
    SEEN.append((context.attempt, context.decision))
    if context.decision is None:
        raise Suspend("Pay 5?", message="May it?", payload={"amount": 5}, resume="pass_to_tool", response_schema={})
    return type(context.decision).__name__


def asks_in_a_thread(context: ToolContext):
    if context.decision is None:
        raise Suspend("Pay 5?", resume="pass_to_tool")
    return context.decision.notes


async def asks_in_a_group():
    async with asyncio.TaskGroup() as group:
        group.create_task(_ask())


async def _ask():
    raise Suspend("Pay 5?")


async def asks():
    try:
        await _ask()
    except Exception:  # noqa: BLE001 - as bodies do
        return "nobody was asked"


@pytest.mark.parametrize("body", [asks, asks_in_a_group])
async def test_the_persons_word_is_the_result_whatever_the_body_catches_of_its_own(body):
    ran, [resolved] = await results(once(body), {"pay": Review("block", "too much")})
    assert of(resolved) == {"ok": True, "result": {"_kind": REVIEWED, "decision": "block", "notes": "too much"}}
    assert ran == []


@pytest.mark.parametrize("decision", [Review("allow", "fine"), Answer({"ok": 1})])
async def test_a_body_that_goes_on_reads_the_decision_and_is_a_first_attempt_still(decision):
    SEEN.clear()
    _, [resolved] = await results(once(asks_first), {"pay": decision})
    assert of(resolved) == {"ok": True, "result": type(decision).__name__}
    assert [(1, None), (1, decision)] == SEEN


async def test_a_body_in_a_thread_suspends_as_well():
    _, [resolved] = await results(once(asks_in_a_thread), {"pay": Review("allow", "fine")})
    assert of(resolved)["result"] == "fine"


async def test_a_resumed_body_that_is_lost_runs_again_with_the_decision_and_counts_as_lost():
    SEEN.clear()
    agent = once(asks_first, on_lost="redispatch")
    decisions = iter([Review("allow")])
    _, [resolved] = await results(agent, {"pay": lambda _: next(decisions)}, lose={"pay": 1})
    assert of(resolved)["ok"] is True
    assert [(1, None), (2, None), (2, Review("allow"))] == SEEN


async def catches_everything():
    try:
        await _ask()
    except BaseException:  # noqa: BLE001 - as bodies should not
        return "paid without asking"


async def test_a_body_that_catches_everything_around_it_has_failed_and_says_so():
    ran, [resolved] = await results(once(catches_everything), None)
    assert of(resolved)["ok"] is False
    assert "went on without a decision" in of(resolved)["error"]
    assert [one.ok for one in ran] == [False]


async def test_what_is_too_much_to_show_is_an_error_that_the_model_reads():
    async def asks():
        raise Suspend("Look", report_md="x" * 3000)

    _, [resolved] = await results(once(asks), None)
    assert "Limits.result_bytes" in of(resolved)["error"]


@pytest.mark.parametrize(("seconds", "ok"), [(59, True), (60, False)])
async def test_a_reminder_is_no_earlier_than_a_wait_that_lasts_as_long_as_an_approval(seconds, ok):
    async def asks():
        raise Suspend("Look", reminders_s=[seconds])

    agent = Agent(name="desk", tools=[Tool(name="pay", callback=asks)], limits=Limits(approval_timeout_s=60))
    _, [resolved] = await results(agent, {"pay": Review("allow")})
    assert of(resolved)["ok"] is ok
    assert ok or "Suspend.reminders_s: a call waits for 60 s" in of(resolved)["error"]


async def test_arguments_that_were_edited_are_told_to_the_model():
    @tool(approval="required")
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    agent = Agent(name="desk", tools=[pay])
    _, [resolved] = await results(agent, {"pay": Approve({"amount": 3}, reason="half")}, arguments={"amount": 6})
    assert of(resolved) == {"ok": True, "result": "paid 3", "edited_arguments": {"amount": 3}}


async def test_a_tool_with_pass_to_tool_reads_who_decided_what():
    async def pay(context: ToolContext) -> str:
        return f"{context.decision!r} {context.requester} {context.approver}"

    agent = once(pay, approval="required", resume="pass_to_tool", decisions=["approve", "answer"], response_schema={})
    _, [resolved] = await results(agent, {"pay": Answer(7, reason="counted")})
    assert of(resolved)["result"] == "Answer(value=7, reason='counted') None None"


async def test_a_cancelled_call_ends_alone_and_the_turn_goes_on():
    found = await run(
        once(asks), "hello", model=[calls(call("pay", {}), call("pay", {})), say("done")], decide={"pay": Cancel("not today")}
    )
    assert found.reply == "done"
    assert all("not today" in of(event)["error"] for event in found.events if event.kind == "call_resolved")


async def test_in_sequence_bodies_run_one_after_the_other():
    running, most = set(), []

    async def pay(n: int) -> int:
        running.add(n)
        most.append(len(running))
        await asyncio.sleep(0)
        running.discard(n)
        return n

    agent = Agent(name="desk", tools=[Tool(name="pay", callback=pay)], execution="sequential")
    found = await run(agent, "go", model=[calls(*(call("pay", {"n": n}) for n in range(4))), say("done")])
    assert most == [1, 1, 1, 1]
    assert [one.result for one in found.runs] == [0, 1, 2, 3]


async def test_a_redispatched_run_is_another_attempt():
    async def pay(context: ToolContext) -> int:
        return context.attempt

    agent = once(pay, on_lost="ask")
    _, [resolved] = await results(agent, {"pay": Redispatch(reason="nothing was booked")}, lose={"pay": 1})
    assert of(resolved)["result"] == 2


class Unmade(Suspend):
    def __init__(self):
        pass


async def unmade():
    raise Unmade


async def changed():
    asked = Suspend("Pay 5?")
    asked.terms = 5
    raise asked


def in_a_group_of_a_thread():
    raise BaseExceptionGroup("one", [Suspend("Pay 5?")])


@pytest.mark.parametrize("body", [unmade, changed])
async def test_a_suspend_that_asks_for_nothing_is_an_error_and_its_body_runs_once(body):
    ran, [resolved] = await results(once(body), None)
    assert of(resolved)["ok"] is False
    assert "asks for nothing" in of(resolved)["error"]
    assert len(ran) == 1


async def test_a_body_in_a_thread_suspends_out_of_a_group_too():
    _, [resolved] = await results(once(in_a_group_of_a_thread), {"pay": Review("allow")})
    assert of(resolved)["result"]["decision"] == "allow"


async def test_a_task_that_outlives_its_run_charges_nothing_to_it():
    asked = asyncio.Queue()

    async def loads():
        while True:
            asked.get_nowait() if not asked.empty() else await asked.get()
            with contextlib.suppress(Suspend):
                await _ask()

    async def pay(n: int) -> int:
        tasks = RUNNING.setdefault("task", [])
        if not tasks:
            tasks.append(asyncio.create_task(loads()))
        elif n == 2:
            asked.put_nowait(n)
            await asyncio.sleep(0)
        return n

    RUNNING.clear()
    agent = Agent(name="desk", tools=[Tool(name="pay", callback=pay)], execution="sequential")
    found = await run(agent, "go", model=[calls(*(call("pay", {"n": n}) for n in (1, 2))), say("done")])
    RUNNING["task"][0].cancel()
    assert [one.result for one in found.runs] == [1, 2]


def _suspends(_arguments):
    raise Suspend("in a prompt")


async def test_a_prompt_that_raises_it_is_only_no_prompt():
    async def pay() -> str:
        return "paid"

    shown = []

    def decide(pending):
        shown.append(pending.prompt)
        return Approve()

    _, [resolved] = await results(once(pay, approval="required", prompt=_suspends), decide)
    assert of(resolved)["result"] == "paid"
    assert shown == [None]


async def test_a_validator_that_raises_it_makes_the_arguments_invalid():
    async def pay(order: Annotated[str, AfterValidator(_suspends)]) -> str:
        return order

    _, [resolved] = await results(once(pay), None, arguments={"order": "A1"})
    assert "a validator raised Suspend" in of(resolved)["error"]
