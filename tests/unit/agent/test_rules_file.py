"""Files of permission rules: YAML and JSON, bounded, with errors that name the place."""

import pytest

from holdfast.agent.rule import Rule
from holdfast.agent.rules import Rules
from holdfast.errors import InvalidRule

YAML = """
# What the agent may do.
default: ask
allow:
  - read_file
  - Bash(npm *)
  - Edit(file_path ~ "src/**")
ask:
  - pattern: Pay(amount =~ "[0-9]{4,}")
    name: large payments
    reason: More than 999.
    approvers: [role:finance]
deny:
  - "*_secret"
  - Bash(rm *)
"""


def load(tmp_path, text, name="rules.yaml"):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Rules.load(file)


def test_rules_are_read_from_yaml(tmp_path):
    rules = load(tmp_path, YAML)

    assert rules == Rules(
        default="ask",
        allow=["read_file", "Bash(npm *)", 'Edit(file_path ~ "src/**")'],
        ask=[
            Rule('Pay(amount =~ "[0-9]{4,}")', name="large payments", reason="More than 999.", approvers=["role:finance"]),
        ],
        deny=["*_secret", "Bash(rm *)"],
    )


def test_rules_are_read_from_json(tmp_path):
    assert load(tmp_path, '\ufeff{"deny": ["Bash(rm *)", {"pattern": "x"}], "default": null}', "rules.json") == Rules(
        deny=["Bash(rm *)", "x"]
    )


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ("deny:\n  - fine\n  - Bash(\n", ": deny[2]", "'Bash»('"),
        ("deny:\n  - pattern: x\n    reason: 3\n", ": deny[1].reason", "int is not text"),
        ("deny:\n  - pattern: x\n    reasons: y\n", ": deny[1]", "no field 'reasons'"),
        ("deny:\n  - name: x\n", ": deny[1]", "no pattern"),
        ("deny:\n  - pattern: x\n    approvers: [role:a]\n", ": deny[1].approvers", "only a rule that asks"),
        ("alow: [x]\n", "", "no field 'alow'"),
        ("deny: x\n", ": deny", "'x' is no list"),
        ("deny: [no]\n", ": deny[1]", "False is neither a pattern"),
        ("deny:\n  - Bash(a: b)\n", ": deny[1]", "no field 'Bash(a'"),
        ("default: maybe\n", ": default", "'maybe' is no effect"),
        ("- x\n", "", "it holds list"),
        ("", "", "it holds NoneType"),
        ("deny: [x]\ndeny: []\n", "", "'deny' stands there twice (line 2, column 1)"),
        ('{"deny": ["x"], "deny": []}', "", "'deny' stands there twice (line 1"),
        ("allow:\n  - *\n", "", "(line 2, column 6)"),
        ("allow: &a [x]\ndeny: *a\n", "", "*a is an alias, and rules may have none (line 2"),
        ("allow: [x\n", "", "(line 2, column 1)"),
        ("deny: !!python/object/apply:os.system [ls]\n", "", "could not determine a constructor"),
        ("? [a]\n: b\n", "", "a key is no text"),
        ("deny: " + "[" * 30 + "]" * 30, "", "nested too deep"),
        ("deny: " + "[" * 100_000, "", "nested too deep"),
        ("deny: [" + "x," * 60_000 + "]", "", "too many values"),
        ("deny:\n" + "- x\n" * 1500, ": deny", ""),
        (b"deny: [\xff]", "", "it is not UTF-8 (at byte 7)"),
        ("deny: [x\x00]", "", "it is no YAML and no JSON"),
        ("#" * (1 << 20) + "#", "", "more than 1048576 bytes"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_file_that_cannot_be_used_is_an_error_that_names_the_place(tmp_path, text, field, problem):
    with pytest.raises(InvalidRule) as raised:
        load(tmp_path, text)

    if problem:
        assert raised.value.field == f"{tmp_path / 'rules.yaml'}{field}"
    assert problem in raised.value.problem
    assert raised.value.fix
    assert len(raised.value.problem + raised.value.fix) < 500


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidRule, match=r"none\.yaml: it cannot be read \(No such file"):
        Rules.load(tmp_path / "none.yaml")
    with pytest.raises(InvalidRule, match="cannot be read"):
        Rules.load(str(tmp_path))


def test_a_misspelt_field_is_named_with_the_right_one(tmp_path):
    with pytest.raises(InvalidRule) as raised:
        load(tmp_path, "denny: [x]\n")

    assert raised.value.fix == "write deny"
