"""Text of models and people: what nobody can see is written as its escape, and prose stays prose."""

import json
import sys
import unicodedata

import pytest
from rich.console import Console

from holdfast.cli import demo, display, hints, pending, show
from holdfast.cli.display import clean, clean_block, to_json
from holdfast.cli.options import Where
from holdfast.client.results import PendingCall
from holdfast.conversation import Executor, SuspensionKind
from holdfast.conversation.records.calls import PendingView

NOW = 1_700_000_100_000
INVISIBLE = [
    *"\x00\x07\x1b\x7f\x9b\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180e\u180f\u200b\u200c\u200d\u200e\u200f\u2028\u2029",
    *"\u202a\u202e\u2060\u2064\u2066\u2069\u206a\u2800\u3164\ufe00\ufe0e\ufe0f\ufeff\uffa0\ufff9\ufffb\ue000\u2003\u1680\ud800",
    *"\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef\U000e0fff\U0001d159\U0001d173\U00016fe4\U000f0000",
]
READABLE = [
    "plain text, 42 €",
    "Grüße, здравствуйте, 你好\u3000世界, שלום, สวัสดี",
    "Combien\u202f? Vingt\u00a0euros.",
    "می\u200cخواهم",  # noqa: RUF001 -- Persian: the joiner keeps two letters apart
    "क्\u200dष",  # Devanagari: it asks for the half form
    "👩\u200d👩\u200d👧 👍🏽 ❤\ufe0f 🏳\ufe0f\u200d🌈 👩🏽\u200d🚀 1\ufe0f\u20e3 ↔\ufe0f ©\ufe0f 🇩🇪",
    "e\u0301 and a\u0308",
]


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setattr("holdfast.cli.display.sys.stdout", sys.__stdout__)


def seen_whole(text: str) -> bool:
    return not any(char in text for char in INVISIBLE)


@pytest.mark.parametrize("char", INVISIBLE, ids=lambda char: f"U+{ord(char):04X}")
def test_what_nobody_sees_is_written_as_its_escape(char):
    escape = char.encode("unicode_escape", "surrogatepass").decode()

    for text in (f"pay{char}load", char, f"x{char}{char}", f"支{char}付", f"a{char}b", f"❤{char}{char}"):
        for shown in (clean(text), clean_block(text)):
            assert escape in shown
            assert char not in shown.replace("❤\ufe0e", "").replace("❤\ufe0f", "")
    assert json.loads(to_json({char: f"x{char}y"})) == {char: f"x{char}y"}
    assert char not in to_json({char: f"x{char}y"})


@pytest.mark.parametrize("text", READABLE)
def test_prose_of_any_script_and_emoji_stay_as_they_are(text):
    assert clean(text) == clean_block(text) == text
    assert to_json(text) == f'"{text}"'


def test_only_what_draws_something_stays_of_joiners_and_variation_selectors():
    assert clean("👍\ufe0f\ufe0f\ufe01") == "👍\ufe0f\\ufe0f\\ufe01"  # letters can be hidden in a row of these
    assert clean("🏴\U000e0067\U000e007f") == "🏴\\U000e0067\\U000e007f"
    assert clean("👩\u200dx, \u200d👩, 1\ufe0f") == "👩\\u200dx, \\u200d👩, 1\\ufe0f"
    assert clean("a=\ufe0f1 + \ufe0f 20°\ufe0f ^\u200d^") == "a=\\ufe0f1 + \\ufe0f 20°\\ufe0f ^\\u200d^"
    assert clean("\u0628\u200c\u200c\u0628") == "\u0628\\u200c\\u200c\u0628"


def test_every_format_character_and_every_filler_of_unicode_is_escaped():
    """Names say it of those that are letters or marks by category, so that the list does not fall behind the standard."""
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        name = unicodedata.name(char, "")
        hidden = unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
        filler = name.endswith(" FILLER") and "GAP" not in name and "LINE" not in name  # these two are drawn
        if hidden or filler or "VARIATION SELECTOR" in name:
            assert clean(char) != char, f"U+{point:04X} {name}"


def test_lines_and_tabs_stay_in_a_block_alone():
    assert clean("a\tb\nc\r\nd") == "a\\tb\\nc\\r\\nd"
    assert clean_block("a\tb\nc\r\nd\re") == "a   b\nc\nd\\re"


# --- what is asked, and the command that lets it run


def asked(**given):
    view = PendingView(
        conversation_id="c-1",
        agent="desk",
        tool_call_id="call_1",
        suspension_id="s-1",
        tool="refund",
        arguments={"order": "A-1"},
        executor=Executor.SERVER,
        kind=SuspensionKind.APPROVAL,
        created_at=NOW - 60_000,
        expires_at=NOW + 60_000,
    )
    return PendingCall.of(view.model_copy(update=given), lambda *_, **__: None)


def listed(capsys, **given) -> str:
    pending.draw([asked(**given)], NOW, Where(namespace="mine"))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"arguments": {}},
        {"arguments": {"text": 'two\nlines, a\ttab, "quotes" and C:\\users\\b'}},
        {"prompt": "Pay 5?\nReally?"},
        {"kind": SuspensionKind.LOST},
    ],
)
def test_a_call_that_is_shown_whole_gets_the_command_that_lets_it_run(capsys, given):
    said = listed(capsys, **given)

    flag = "--redispatch" if "kind" in given else "--approve"
    assert f"\n  holdfast resolve s-1 --conversation c-1 {flag} --namespace mine\n" in said


@pytest.mark.parametrize(
    "given",
    [
        {"arguments": {"text": "x" * 200}},
        {"arguments": {"order": "A\u31641"}},
        {"arguments": {"order": "A\u202e1"}},
        {"arguments": {"order": "A\x1b[2J1"}},
        {"arguments": {"order": "A\b1"}},
        {"arguments": {"order": "A\\\b1"}},
        {"arguments": {"order\ufe0f": "A"}},
        {"prompt": "y" * 400},
        {"prompt": "Pay\u2800 5?"},
        {"arguments": {"text": "x" * 200}, "kind": SuspensionKind.LOST},
    ],
)
def test_a_call_that_is_cut_or_has_escapes_is_to_be_looked_at_first(capsys, given):
    said = listed(capsys, **given)

    assert "holdfast resolve" not in said
    assert "look first: holdfast show c-1 --namespace mine\n" in said
    assert seen_whole(said.replace("\n", ""))


def test_a_terminal_that_shows_no_such_letters_is_no_place_to_approve(capsys, monkeypatch):
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr("holdfast.cli.display.sys", type("sys", (), {"stdout": Ascii}))
    shown = to_json({"who": "Müller"})

    assert shown == '{"who": "M\\u00fcller"}'
    assert not display.is_whole_json(shown, 80)


def test_a_question_is_answered_in_the_persons_own_words_so_its_command_stays(capsys):
    said = listed(capsys, kind=SuspensionKind.ELICITATION, arguments={"text": "x" * 200})

    assert "s-1 --conversation c-1 --answer JSON" in said


def test_ids_that_cannot_be_shown_are_in_no_command(capsys):
    for name in ("conversation_id", "tool_call_id", "suspension_id"):
        call = asked(**{name: "c\u202e-1"})

        assert hints.resolving(call, Where()) == []
        assert hints.next_step(call, Where(), whole=True) is None
        pending.draw([call], NOW, Where())
        show._draw_call(show.console(), call, NOW, Where())
        assert "\u202e" not in capsys.readouterr().out


def test_show_draws_names_as_they_are_and_escapes_ids(capsys):
    show._draw_call(show.console(), asked(tool="[bold]x[/bold]\u3164"), NOW, Where())
    show._draw_message(show.console(), {"role": "tool", "name": "x", "tool_call_id": "c\u2800", "content": "y\u3164"})
    said = capsys.readouterr().out

    assert "Approval: [bold]x[/bold]\\u3164" in said
    assert "tool x (c\\u2800)\n    y\\u3164" in said


def test_the_demo_shows_a_real_models_words_as_data(capsys):
    console = Console(width=200)
    called = {"function": {"name": "x\x1b[2J"}}
    demo._transcript(
        console,
        [
            {"role": "user", "content": "u\x1b[2J"},
            {"role": "assistant", "tool_calls": [called]},
            {"role": "tool", "name": "t\u3164", "content": "r\x1b]0;x\x07"},
            {"role": "assistant", "content": "a\x1b[2J\u2800"},
        ],
    )
    console.print(demo._table([asked(tool="[red]t", arguments={"a\u3164": "\x1b[2J"}, prompt="\x9b2J")]))
    said = capsys.readouterr().out

    assert seen_whole(said.replace("\n", ""))
    assert "[red]t" in said


# --- reviews

REVIEW = {
    "kind": SuspensionKind.REVIEW,
    "title": "A refund of 900\u202e",
    "prompt": "May it?",
    "action": "confirm",
    "report_md": "# Why\n\nThe mug \x1b[2Jarrived [red]broken[/red]\u3164.",
    "payload": {"amount": [900], "to\u200b": "\x07"},
    "decisions": ("review", "cancel"),
}


def drawn(capsys, **given) -> str:
    show._draw_call(show.console(), asked(**given), NOW, Where(namespace="mine"))
    return capsys.readouterr().out


def test_a_review_is_drawn_whole_with_what_nobody_sees_as_escapes(capsys):
    said = drawn(capsys, **REVIEW)

    for part in (
        "Review: refund",
        "A refund of 900\\u202e",
        "May it?",
        "confirm",
        "# Why",
        "\\x1b[2Jarrived [red]broken[/red]",
    ):
        assert part in said
    assert '"to\\u200b": "\\u0007"' in said
    assert '"order": "A-1"' in said
    assert seen_whole(said.replace("\n", ""))
    assert "s-1 --conversation c-1 --review VERDICT --notes TEXT --namespace mine\n" in said
    assert "s-1 --conversation c-1 --cancel REASON --namespace mine\n" in said


def test_what_is_too_long_to_be_read_at_a_terminal_is_cut_and_says_so(capsys):
    long = {"report_md": "x" * 2_000_000, "payload": ["y" * 2_000_000], "prompt": "z" * 2_000_000}
    said = drawn(capsys, **REVIEW | long)

    assert all(said.count(char * 100) < show.REVIEWED_LENGTH / 100 for char in "xyz")
    assert said.count("--json has all of them") == 3
    assert "--review" not in said
    assert "--cancel REASON" in said


def test_a_review_is_listed_with_its_title_and_is_to_be_looked_at_first(capsys):
    said = listed(capsys, **REVIEW)

    assert "it asks: A refund of 900\\u202e\n" in said
    assert "look first: holdfast show c-1 --namespace mine\n" in said
    assert "takes --review allow, block or review" in said
    assert "--cancel REASON" in said
    short = {"title": "Two of them?", "report_md": None, "payload": None}
    assert "--review VERDICT --notes TEXT" in listed(capsys, **REVIEW | short)


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({}, ["--approve", "--approve --arguments JSON", "--deny REASON", "--cancel REASON"]),
        ({"decisions": ("approve", "cancel")}, ["--approve", "--cancel REASON"]),
        ({"decisions": ("edit", "deny", "cancel")}, ["--approve --arguments JSON", "--deny REASON", "--cancel REASON"]),
        ({"decisions": ("approve", "answer", "a newer word")}, ["--approve", "--answer JSON"]),
        ({"kind": SuspensionKind.ELICITATION}, ["--answer JSON", "--deny REASON", "--cancel REASON"]),
        ({"kind": SuspensionKind.REVIEW}, ["--review VERDICT --notes TEXT", "--cancel REASON"]),
        (REVIEW | {"problem": "its payload cannot be shown"}, ["--cancel REASON"]),
        ({"decisions": ("a newer word",)}, []),
    ],
)
def test_the_commands_that_are_offered_are_those_that_the_call_takes(capsys, given, flags):
    commands = hints.resolving(asked(**given), Where())

    assert [command.partition("s-1 --conversation c-1 ")[2] for command in commands] == flags
    hints.next_step(asked(**given), Where(), whole=False)
    drawn(capsys, **given)
