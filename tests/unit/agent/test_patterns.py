"""The grammar of permission rules' patterns: what each says, and where a bad one is wrong."""

import pytest

from holdfast.agent import Approvers
from holdfast.agent.patterns import Comparison, parsed
from holdfast.agent.rule import Rule
from holdfast.agent.rules import Rules
from holdfast.errors import ConfigurationError, InvalidRule


@pytest.mark.parametrize(
    ("pattern", "tool", "conditions"),
    [
        ("read_file", "read_file", []),
        ("mcp__github__*", "mcp__github__*", []),
        ("/a|b/", "a|b", []),
        ("Bash(npm *)", "Bash", [(None, "~", "npm *")]),
        ("Bash( npm * )", "Bash", [(None, "~", " npm * ")]),
        ("Bash(echo (x))", "Bash", [(None, "~", "echo (x)")]),
        ("/x/(npm *)", "x", [(None, "~", "npm *")]),
        ("/x/(/etc/**)", "x", [(None, "~", "/etc/**")]),
        ("/(a/b)?/", "(a/b)?", []),
        ('Edit(file_path ~ "src/**")', "Edit", [("file_path", "~", "src/**")]),
        ('Edit(file.path~"src/**")', "Edit", [("file.path", "~", "src/**")]),
        (r'Bash(command =~ "(?i)\brm\b")', "Bash", [("command", "=~", r"(?i)\brm\b")]),
        (r'Say(text =~ "say \"(yes|no)\" \\ \.")', "Say", [("text", "=~", r'say "(yes|no)" \\ \.')]),
        (r'Say(text = "a \"b\" \\ c")', "Say", [("text", "=", r'a "b" \ c')]),
        (r'Say(text ~ "a \"b\" \* c")', "Say", [("text", "~", r'a "b" \* c')]),
        ('Pay(currency = "EUR", to ~ "shop-*")', "Pay", [("currency", "=", "EUR"), ("to", "~", "shop-*")]),
        ('Pay(a = "x, b = ")', "Pay", [("a", "=", "x, b = ")]),
    ],
)
def test_a_pattern_is_read_as_it_is_written(pattern, tool, conditions):
    read = parsed(pattern)

    assert (read.text, read.tool) == (pattern, tool)
    assert [(one.argument, one.comparison, one.text) for one in read.conditions] == [
        (argument, Comparison(comparison), text) for argument, comparison, text in conditions
    ]


@pytest.mark.parametrize(("pattern", "full"), [("a", True), ("a(b *)", True), ("a*", False), ("*", False), ("/a/", False)])
def test_a_name_without_wildcards_is_in_full(pattern, full):
    assert parsed(pattern).names_in_full is full


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("", "»"),
        ("Bash(", "Bash»("),
        ("Bash()", "Bash(»)"),
        ("Bash(  )", "Bash(»  )"),
        ("Bash npm", "Bash» npm"),
        ("Bash(npm *) ", "Bash»(npm *) "),
        ("/x", "/x»"),
        ("//", "//»"),
        ("/x/y", "/x/y»"),
        ("/(?=x)y/", "/»(?=x)y/"),
        (r"/(x)\1/", r"/»(x)\\1/"),
        ("/x{5000}/", "/»x{5000}/"),
        ('Bash(a ~ "x" b ~ "y")', 'Bash(a ~ "x"» b'),
        ('Bash(a ~ "x)', 'Bash(a ~ »"x)'),
        ('Bash(a ~ "x", )', 'Bash(a ~ "x",» )'),
        ('Bash(a ~ "x", npm *)', 'Bash(a ~ "x",» npm *)'),
        ('Bash(a =~ "(x")', 'Bash(a =~ "»(x")'),
        ('Bash(a =~ "x)|(y")', 'Bash(a =~ "»x)|(y")'),
        (r'Bash(a = "x\d")', r'Bash(a = "x»\\d")'),
        ("Edit(file_path ~ src/**)", "Edit(file_path ~ »src/**)"),
        ("Edit(file_path = src)", "Edit(file_path = »src)"),
        ("Edit(src/[a-z]*)", "Edit(src/»[a-z]*)"),
        ("Edit(src/{a,b})", "Edit(src/»{a,b})"),
        ("Edit(src/?.py)", "Edit(src/»?.py)"),
        ("Edit(src\\)", "Edit(src»\\\\)"),
        ("Bash(npm:*)", "Bash(npm»:*)"),
        ("Fetch(10.0.0.0/8)", "Fetch(10.0.0.0/»8)"),
        ('Fetch(url ~ "fd00::/64")', 'Fetch(url ~ "fd00::/»64")'),
        ("Bash(npm\n*)", "Bash(npm»\\n*)"),
        ("Bash(npm\u200b *)", "Bash(npm»\\u200b *)"),
        ("x" * 2000, "»x"),
        ("Bäsh", "B»äsh"),
        ("(x)", "»(x)"),
    ],
)
def test_a_bad_pattern_is_an_error_that_points_at_it(pattern, place):
    with pytest.raises(InvalidRule) as raised:
        Rules(deny=["fine", pattern])

    assert raised.value.field == "deny[2]"
    assert place in raised.value.problem.replace("\\'", "'")
    assert len(str(raised.value)) < 400


def test_too_many_conditions_are_refused():
    with pytest.raises(InvalidRule, match="at most 16"):
        Rule("x(" + ", ".join(['a = "b"'] * 17) + ")")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"pattern": 1}, "pattern"),
        ({"pattern": "x", "name": ""}, "name"),
        ({"pattern": "x", "name": "a\u202eb"}, "name"),
        ({"pattern": "x", "name": "n" * 201}, "name"),
        ({"pattern": "x", "reason": 3}, "reason"),
        ({"pattern": "x", "reason": "r" * 501}, "reason"),
        ({"pattern": "x", "approvers": "role:a"}, "approvers"),
        ({"pattern": "x", "approvers": ["finance"]}, "approvers"),
        ({"pattern": "x", "approvers": ["role:"]}, "approvers"),
        ({"pattern": "x", "approvers": ["role: a"]}, "approvers"),
        ({"pattern": "x", "approvers": ["id:a\u200bb"]}, "approvers"),
        ({"pattern": "x", "approvers": [f"id:{number}" for number in range(65)]}, "approvers"),
    ],
)
def test_a_rule_that_cannot_be_used_names_its_field(given, field):
    with pytest.raises(ConfigurationError) as raised:
        Rule(**given)

    assert raised.value.field == field
    assert raised.value.fix


def test_a_rule_keeps_what_it_was_given():
    rule = Rule("Pay", name="payments", reason="Money leaves.", approvers=["role:finance", "id:ana", "role:finance"])

    assert (rule.name, rule.reason, rule.approvers) == ("payments", "Money leaves.", Approvers("role:finance", "id:ana"))
    assert Rule("Pay").name == "Pay"
    assert repr(rule) == "Rule('Pay')"
    assert rule == Rule(**rule.to_dict())
    assert hash(rule) == hash(Rule(**rule.to_dict()))
    assert rule != Rule("Pay")
