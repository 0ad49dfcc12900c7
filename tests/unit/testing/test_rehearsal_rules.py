"""A rehearsal under permission rules: those of app and agent together judge each call, as a worker does."""

import json

import pytest

from holdfast import Agent, App, Approve, Deny, Rule, Rules, Status, SuspensionKind, Tool, tool
from holdfast.agent import TurnContext
from holdfast.testing import Rehearsal, call, calls, run, run_sync, say

NO_RM = Rule("shell(rm *)", name="no-rm", reason="Move it to trash/ instead.")
DENIED = {"ok": False, "error": "denied by the rule 'no-rm': Move it to trash/ instead; it did not run"}


@tool(approval="required", primary="command")
async def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool
async def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


@tool(executor="human")
def ask(question: str) -> str:
    """Ask the customer."""


def desk(rules=None, *, tools=(shell, look_up, ask)):
    return Agent(name="desk", tools=tools, rules=rules)


def results(result):
    """What the model read of its calls."""
    return [json.loads(message["content"]) for message in result.messages if message["role"] == "tool"]


def by_rule(result, kind):
    """The rules that events of a kind name."""
    return [event.body.rule for event in result.events if event.kind == kind]


async def test_a_denied_call_tells_its_rule_and_its_reason_and_no_body_runs():
    result = await run(desk(Rules(deny=[NO_RM])), "Clean up.", model=[call("shell", {"command": "rm -rf ~"}), "I cannot."])
    assert (result.status, result.reply) == (Status.IDLE, "I cannot.")
    assert results(result) == [DENIED]
    assert result.runs == []
    assert by_rule(result, "call_resolved") == ["no-rm"]


async def test_a_call_that_a_rule_asks_about_waits_and_runs_once_after_its_approval():
    rules = Rules(ask=[Rule('look_up(order ~ "secret-*")', name="secret orders")])
    model = [calls(call("look_up", {"order": "secret-7"}), call("look_up", {"order": "A-1"})), "Both paid."]
    asked = []
    result = await run(desk(rules), "Paid?", model=model, decide={"look_up": lambda shown: asked.append(shown) or Approve()})
    assert [(shown.kind, shown.arguments) for shown in asked] == [(SuspensionKind.APPROVAL, {"order": "secret-7"})]
    assert by_rule(result, "call_suspended") == ["secret orders"]
    assert [one["ok"] for one in results(result)] == [True, True]
    assert sorted(one.arguments["order"] for one in result.runs) == ["A-1", "secret-7"]


@pytest.mark.parametrize(("pattern", "lifts"), [("shell(npm *)", True), ("shell", True), ("she*", False), ("*", False)])
async def test_a_rule_lifts_a_tools_own_approval_only_where_it_names_the_tool_in_full(pattern, lifts):
    model = [call("shell", {"command": "npm test"}), "Done."]
    result = await run(desk(Rules(allow=[pattern])), "Test.", model=model)
    assert result.status is (Status.IDLE if lifts else Status.AWAITING_INPUT)
    assert len(result.runs) == lifts
    assert by_rule(result, "run_scheduled") == [pattern] * lifts


async def test_rules_of_the_app_and_of_the_agent_hold_together():
    app = App(agents=[desk()], rules=Rules(deny=[NO_RM], default="deny"))
    agent = desk(Rules(allow=["shell(ls *)"], default="allow"))
    asked = [call("shell", {"command": command}) for command in ("rm -rf ~", "ls src", "make clean")]
    result = await run(agent, "Go.", model=[calls(*asked, call("look_up", {"order": "A-1"})), "Done."], app=app)
    assert [shown.arguments for shown in result.pending] == [{"command": "make clean"}]  # as the tool itself has it
    assert {event.body.rule for event in result.events if event.kind == "call_resolved"} == {"no-rm", ""}
    assert [one.arguments for one in result.runs] == [{"command": "ls src"}, {"order": "A-1"}]
    assert {event.body.rule for event in result.events if event.kind in ("call_held", "run_scheduled")} == {"shell(ls *)", ""}


async def test_a_default_that_denies_leaves_only_what_is_allowed():
    model = [calls(call("look_up", {"order": "A-1"}), call("ask", {"question": "?"})), "Done."]
    result = await run(desk(Rules(allow=["look_up"], default="deny")), "Go.", model=model)
    assert results(result) == [
        {"ok": True, "result": "A-1 is paid"},
        {"ok": False, "error": "denied by the permission rules; it did not run"},
    ]


async def test_a_persons_tool_can_be_denied_and_nothing_else():
    model = [call("ask", {"question": "?"}), "Done."]
    denied = await run(desk(Rules(deny=["ask"])), "Go.", model=model)
    assert by_rule(denied, "call_resolved") == ["ask"]
    for rules in (Rules(ask=["ask"]), Rules(allow=["ask"])):
        waiting = await run(desk(rules), "Go.", model=model)
        assert [shown.kind for shown in waiting.pending] == [SuspensionKind.ELICITATION]


async def test_arguments_that_do_not_fit_are_told_before_any_rule():
    result = await run(desk(Rules(deny=[NO_RM])), "Go.", model=[call("shell", {"cmd": "rm x"}), "Done."])
    (read,) = results(result)
    assert read["error"].startswith("invalid arguments")


async def test_an_approval_with_other_arguments_is_judged_by_them():
    rules = Rules(deny=[NO_RM])
    edited = {"shell": Approve({"command": "rm -rf ~"})}
    result = await run(desk(rules), "Go.", model=[call("shell", {"command": "ls"}), "Done."], decide=edited)
    (read,) = results(result)
    assert "denied by the rule 'no-rm'" in json.dumps(read)
    assert result.runs == []


async def test_a_denial_of_a_person_stays_one_under_rules_that_ask():
    rules = Rules(ask=["look_up"])
    model = [call("look_up", {"order": "A-1"}), "Done."]
    result = await run(desk(rules), "Go.", model=model, decide={"look_up": Deny("not now")})
    assert by_rule(result, "call_resolved") == [""]
    assert result.runs == []


async def test_a_run_that_is_lost_under_rules_runs_again_without_another_question():
    asked = []
    result = await run(
        desk(Rules(ask=["look_up"])),
        "Go.",
        model=[call("look_up", {"order": "A-1"}), "Done."],
        decide={"look_up": lambda shown: asked.append(shown.kind) or Approve()},
        lose={"look_up": 1},
    )
    assert (asked, results(result)) == ([SuspensionKind.APPROVAL], [{"ok": True, "result": "A-1 is paid"}])
    assert [(one.attempt, one.lost) for one in result.runs] == [(1, True), (2, False)]


# -- approval= as a function --------------------------------------------------------------------------------------------


def paying(approval, rules=None):
    """An agent whose one tool has this function for its approval."""

    async def pay(amount: float) -> str:
        return f"paid {amount:g}"

    return desk(rules, tools=[Tool(name="pay", callback=pay, approval=approval)])


@pytest.mark.parametrize("said", [True, "required"])
async def test_a_function_of_the_arguments_says_whether_a_person_is_asked(said):
    agent = paying(lambda arguments: said if arguments["amount"] > 100 else "auto")
    model = [calls(call("pay", {"amount": 100}), call("pay", {"amount": 101})), "Done."]
    result = await run(agent, "Pay.", model=model)
    assert [shown.arguments for shown in result.pending] == [{"amount": 101}]


async def test_a_function_of_the_turn_is_given_the_conversation_its_agent_and_its_context():
    seen = []

    def approval(arguments, turn):
        seen.append((arguments, turn))
        return turn.context["limit"] < arguments["amount"]

    async with Rehearsal(
        paying(approval), model=[call("pay", {"amount": 7}), say("Done.")], context={"limit": 9}, conversation_id="c-1"
    ) as rehearsal:
        await rehearsal.post("Pay.")
        await rehearsal.rest()
        assert (await rehearsal.result()).reply == "Done."
    assert seen == [({"amount": 7}, TurnContext(conversation_id="c-1", agent="desk", context={"limit": 9}))]


@pytest.mark.parametrize("approval", [lambda given: given["nothing"], lambda _: "perhaps", lambda _: 0])
async def test_where_the_function_fails_or_says_neither_a_person_is_asked(approval):
    result = await run(paying(approval), "Pay.", model=[call("pay", {"amount": 7}), "Done."])
    assert [shown.arguments for shown in result.pending] == [{"amount": 7}]


def test_a_rule_that_names_the_tool_lifts_the_functions_approval_and_one_that_asks_goes_over_its_word():
    model = [call("pay", {"amount": 7}), "Done."]
    lifted = run_sync(paying(lambda _: True, Rules(allow=["pay"])), "Pay.", model=model)
    assert (lifted.reply, by_rule(lifted, "run_scheduled")) == ("Done.", ["pay"])
    asked = run_sync(paying(lambda _: False, Rules(ask=["pay"])), "Pay.", model=model)
    assert by_rule(asked, "call_suspended") == ["pay"]
