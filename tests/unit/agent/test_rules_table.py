"""The table of docs/rules.md that says what a rule about commands means, line by line, against the code."""

import re
from pathlib import Path

import pytest
from verdicts import allows, asks, denies

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"
ROWS = re.findall(
    r"^\| `(.+)` \| (covers it|does not) \| (covers it|does not|asks about it) \|$", PAGE.read_text(), re.MULTILINE
)
PATTERN = "Bash(git push *)"


def test_the_table_has_twenty_one_lines():
    assert len(ROWS) == 21


@pytest.mark.parametrize(("command", "allow", "deny"), ROWS)
def test_a_rule_about_commands_means_what_the_table_says(command, allow, deny):
    said = (
        "covers it" if denies(PATTERN, "Bash", command) else "asks about it" if asks(PATTERN, "Bash", command) else "does not"
    )

    assert allow == ("covers it" if allows(PATTERN, "Bash", command) else "does not")
    assert deny == said
