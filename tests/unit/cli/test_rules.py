"""`holdfast rules check`: what would happen to a call, and by which rule."""

import json
import sys
import types

import pytest

from holdfast.agent import Agent, App, Rules, Tool
from holdfast.cli import app as command_line

RULES = """
allow: ["Bash(npm *)", refund, "other_*"]
ask:
  - {pattern: "pay(amount =~ \\"[0-9]{4,}\\")", name: large, reason: Much money., approvers: ["role:finance", "id:ana"]}
deny: ["Bash(rm *)", drop_all, 'Fetch(url ~ "*.evil.example")', 'search(q ~ "x-*")']
"""


def bash(command: str) -> str:
    """Run a command."""
    return command


def fetch(url: str = "https://www.evil.example/") -> str:
    """Fetch a page."""
    return url


TOOLS = [
    Tool(name="Bash", callback=bash, primary="command"),
    Tool(name="refund", callback=bash, approval="required"),
    Tool(name="other_refund", callback=bash, approval="required"),
    Tool(name="Fetch", callback=fetch),
    Tool(name="ask", executor="human", response_schema=str),
    Tool(name="look", callback=bash),
    Tool(name="search", executor="provider", definition={"type": "web_search"}),
]


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "rules.yaml"
    found.write_text(RULES)
    return str(found)


@pytest.fixture
def shop(monkeypatch):
    module = types.ModuleType("rules_shop")
    module.app = App(agents=[Agent(name="shop", tools=TOOLS, rules=Rules(ask=["look"]))], rules=Rules(deny=["Bash(dd *)"]))
    monkeypatch.setitem(sys.modules, "rules_shop", module)
    return "rules_shop:app"


@pytest.fixture
def check(file, capsys, monkeypatch):
    monkeypatch.delenv("HOLDFAST_APP", raising=False)

    def run(*arguments):
        code = command_line.run(["rules", "check", file, *arguments])
        return code, *capsys.readouterr()

    return run


def test_the_rule_that_decides_is_named(check):
    assert check("shop", "Bash", '{"command": "npm i"}', "--primary", "command") == (0, "allow: by the rule Bash(npm *)\n", "")
    assert check("shop", "Bash", '{"command": "npm i; rm x"}', "--primary", "command")[1] == "deny: by the rule Bash(rm *)\n"


def test_reason_approvers_and_hidden_tools_are_shown(check):
    assert check("shop", "pay", '{"amount": 5000}')[1] == (
        "ask: by the rule large\nreason: Much money.\napprovers: role:finance, id:ana\n"
    )
    assert "drop_all is denied whatever its arguments are" in check("shop", "drop_all")[1]


def test_a_providers_tool_that_is_denied_for_some_arguments_is_hidden(check, shop):
    out = check("shop", "search", '{"q": "y"}', "--app", shop)[1]
    assert out.splitlines()[1] == "search is denied for some arguments, and its provider asks nobody: the model does not see it"


def test_json_has_the_whole_verdict(check):
    code, out, err = check("shop", "pay", '{"amount": 5000}', "--json")

    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "effect": "ask",
        "rule": "large",
        "reason": "Much money.",
        "approvers": ["role:finance", "id:ana"],
        "by": "rule",
        "hidden": False,
        "minimum": 1,
        "not_requester": False,
        "also": [],
    }


def test_without_an_app_the_tools_own_approval_is_not_known(check):
    code, out, err = check("shop", "look", "{}")

    assert (code, out) == (0, "allow: by the tool's own declaration: no rule changes it\n")
    assert "without --app" in err


@pytest.mark.parametrize(
    ("tool", "arguments", "effect", "by"),
    [
        ("Bash", '{"command": "npm i"}', "allow", "rule"),
        ("Bash", '{"command": "rm x"}', "deny", "rule"),
        ("Bash", '{"command": "dd x"}', "deny", "rule"),
        ("refund", '{"command": "x"}', "allow", "rule"),
        ("other_refund", '{"command": "x"}', "ask", "tool"),
        ("Fetch", "{}", "deny", "rule"),
        ("Fetch", '{"url": "https://good.example/"}', "allow", "tool"),
        ("ask", "{}", "allow", "tool"),
        ("look", "{}", "ask", "rule"),
    ],
)
def test_with_an_app_its_declarations_count(check, shop, tool, arguments, effect, by):
    code, out, err = check("shop", tool, arguments, "--json", "--app", shop)

    assert (code, err) == (0, "")
    assert (json.loads(out)["effect"], json.loads(out)["by"]) == (effect, by)


def test_an_expectation_that_is_not_met_is_exit_code_1(check):
    assert check("shop", "drop_all", "{}", "--expect", "deny")[0] == 0
    assert check("shop", "drop_all", "{}", "--expect", "allow")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shop", "Bash", "{"], "ARGS: it is not JSON"),
        (["shop", "Bash", "[]"], "arguments: list is no object"),
        (["shop", "Bash", "{}", "--expect", "maybe"], "'maybe'"),
        (["shop", "nothing", "{}", "--app", "rules_shop:app"], "has no tool 'nothing'; use one of its tools: 'Bash'"),
        (["nobody", "Bash", "{}", "--app", "rules_shop:app"], "declares no agent 'nobody'"),
        (["shop", "Bash", "{}", "--app", "rules_shop:app", "--primary", "x"], "--primary: with --app the tool says it"),
    ],
)
def test_bad_input_is_exit_code_2(check, shop, arguments, said):
    code, out, err = check(*arguments)

    assert (code, out) == (2, "")
    assert said in err


def test_a_bad_pattern_is_exit_code_2_and_pointed_at(check, file):
    with open(file, "w") as out:  # noqa: PTH123 - a path as text, as the command gets it
        out.write('deny: ["Bash("]')
    code, _, err = check("shop", "Bash", "{}")

    assert code == 2
    assert f"{file}: deny[1]: 'Bash»('" in err
