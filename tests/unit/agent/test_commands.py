"""What rules say of commands: of plain ones what they say, and of unclear ones at least a question."""

import subprocess
import sys

import pytest
from verdicts import allows, asks, denies

from holdfast.agent.rule import Effect, Rule
from holdfast.agent.rules import Rules
from holdfast.conversation import Executor


def verdict(rules, command, **facts):
    return rules.verdict("Bash", {"command": command}, primary="command", **facts)


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        *(
            ("git push *", f"git {words}push", True)
            for words in ("", "-C . ", "--no-pager ", "-c a=b -C x ", "'-C' 'a b' ", "x ")
        ),
        *(("git push *", command, True) for command in ("/usr/bin/git push x", "git.exe push", "GIT PUSH", "env A=1 git push")),
        *(
            ("git push *", command, False)
            for command in ("git pull", "git pushes", "git", "gitpush", "push git", "npm push; git x")
        ),
        ("git push", "git push --force", True),
        ("git push* --force", "git push-all x --force", True),
        ("git * --force", "git push --force", True),
        ("git * --force", "git push", False),
        ("docker compose up *", "docker compose -f x.yml up -d", True),
        ("docker compose up *", "docker up compose", False),
        ("rm -rf *", "rm -rf x", True),
        ("rm -rf *", "rm -r -f x", False),
        ("/bin/rm *", "rm x", True),
        ("cat src/**", "cat -n x/../src/a", True),
        ('git commit -m "*"', "git commit -m 'a b'", True),
        ("npm run *:prod", "npm run -s build:prod", True),
        ("n* run x", "npm run x", True),
    ],
)
def test_a_deny_is_about_a_program_and_words_in_their_order(pattern, command, covered):
    assert denies(f"Bash({pattern})", "Bash", command) is covered
    assert denies(f'Bash(text ~ "{pattern.replace(chr(34), chr(92) + chr(34))}")', "Bash", command) is covered


def test_a_name_alone_is_about_the_program_where_the_argument_holds_commands():
    assert verdict(Rules(deny=["Bash(rm)"]), "sudo rm -rf x").effect is Effect.DENY
    assert verdict(Rules(deny=["Bash(rm)"]), "ls").effect is Effect.ALLOW
    assert not denies("Pay(shop)", "Pay", "shop 1")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls *.py",
            "echo $HOME",
            "ls > x",
            "ls &",
            "(ls)",
            "ls ~",
            "echo a!b",
            "ls # x",
            'echo "a\\b"',
            "echo 'a",
            "\u200bls",
            "a\rb",
        ),
        *(
            "ls " + "x " * 40 + ">" + "y" * 5000,
            "(" * 3000 + "ls" + ")" * 3000,
            "eval " * 20 + "'eval \"x y\"'" + "$",
            "x=(" * 1300,
        ),
    ],
    ids=lambda command: repr(command[:20]),
)
def test_an_unclear_command_is_allowed_by_nothing_and_asked_about_by_everything(command):
    assert verdict(Rules(deny=["Bash(rm *)"], default="allow"), command).effect is Effect.ASK
    assert verdict(Rules(ask=["Bash(rm *)"], default="allow"), command).effect is Effect.ASK
    assert verdict(Rules(deny=['Bash(command =~ "^rm")'], default="allow"), command).effect is Effect.ASK
    assert (
        verdict(Rules(allow=["Bash(ls *)", "Bash(echo *)", 'Bash(command =~ "(.|\\n)*")'], default="deny"), command).effect
        is Effect.DENY
    )
    assert verdict(Rules(deny=["Other(rm *)"], default="allow"), command).effect is Effect.ALLOW
    assert verdict(Rules(default="allow"), command).effect is Effect.ALLOW


def test_an_unclear_command_that_a_rule_writes_out_is_allowed_by_it():
    assert allows("Bash(npm test > log)", "Bash", "npm test > log")
    assert allows('Bash(command = "ls $HOME")', "Bash", command="ls $HOME")
    assert not allows("Bash(npm test > *)", "Bash", "npm test > log")


def test_what_may_be_denied_is_never_less_than_the_default():
    assert verdict(Rules(deny=["Bash(rm *)"], default="deny"), "$X").effect is Effect.DENY
    assert verdict(Rules(ask=["Bash(rm *)"], default="deny"), "$X").effect is Effect.DENY


def test_nobody_can_be_asked_about_a_provider_s_call_that_may_be_denied():
    assert verdict(Rules(deny=["Bash(rm *)"]), "$X", executor=Executor.PROVIDER).effect is Effect.DENY
    assert verdict(Rules(deny=["Bash(rm *)"]), "what now?", executor=Executor.HUMAN).effect is Effect.ALLOW


def test_who_approves_an_unclear_command_is_one_of_those_whom_each_rule_names_that_it_may_be_about():
    push = Rule("Bash(git push *)", approvers=["role:maintainer"])
    publish = Rule("Bash(npm publish *)", approvers=["role:owner"])
    found = verdict(Rules(deny=[Rule("Bash(rm *)", reason="No.")], ask=[push, publish]), "$X")

    assert (found.effect, found.rule) == (Effect.ASK, "Bash(rm *)")
    assert found.reason == "what the command runs cannot be told from it, and this rule may be about it: No."
    assert [str(one) for one in (found.approvers, *found.also)] == ["role:maintainer", "role:owner"]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "linux64 rm x",
            "echo rm",
            "hash -p /bin/rm x; x",
            "PS4='$(x)'; set -x; ls",
            "x 'a; rm b'",
            "x --run=rm",
            "x '$(y)'",
            "x -vrm",
        ),
        *(
            "echo x | bash",
            "xargs ls",
            "python",
            "perl -e 'x'",
            "tee x; sh x",
            "tee b/x; x",
            "awk 'BEGIN{system(x)}'",
            "sed e",
            "PATH=x ls",
        ),
        *(
            "nice split x",
            "x python",
            "declare 'a[x]'",
            "awk 'x | y'",
            "printf -v x y",
            "source /dev/stdin",
            "echo x | bash -o posix",
            "bash +x",
            "x | linux64",
            "sed 's,x,y,e'",
            "nice " * 70 + "ls",
        ),
        *("read PS4", "let x", "declare -i x=y", "sudo -s", "env BASH_ENV=x bash x", "X='a*b' ls", "printf -vx y", "bash -o x"),
    ],
)
def test_a_plain_command_that_may_run_what_it_does_not_say_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command)


def test_a_program_that_a_rule_names_runs_none_of_its_words():
    named = Rules(deny=["Bash(rm *)"], allow=["Bash(git *)", "Bash(nice *)"], default="ask")

    assert verdict(named, "git rm x").effect is Effect.ALLOW
    assert verdict(named, "hg rm x").effect is Effect.ASK
    assert verdict(named, "nice rm x").effect is Effect.DENY
    assert verdict(Rules(deny=["Bash(rm *)"], allow=['Bash(note ~ "hg")'], default="allow"), "hg rm x").effect is Effect.ASK


@pytest.mark.parametrize(
    "command",
    [
        *(
            "npm ci && npm run build",
            "cat src/a.py | grep -n 'def x'",
            "python -m pytest -q",
            "bash build.sh",
            "sed -n '1,20p' a.py",
        ),
        *(
            "cd a; ./gradlew build",
            "awk '{print $1}' x",
            ". venv/bin/activate",
            "sed 's/a/b/g' x",
            "A=1 make test",
            "time npm test",
        ),
        *(
            "git commit -m 'fix: (x) {y} $5'",
            "find . -name '*.py'",
            "cp src/a.py lib/a.py",
            "bash -c 'npm test'",
            "printf '%s\\n' x",
            "",
        ),
    ],
)
def test_a_plain_command_of_others_is_left_alone(command):
    assert verdict(Rules(deny=["Bash(rm *)", "Bash(git push *)"], default="allow"), command).effect is Effect.ALLOW


@pytest.mark.parametrize("command", ["ls -la", "ls *"])
def test_the_grammar_is_imported_for_unclear_commands_alone(command):
    code = (
        "import sys; from holdfast.agent.rules import Rules;"
        f"Rules(deny=['Bash(rm *)']).verdict('Bash', {{'command': {command!r}}}, primary='command');"
        "print('tree_sitter' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == str(command == "ls *")


@pytest.mark.parametrize(
    "command",
    [
        "git bisect run rm v",
        "git submodule foreach rm v",
        "git rebase -x 'rm v' main",
        "git -c alias.x='!rm v' x",
        "git grep -O'rm v' x",
    ],
)
@pytest.mark.parametrize("more", [{"default": "allow"}, {"allow": ["Bash(git *)"]}])
def test_a_rule_about_one_program_weakens_none_about_another(command, more):
    rules = Rules(deny=["Bash(rm *)", "Bash(git push *)"], **more)
    assert rules.verdict("Bash", {"command": command}, primary="command", required=False).effect is Effect.ASK
    fine = rules.verdict("Bash", {"command": "git rm x"}, primary="command", required=False)
    assert fine.effect is Effect.ALLOW
