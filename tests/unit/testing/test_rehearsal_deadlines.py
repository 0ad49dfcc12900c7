"""Deadlines as an agent declares them, of rules and of reviews, through the worker's way to the end of the turn."""

import json

from holdfast.agent import Agent, Limits, Rule, Rules, Suspend, tool
from holdfast.conversation import Answer, Deny, Escalate
from holdfast.testing import BlockingRehearsal, call, say


@tool
def pay(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"


@tool
def draft(text: str) -> str:
    """Draft a letter, which somebody rates."""
    late = Escalate(["role:editor"], for_s=5, then=Answer(3))
    raise Suspend(f"Rate {text}", response_schema={"type": "integer"}, expires_s=10, on_timeout=late, reminders_s=[2])


LATE = Escalate(["role:cfo"], for_s=50, then=Deny("nobody was there"))
DESK = Agent(
    name="desk",
    tools=[pay, draft],
    rules=Rules(ask=[Rule("pay", on_timeout=LATE, reminders_s=[20])]),
    limits=Limits(approval_timeout_s=100),
)


def results(found):
    return [json.loads(message["content"]) for message in found.messages if message["role"] == "tool"]


def test_a_rule_that_asks_says_who_is_asked_next_and_what_decides_in_the_end():
    with BlockingRehearsal(DESK, model=[call("pay", {"amount": 40}), say("Not paid.")]) as conversation:
        (waiting,) = conversation.send("Pay 40.").pending
        (later,) = conversation.advance(100).pending
        done = conversation.advance(50)
    assert (waiting.rule, waiting.approvers) == ("pay", None)
    assert (later.suspension_id, later.approvers.who) == (waiting.suspension_id, (("role:cfo",),))
    assert results(done)[0]["error"].endswith("nobody was there")
    assert (done.reply, done.runs) == ("Not paid.", [])


def test_a_review_that_nobody_gives_has_the_answer_of_its_body():
    with BlockingRehearsal(DESK, model=[call("draft", {"text": "hello"}), say("Sent.")]) as conversation:
        conversation.send("Write.")
        (later,) = conversation.advance(10).pending
        done = conversation.advance(5)
    assert later.approvers.who == (("role:editor",),)
    assert results(done) == [{"ok": True, "result": 3}]
    assert done.reply == "Sent."
