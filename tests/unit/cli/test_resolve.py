"""What a person says with the options of `holdfast resolve`."""

from functools import partial

import pytest
from command_lines import decision_of

from holdfast.cli.errors import ExitCode
from holdfast.conversation import Answer, Approve, Cancel, Deny, Fail, Redispatch, Review, Scope


@pytest.fixture
def said(monkeypatch):
    """What a command line decides, in place of sending it."""
    return partial(decision_of, monkeypatch, "resolve", "s-1")


@pytest.mark.parametrize(
    ("options", "decision"),
    [
        (["--approve", "--reason", "seen"], Approve(reason="seen")),
        (["--approve", "--arguments", '{"a":1}', "--reason", "less"], Approve({"a": 1}, reason="less")),
        (["--answer", "null", "--reason", "asked them"], Answer(None, reason="asked them")),
        (["--fail", "no signal", "--reason", "x"], Fail("no signal", reason="x")),
        (["--redispatch", "--reason", "x"], Redispatch(reason="x")),
        (["--deny", "not this one"], Deny("not this one")),
        (["--cancel", "nobody needs it"], Cancel("nobody needs it")),
        (["--cancel", ""], Cancel("")),
        (["--review", "allow"], Review("allow", "")),
        (["--review", "review", "--notes", "halve it"], Review("review", "halve it")),
    ],
)
def test_each_decision_is_said_with_its_reason(said, options, decision):
    assert said(*options) == decision


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--review", "allow", "--reason", "x"], "--reason: it does not go with --review"),
        (["--deny", "no", "--reason", "x"], "say it with --deny REASON"),
        (["--cancel", "no", "--reason", "x"], "say it with --cancel REASON"),
        (["--approve", "--notes", "x"], "--notes: it does not go with --approve"),
        (["--cancel", "no", "--arguments", "{}"], "--arguments: it does not go with --cancel"),
        (["--review", "allow", "--cancel", "no"], "--review and --cancel are given"),
        ([], "give one of --approve, --deny, --answer, --ask, --fail, --redispatch, --review, --cancel"),
        (["--reason", "x"], "none is given"),
    ],
)
def test_options_that_do_not_go_together_are_refused(said, capsys, options, problem):
    assert said(*options) == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "decision"),
    [
        (["approve", "s-1"], Approve()),
        (["approve", "s-1", "--arguments", '{"a":1}', "--reason", "less"], Approve({"a": 1}, reason="less")),
        (
            ["approve", "s-1", "--scope", "path:src/**", "--level", "write", "--for", "1h"],
            Approve(scope=Scope("path", "src/**", level="write", ends_s=3600)),
        ),
        (["deny", "s-1", "not this one"], Deny("not this one")),
        (["answer", "s-1", '"yes"', "--reason", "asked them"], Answer("yes", reason="asked them")),
        (["answer", "s-1", "null"], Answer(None)),
        (["review", "s-1", "allow"], Review("allow", "")),
        (["review", "s-1", "review", "halve it"], Review("review", "halve it")),
    ],
    ids=str,
)
def test_a_short_command_says_one_decision(monkeypatch, words, decision):
    assert decision_of(monkeypatch, *words) == decision


@pytest.mark.parametrize("words", [["deny", "s-1"], ["review", "s-1", "maybe"], ["answer", "s-1", "yes"], ["approve"]], ids=str)
def test_a_short_command_that_says_too_little_or_no_decision_is_refused(monkeypatch, words):
    assert decision_of(monkeypatch, *words) == ExitCode.BAD_INPUT
