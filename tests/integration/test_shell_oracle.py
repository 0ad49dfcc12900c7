"""Rules about commands against bash itself: whatever it runs of a text, a rule that denies or asks about it must have seen."""

import os
import shutil
from random import Random

import pytest
from lacking import lacking
from shell_oracle import ran
from spellings import COMMANDS, drawn

from holdfast.agent.rule import RuleEffect
from holdfast.agent.rules import Rules

RULES = Rules(deny=["Bash(rm *)", "Bash(git push *)"], ask=["Bash(npm publish *)"], default="allow")
EACH = 300
"""How many spellings are drawn of each command."""

SLIPPED = (
    *("git push", "npm publish", "git -C . push", "git --no-pager push", "git -c a=b -C . push", "npm --silent publish"),
    *(
        "git push&",
        "X='a;b' rm -rf v",
        "MSG='a & b' git push",
        'A="x;y" npm publish',
        "A='a|b' rm -rf v",
        "env$x rm",
        "nice$x rm -rf v",
    ),
    *("eval$x 'rm v'", ">&-rm -rf v", "<&-rm v", "a[0 1]=x rm -rf v", "# a comment \\\nrm -rf v", "echo a # b \\\nrm v"),
    *("cat <(git push)", "echo x > >(npm publish)", "linux64 rm -rf v", "linux32 rm v", "prlimit --nofile=64 git push"),
    *("choom -n 0 -- rm v", "x86_64 npm publish", "setarch -R git push"),
)
"""Ways past a list of spellings, each of which bash runs."""


def verdict(text):
    return RULES.verdict("Bash", {"command": text}, primary="command").effect


def runs(command, calls):
    """Whether a command is among what bash ran."""
    program, *words = command.split()
    return any(call[0] == program and set(words) <= set(call) for call in calls)


def drawn_by(random):
    """Of each command so many spellings."""
    return [(command, drawn(random, command)) for command in COMMANDS for _ in range(EACH)]


def unseen(folder, spellings):
    """The spellings of which bash ran what no rule saw, after a look at whether it ran most of them."""
    if shutil.which("bash") is None:
        lacking("there is no bash")
    calls = ran(folder, [text for _, text in spellings])
    of_each = [(command, text) for (command, text), ran_of_it in zip(spellings, calls, strict=True) if runs(command, ran_of_it)]
    assert len(of_each) > len(spellings) / 2, "most spellings are ones that bash runs"
    return [text for _, text in of_each if verdict(text) is RuleEffect.ALLOW]


def test_no_spelling_that_bash_runs_is_allowed(tmp_path):
    assert unseen(tmp_path / "work", drawn_by(Random(20))) == []  # noqa: S311 - the same each time


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_no_spelling_of_a_new_draw_that_bash_runs_is_allowed(tmp_path, number):
    seed = int.from_bytes(os.urandom(4), "big")
    random = Random(seed)  # noqa: S311 - drawn again from the same seed

    assert unseen(tmp_path / "work", drawn_by(random)) == [], f"seed {seed}, round {number}"


def test_each_way_past_a_list_of_spellings_runs_and_is_seen(tmp_path):
    calls = ran(tmp_path / "work", list(SLIPPED))

    assert [
        text for text, made in zip(SLIPPED, calls, strict=True) if not any(runs(command, made) for command in COMMANDS)
    ] == []
    assert [text for text in SLIPPED if verdict(text) is RuleEffect.ALLOW] == []
