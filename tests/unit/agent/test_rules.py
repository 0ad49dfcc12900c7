"""Permission rules: their order, defaults, what they cannot change, and the form in which they are stored."""

import json

import pytest

from holdfast.agent import Agent, App, Approvers, Tool
from holdfast.agent.rule import Rule, RuleEffect
from holdfast.agent.rules import MOST, Rules, Verdict
from holdfast.conversation.terms.spec import Executor
from holdfast.errors import ConfigurationError, InvalidRule, NewerRecord

REQUIRED = {"required": True}


def effect(rules, tool, arguments=None, **said):
    return rules.verdict(tool, arguments or {}, primary="text", **said).effect


def test_deny_goes_over_ask_and_ask_over_allow_whatever_their_order():
    rules = Rules(allow=["*"], ask=["pay_*"], deny=["pay_all"])

    assert [effect(rules, tool) for tool in ("look", "pay_one", "pay_all")] == ["allow", "ask", "deny"]


def test_a_verdict_names_the_rule_and_says_why():
    rules = Rules(
        ask=[Rule("pay", name="payments", reason="Money leaves.", approvers=["role:finance"])],
        deny=[Rule("drop_*", reason="Never.")],
    )

    assert rules.verdict("pay", {}) == Verdict(RuleEffect.ASK, "payments", "Money leaves.", Approvers("role:finance"))
    assert rules.verdict("drop_all", {}) == Verdict(RuleEffect.DENY, "drop_*", "Never.")
    assert rules.verdict("look", {}) == Verdict(RuleEffect.ALLOW, by="tool")
    assert Rules(default="ask").verdict("look", {}) == Verdict(RuleEffect.ASK, by="default")


FINANCE, BOARD = Approvers("role:finance"), Approvers("role:board", minimum=2)
EITHER = [Rule("pay", name="all"), Rule('pay(to = "x")', approvers=FINANCE), Rule("/pay/", approvers=BOARD)]


@pytest.mark.parametrize("rules", [EITHER, EITHER[::-1], [*EITHER, *EITHER]], ids=["in order", "the other way", "twice"])
@pytest.mark.parametrize("apart", [False, True], ids=["one list", "app and agent"])
def test_a_rule_that_asks_takes_no_approvers_away_from_another(rules, apart):
    whole = Rules.together(Rules(ask=rules[:1]), Rules(ask=rules[1:])) if apart else Rules(ask=rules)
    terms = whole.verdict("pay", {"to": "x"}).terms
    assert (sorted(terms.who), terms.minimum) == ([("role:board",), ("role:finance",)], 2)
    assert whole.verdict("pay", {"to": "y"}).terms == BOARD.terms
    assert Rules(ask=EITHER[:2]).verdict("pay", {"to": "y"}).terms is None


def test_a_rule_for_everybody_who_is_known_is_not_for_everybody():
    rules = Rules(ask=[Rule("pay", approvers=Approvers())])
    assert Rules.of_json(rules.to_json()).verdict("pay", {}).terms == rules.verdict("pay", {}).terms == Approvers().terms


@pytest.mark.parametrize("nobody", [[], (), {"who": []}])
def test_an_empty_list_of_approvers_is_not_for_everybody(nobody):
    with pytest.raises(InvalidRule, match="names nobody"):
        Rule("pay", approvers=nobody)


def test_the_first_rule_that_covers_a_call_is_named():
    rules = Rules(deny=[Rule("a*", name="first"), Rule("a", name="second")])

    assert rules.verdict("a", {}).rule == "first"


@pytest.mark.parametrize(("pattern", "lifted"), [("refund", True), ("refund*", False), ("*", False), ("/refund/", False)])
def test_an_approval_that_a_tool_wants_is_lifted_only_by_its_full_name(pattern, lifted):
    wanted = RuleEffect.ALLOW if lifted else RuleEffect.ASK

    assert effect(Rules(allow=[pattern]), "refund", **REQUIRED) is wanted
    assert effect(Rules(allow=[pattern], default="deny"), "refund", **REQUIRED) is wanted
    assert effect(Rules(allow=[pattern], default="deny"), "refund") is RuleEffect.ALLOW


def test_an_approval_that_a_tool_wants_is_lifted_for_the_calls_that_the_rule_covers():
    rules = Rules(allow=["Bash(npm *)"])

    assert effect(rules, "Bash", {"text": "npm i"}, **REQUIRED) is RuleEffect.ALLOW
    assert effect(rules, "Bash", {"text": "npm i; rm x"}, **REQUIRED) is RuleEffect.ASK


@pytest.mark.parametrize(
    ("default", "plain", "required"),
    [(None, "allow", "ask"), ("allow", "allow", "ask"), ("ask", "ask", "ask"), ("deny", "deny", "deny")],
)
def test_the_default_holds_where_no_rule_does(default, plain, required):
    rules = Rules(allow=["other"], ask=["another"], deny=["one_more"], default=default)

    assert (effect(rules, "look"), effect(rules, "look", **REQUIRED)) == (plain, required)


@pytest.mark.parametrize("executor", [Executor.HUMAN, Executor.PROVIDER, "human"])
def test_human_and_provider_tools_can_only_be_denied(executor):
    assert effect(Rules(ask=["ask_*"]), "ask_user", executor=executor) is RuleEffect.ALLOW
    assert effect(Rules(deny=["ask_*"], allow=["ask_user"]), "ask_user", executor=executor) is RuleEffect.DENY
    assert effect(Rules(default="ask"), "ask_user", executor=executor) is RuleEffect.ALLOW
    assert effect(Rules(default="deny"), "ask_user", executor=executor) is RuleEffect.DENY
    assert effect(Rules(default="deny", allow=["ask_user"]), "ask_user", executor=executor) is RuleEffect.ALLOW
    assert effect(Rules(ask=["ask_*"]), "ask_user", executor=Executor.CLIENT) is RuleEffect.ASK


UNSEEN = [
    "[1]",
    "null",
    '{"text":"x","text":"y"}',
    "{",
    '{"text":NaN}',
    '{"text":' + "[" * 200 + "]" * 200 + "}",
    '{"a":"\\ud800"}',
]


@pytest.mark.parametrize("arguments", UNSEEN, ids=lambda text: text[:20])
def test_arguments_that_cannot_be_inspected_are_caught_or_asked_about(arguments):
    assert effect(Rules(deny=["Bash(rm *)"]), "Bash", arguments) is RuleEffect.DENY
    assert effect(Rules(ask=['Bash(x = "y")']), "Bash", arguments) is RuleEffect.ASK
    assert effect(Rules(allow=["Bash(npm *)"]), "Bash", arguments) is RuleEffect.ASK
    assert effect(Rules(allow=["Bash(npm *)"], default="allow"), "Bash", arguments) is RuleEffect.ASK
    assert effect(Rules(allow=["Bash(npm *)"], default="deny"), "Bash", arguments) is RuleEffect.DENY
    assert effect(Rules(allow=["Bash"]), "Bash", arguments) is RuleEffect.ALLOW
    assert effect(Rules(deny=["Other(rm *)"]), "Bash", arguments) is RuleEffect.ALLOW


def test_an_object_that_is_no_json_cannot_be_inspected_either():
    for arguments in ({"text": object()}, {1: 2}, {"text": float("nan")}, [], None):
        assert Rules(deny=["Bash(rm *)"]).verdict("Bash", arguments, primary="text").effect is RuleEffect.DENY


def test_arguments_are_read_from_the_models_own_text():
    assert effect(Rules(deny=["Bash(rm *)"]), "Bash", '{"text":"rm x"}') is RuleEffect.DENY
    assert effect(Rules(allow=["Bash(npm *)"], default="deny"), "Bash", '{"text":"npm i"}') is RuleEffect.ALLOW
    assert effect(Rules(allow=["look"], default="deny"), "look", "") is RuleEffect.ALLOW


def test_a_text_that_is_too_long_is_caught_and_not_allowed():
    long = {"text": "x" * 70_000}

    assert effect(Rules(deny=["Bash(rm *)"]), "Bash", long) is RuleEffect.DENY
    assert effect(Rules(allow=["Bash(x*)"], default="deny"), "Bash", long) is RuleEffect.DENY
    assert effect(Rules(deny=["Bash(rm *)"]), "Bash", {"text": ["x"] * 5000}) is RuleEffect.DENY


def test_a_tool_that_is_denied_whatever_its_arguments_are_is_hidden():
    rules = Rules(deny=["delete_*", "Bash(rm *)", "/drop/"], default="deny")

    assert [rules.hides(tool) for tool in ("delete_x", "Delete_X", "x_drop", "Bash", "look")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("rules", "hidden"),
    [
        (Rules(deny=["web_search"]), True),
        (Rules(deny=['web_search(query ~ "secret-*")']), True),
        (Rules(default="deny"), True),
        (Rules(allow=['web_search(query ~ "docs *")'], default="deny"), True),
        (Rules(allow=["web_*"], default="deny"), False),
        (Rules(ask=["web_search"], default="ask"), False),
        (Rules(deny=["Bash(rm *)"]), False),
    ],
)
def test_a_providers_tool_is_hidden_where_any_call_of_it_may_be_denied(rules, hidden):
    assert rules.hides("web_search", executor="provider") is hidden


def test_many_names_of_tools_take_no_more_memory():
    rules = Rules(deny=["a"])
    for number in range(2000):
        rules.verdict(f"tool_{number}", {})

    assert len(rules._by_tool) <= 512


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"allow": "x"}, "allow"),
        ({"allow": {"x": 1}}, "allow"),
        ({"allow": [1]}, "allow[1]"),
        ({"deny": ["x", "x("]}, "deny[2]"),
        ({"deny": [Rule("x", approvers=["id:a"])]}, "deny[1].approvers"),
        ({"default": "perhaps"}, "default"),
        ({"default": 1}, "default"),
        ({"deny": ["x"] * (MOST + 1)}, "rules"),
        ({"deny": ["x"] * 100_000}, "deny"),
    ],
)
def test_rules_that_cannot_be_are_refused(given, field):
    with pytest.raises(ConfigurationError) as raised:
        Rules(**given)

    assert type(raised.value) is InvalidRule
    assert raised.value.field == field
    assert len(str(raised.value)) < 400


def test_rules_of_an_app_and_of_an_agent_hold_together():
    app = Rules(deny=[Rule("drop", name="app")], ask=["pay"], allow=["look"], default="deny")
    agent = Rules(deny=[Rule("d*", name="agent"), "peek"], ask=["look"], allow=["drop", "pay", "walk"], default="ask")
    both = Rules.together(app, agent)

    assert both.verdict("drop", {}).rule == "app"
    assert both.verdict("dive", {}).rule == "agent"
    assert [effect(both, tool) for tool in ("peek", "pay", "look", "walk")] == ["deny", "ask", "ask", "allow"]
    assert effect(both, "other") is RuleEffect.ASK
    assert effect(Rules.together(app, Rules()), "other") is RuleEffect.DENY
    assert effect(Rules.together(None, agent), "other") is RuleEffect.ASK
    assert Rules.together(None, None) == Rules()
    assert len(Rules.together(Rules(deny=["x"] * MOST), Rules(deny=["y"] * MOST)).deny) == 2 * MOST


def test_rules_come_back_from_their_json():
    rules = Rules(
        allow=["a", Rule("b", name="n")],
        ask=[Rule("Bash(x \u00fc *)", reason="Why\nnot", approvers=["role:a"])],
        deny=[r'x(a =~ "\bc\"")'],
        default="ask",
    )
    back = Rules.of_json(rules.to_json())

    assert back == rules
    assert hash(back) == hash(rules)
    assert (back.to_json(), back.digest) == (rules.to_json(), rules.digest)
    assert json.loads(rules.to_json())["version"] == 1
    assert rules != Rules()
    assert repr(rules) == "<Rules allow=2 ask=1 deny=1 default='ask'>"


def test_the_json_of_rules_is_pinned_for_what_is_stored():
    rules = Rules(allow=["a"], ask=[Rule("b", name="n", reason="r", approvers=["id:x"])], default="deny")

    assert rules.to_json() == (
        '{"version":1,"allow":[{"pattern":"a"}],"ask":[{"pattern":"b","name":"n","reason":"r","approvers":["id:x"]}],"default":"deny"}'
    )
    assert Rules().to_json() == '{"version":1}'
    assert Rules().digest == "2430f1a2ad2982d0067885488a4c89e21ad1d7c83b115ba8f1b20acc88dfaea8"


def test_the_joint_rules_of_app_and_agent_come_back_too():
    both = Rules.together(Rules(deny=["x"] * MOST), Rules(deny=["y"] * MOST))

    assert Rules.of_json(both.to_json()) == both


def test_rules_of_a_later_version_are_refused_as_such():
    with pytest.raises(NewerRecord) as raised:
        Rules.of_json('{"version":2,"whatever":[]}')

    assert (raised.value.found, raised.value.known) == (2, 1)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "{}",
            '{"version":0}',
            '{"version":true}',
            '{"version":"1"}',
            '{"version":1,"alow":[]}',
            '{"version":1,"deny":["x("]}',
        ),
        *('{"version":1,"deny":{"pattern":"x"}}', '{"version":1,"deny":[{"name":"x"}]}', '{"version":1,"default":"x"}'),
        '{"version":1,"deny":[' + ",".join(['"x"'] * 2001) + "]}",
    ],
)
def test_a_text_that_is_no_rules_is_refused(text):
    with pytest.raises(InvalidRule):
        Rules.of_json(text)


def shown(command: str, flags: str = "") -> str:
    """Show."""
    return command + flags


def test_an_agent_and_an_app_keep_their_rules():
    rules = Rules(deny=["x"])

    assert Agent(name="a", rules=rules).rules is rules
    assert Agent(name="a").rules is None
    assert Agent(name="a", rules=rules).spec.digest == Agent(name="a").spec.digest
    assert App(agents=[], rules=rules).rules is rules
    for declare in (lambda: Agent(name="a", rules=["x"]), lambda: App(agents=[], rules={"deny": []})):
        with pytest.raises(ConfigurationError, match="is not Rules"):
            declare()


def test_a_tool_names_its_primary_argument():
    assert Tool(callback=shown, primary="command").primary == "command"
    assert Tool(callback=shown).primary is None
    assert Tool(callback=shown, primary="command").spec == Tool(callback=shown).spec


@pytest.mark.parametrize("primary", ["text", "", 3])
def test_a_primary_argument_is_one_of_the_parameters(primary):
    with pytest.raises(ConfigurationError, match="is no parameter") as raised:
        Tool(callback=shown, primary=primary)

    assert raised.value.field == "tool 'shown'.primary"
    assert "'command', 'flags'" in raised.value.fix


def test_a_provider_tool_has_no_primary_argument():
    with pytest.raises(ConfigurationError, match="nobody but the provider"):
        Tool(name="search", executor="provider", definition={"type": "web_search"}, primary="query")
