"""What becomes of a call by the rules in force: when the model asks for it, and right before its run."""

from dataclasses import replace

import pytest

from holdfast.actors.worker.gate import UNREADABLE, proposed, required_again, stopped
from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, Rule, Rules, Tool, TurnContext
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict

ANA = TurnContext(conversation_id="c-1", agent="desk", requester=Principal(id="ana"))
NO_RULES = Rules()
GIVEN = {"command": "npm test"}


def agent_with(approval="auto", **options):
    def bash(command: str = "npm test") -> str:
        """Run a command."""
        return command

    return Agent(
        name="desk", model="m", tools=[Tool(name="Bash", callback=bash, approval=approval, primary="command", **options)]
    )


AUTO, REQUIRED = agent_with(), agent_with("required")


def request(*, rule="", decided_at=0, tool="Bash"):
    return RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest="d",
        effect_id="call_1#1",
        turn_id="t1",
        tool_call_id="call_1",
        tool=tool,
        attempt=1,
        arguments_at=3,
        rule=rule,
        decided_at=decided_at,
        fulfilled=() if decided_at else None,
    )


def says(effect, rule="", reason=""):
    return RuleVerdict(effect=effect, rule=rule, reason=reason)


def raising(_arguments):
    raise KeyError("amount")


# -- proposed ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [AUTO, REQUIRED, None])
def test_without_rules_a_declaration_alone_says_what_becomes_of_a_call(agent):
    assert proposed(NO_RULES, agent, "Bash", GIVEN, ANA) is None
    assert proposed(NO_RULES, agent, "Bash", None, ANA) is None
    assert proposed(Rules(deny=["other"]), agent, "Bash", GIVEN, ANA) is None


@pytest.mark.parametrize("agent", [AUTO, REQUIRED, None])
def test_a_call_is_asked_about_where_the_rules_cannot_be_read(agent):
    assert proposed(None, agent, "Bash", GIVEN, ANA) == UNREADABLE
    assert UNREADABLE.effect is RuleEffect.ASK


@pytest.mark.parametrize("agent", [AUTO, REQUIRED, None])
def test_a_rule_that_denies_or_asks_is_named_with_its_reason(agent):
    rule = Rule("Bash(npm *)", name="npm", reason="Look first.")
    assert proposed(Rules(deny=[rule]), agent, "Bash", GIVEN, ANA) == says(RuleEffect.DENY, "npm", "Look first.")
    whole = Rule("Bash", name="npm", reason="Look first.")
    assert proposed(Rules(deny=[whole]), agent, "Bash", GIVEN, ANA) == says(RuleEffect.DENY, "npm", "Look first.")
    assert proposed(Rules(ask=[whole]), agent, "Bash", GIVEN, ANA) == says(RuleEffect.ASK, "npm", "Look first.")
    assert proposed(Rules(default="deny"), agent, "Bash", GIVEN, ANA) == says(RuleEffect.DENY)


def test_a_rule_that_names_the_tool_in_full_lifts_its_approval():
    assert proposed(Rules(allow=["Bash(npm *)"]), REQUIRED, "Bash", GIVEN, ANA) == says(RuleEffect.ALLOW, "Bash(npm *)")
    for rules in (Rules(allow=["B*"]), Rules(default="allow"), Rules(allow=["Bash(git *)"])):
        assert proposed(rules, REQUIRED, "Bash", GIVEN, ANA) is None


def test_a_default_asks_about_tools_that_want_no_approval():
    assert proposed(Rules(default="ask"), AUTO, "Bash", GIVEN, ANA) == says(RuleEffect.ASK)
    assert proposed(Rules(default="ask"), REQUIRED, "Bash", GIVEN, ANA) is None
    assert proposed(Rules(default="allow"), AUTO, "Bash", GIVEN, ANA) == says(RuleEffect.ALLOW)


@pytest.mark.parametrize("rules", [Rules(allow=["B*"]), Rules(default="allow"), Rules(allow=["Bash"])])
def test_nothing_is_lifted_of_a_tool_whose_declaration_is_not_known_here(rules):
    """The spec of the turn may want an approval, though the app has the tool no more."""
    assert proposed(rules, None, "Bash", GIVEN, ANA) is None
    assert proposed(rules, Agent(name="desk", model="m"), "Bash", GIVEN, ANA) is None


@pytest.mark.parametrize(
    ("said", "becomes"), [(True, None), ("required", None), (False, says(RuleEffect.ALLOW)), ("auto", says(RuleEffect.ALLOW))]
)
def test_a_function_says_whether_the_tool_wants_an_approval(said, becomes):
    assert proposed(NO_RULES, agent_with(lambda _: said), "Bash", GIVEN, ANA) == becomes


@pytest.mark.parametrize("approval", [raising, lambda _: "rubbish", lambda _: None])
def test_a_function_that_cannot_say_asks_and_is_lifted_as_any_approval_is(approval):
    assert proposed(NO_RULES, agent_with(approval), "Bash", GIVEN, ANA) is None
    assert proposed(Rules(default="allow"), agent_with(approval), "Bash", GIVEN, ANA) is None
    assert proposed(Rules(allow=["Bash"]), agent_with(approval), "Bash", GIVEN, ANA) == says(RuleEffect.ALLOW, "Bash")


def test_a_function_may_read_the_turn():
    agent = agent_with(lambda _arguments, turn: turn.requester.id != "ana")
    assert proposed(NO_RULES, agent, "Bash", GIVEN, ANA) == says(RuleEffect.ALLOW)
    bob = TurnContext(conversation_id="c-1", agent="desk", requester=Principal(id="bob"))
    assert proposed(NO_RULES, agent, "Bash", GIVEN, bob) is None


def test_a_function_that_wants_no_approval_lifts_no_rule():
    agent = agent_with(lambda _: False)
    assert proposed(Rules(ask=["Bash"]), agent, "Bash", GIVEN, ANA) == says(RuleEffect.ASK, "Bash")
    assert proposed(Rules(deny=["Bash"]), agent, "Bash", GIVEN, ANA) == says(RuleEffect.DENY, "Bash")
    assert proposed(Rules(default="ask"), agent, "Bash", GIVEN, ANA) == says(RuleEffect.ASK)
    assert proposed(Rules(default="deny"), agent, "Bash", GIVEN, ANA) == says(RuleEffect.DENY)


def test_arguments_that_cannot_be_read_are_caught_and_never_let_through():
    assert proposed(Rules(deny=["Bash(rm *)"]), AUTO, "Bash", None, ANA) == says(RuleEffect.DENY, "Bash(rm *)")
    assert proposed(Rules(ask=["Bash(rm *)"]), AUTO, "Bash", None, ANA) == says(RuleEffect.ASK, "Bash(rm *)")
    assert proposed(Rules(allow=["Bash(npm *)"]), AUTO, "Bash", None, ANA) == says(RuleEffect.ASK)
    assert proposed(NO_RULES, agent_with(lambda _: False), "Bash", None, ANA) is None, "the tool asks, as it is declared"


def test_the_default_of_an_argument_is_what_a_rule_sees():
    assert proposed(Rules(deny=["Bash(npm *)"]), AUTO, "Bash", {}, ANA) == says(RuleEffect.DENY, "Bash(npm *)")
    assert proposed(Rules(allow=["Bash(npm *)"]), REQUIRED, "Bash", {}, ANA) == says(RuleEffect.ALLOW, "Bash(npm *)")


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_a_persons_tool_can_be_denied_and_nothing_else(effect):
    agent = Agent(name="desk", model="m", tools=[Tool(name="ask", executor="human", description="Ask.")])
    found = proposed(Rules(**{effect: ["ask"]}), agent, "ask", {}, ANA)
    assert found == (says(RuleEffect.DENY, "ask") if effect == "deny" else None)


# -- stopped ----------------------------------------------------------------------------------------------------------------


def before_the_run(rules, agent, asked, arguments=GIVEN, turn=ANA):
    return stopped(rules, agent, asked, arguments, required=required_again(agent, asked, arguments, turn))


@pytest.mark.parametrize("agent", [AUTO, REQUIRED, None])
def test_without_rules_every_run_begins_that_no_rule_has_lifted(agent):
    assert before_the_run(NO_RULES, agent, request()) is None
    assert before_the_run(NO_RULES, agent, request(), None) is None
    assert before_the_run(NO_RULES, agent, request(decided_at=7)) is None


@pytest.mark.parametrize("decided_at", [0, 7])
@pytest.mark.parametrize("rule", ["", "Bash(npm *)"])
def test_a_rule_that_denies_wins_over_whatever_let_the_call_go_on(decided_at, rule):
    rules = Rules(deny=[Rule("Bash(npm *)", name="no-npm", reason="Not today.")], allow=["Bash(npm *)"])
    for agent in (AUTO, REQUIRED):
        asked = request(rule=rule, decided_at=decided_at)
        assert before_the_run(rules, agent, asked) == says(RuleEffect.DENY, "no-npm", "Not today.")
        assert before_the_run(Rules(default="deny"), agent, asked) == says(RuleEffect.DENY)
    assert before_the_run(Rules(deny=["Bash"]), None, request(rule=rule, decided_at=decided_at)) == says(
        RuleEffect.DENY, "Bash"
    )


def test_a_rule_that_asks_stops_a_run_that_nobody_has_decided_about():
    for rules in (Rules(ask=["Bash"]), Rules(ask=["Bash"], allow=["Bash"])):
        assert before_the_run(rules, AUTO, request()) == says(RuleEffect.ASK, "Bash")
        assert before_the_run(rules, REQUIRED, request(decided_at=7)) is None
    assert before_the_run(Rules(default="ask"), AUTO, request()) == says(RuleEffect.ASK)
    assert before_the_run(Rules(default="ask"), AUTO, request(decided_at=7)) is None


def test_a_run_that_is_still_allowed_begins():
    rules = Rules(allow=["Bash(npm *)"], default="ask")
    assert before_the_run(rules, REQUIRED, request(rule="Bash(npm *)")) is None
    assert before_the_run(rules, AUTO, request()) is None


@pytest.mark.parametrize("rules", [NO_RULES, Rules(deny=["other"]), Rules(allow=["B*"]), Rules(default="allow")])
def test_a_run_is_asked_about_whose_tool_wants_an_approval_once_the_rule_that_lifted_it_is_gone(rules):
    assert before_the_run(rules, REQUIRED, request(rule="Bash(npm *)")) == says(RuleEffect.ASK)
    assert before_the_run(rules, AUTO, request(rule="Bash(npm *)")) is None
    assert before_the_run(rules, None, request(rule="Bash(npm *)")) is None, "there is no body to run"
    assert before_the_run(rules, REQUIRED, request(rule="Bash(npm *)", decided_at=7)) is None
    assert before_the_run(rules, REQUIRED, request()) is None, "its declaration did not ask when the call was proposed"


@pytest.mark.parametrize("approval", [lambda _: True, lambda _: "required", raising, lambda _: 7])
def test_a_function_speaks_again_where_a_rule_has_lifted_what_it_wanted(approval):
    assert before_the_run(NO_RULES, agent_with(approval), request(rule="Bash(npm *)")) == says(RuleEffect.ASK)
    assert before_the_run(Rules(allow=["Bash(npm *)"]), agent_with(approval), request(rule="Bash(npm *)")) is None


def test_a_function_is_not_called_again_where_that_changes_nothing():
    called = []
    agent = agent_with(lambda arguments: bool(called.append(arguments)) or True)
    for asked in (request(), request(decided_at=7), request(rule="Bash", decided_at=7), request(rule="Bash", tool="Read")):
        assert not required_again(agent, asked, GIVEN, ANA)
    assert called == []
    assert required_again(agent, request(rule="Bash"), GIVEN, ANA)
    assert called == [GIVEN]


def test_a_function_that_wants_no_approval_any_more_lets_the_run_begin():
    agent = agent_with(lambda _arguments, turn: turn.requester.id != "ana")
    assert before_the_run(NO_RULES, agent, request(rule="Bash")) is None
    nobody = TurnContext(conversation_id="c-1", agent="desk", requester=Principal(id="bob"))
    assert before_the_run(NO_RULES, agent, request(rule="Bash"), turn=nobody) == says(RuleEffect.ASK)


def test_a_run_whose_arguments_cannot_be_read_is_caught():
    assert before_the_run(Rules(deny=["Bash(rm *)"]), AUTO, request(), None) == says(RuleEffect.DENY, "Bash(rm *)")
    assert before_the_run(Rules(allow=["Bash(npm *)"]), AUTO, request(), None) == says(RuleEffect.ASK)
    assert before_the_run(NO_RULES, agent_with(lambda _: False), request(rule="Bash"), None) == says(RuleEffect.ASK)


def test_where_the_rules_cannot_be_read_a_person_is_asked_once():
    for agent in (AUTO, REQUIRED, None):
        for rule in ("", "Bash"):
            assert before_the_run(None, agent, request(rule=rule)) == UNREADABLE
            assert before_the_run(None, agent, request(rule=rule, decided_at=7)) is None


def test_where_the_rules_cannot_be_read_neither_a_grant_nor_a_function_of_the_app_stands_for_a_person():
    by_grant = replace(request(rule="Bash"), grants=("g1",))
    assert stopped(None, AUTO, by_grant, GIVEN, required=False) == UNREADABLE
    for terms in (ApproverTerms(who=(("role:finance",),)), UNREADABLE.approvers):
        assert stopped(None, AUTO, replace(by_grant, approvers=terms), GIVEN, required=False) == UNREADABLE
    assert stopped(Rules(default="allow"), AUTO, by_grant, GIVEN, required=False) is None


def test_where_the_rules_fail_on_a_call_a_person_is_asked_once(monkeypatch, caplog):
    def failing(*_args, **_named):
        raise RecursionError

    monkeypatch.setattr(Rules, "verdict", failing)
    rules = Rules(deny=["delete_*"], default="allow")
    for agent in (AUTO, None):
        assert proposed(rules, agent, "Bash", GIVEN, ANA) == UNREADABLE
        assert stopped(rules, agent, request(), GIVEN, required=False) == UNREADABLE
        assert stopped(rules, agent, request(decided_at=7), GIVEN, required=False) is None
    assert "the permission rules failed on a call of Bash, so it is asked about" in caplog.text
