"""The inbox in the terminal: what it shows, and each decision that is made there, driven by keys."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from claiming import claim, give_back
from stores import WithActors
from textual.widgets import Input, RadioSet, Static
from waiting_calls import suspended
from writer import DESK, Writer, assign, begin, call, comment, resolve, start

from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.inbox.app import Inbox
from holdfast.cli.options import Where
from holdfast.cli.session import Reached
from holdfast.cli.watching import Wanted
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Deny, Executor, Principal, ToolSpec
from holdfast.conversation.terms.parts import FilePart, ImagePart, TextPart
from holdfast.errors import StoreUnavailable
from holdfast.persistence import MemoryStore

HOSTILE = "A1 \x1b[31mred\x1b[0m \x07 [bold]x[/bold] \u202egnp.exe \x9b2J"
QUIZ = DESK.model_copy(
    update={
        "tools": (
            ToolSpec(name="quiz", executor=Executor.HUMAN, questions=True),
            ToolSpec(
                name="form",
                executor=Executor.HUMAN,
                response_schema=json.dumps(
                    {
                        "type": "object",
                        "properties": {"to": {"type": "string"}, "copies": {"type": "integer"}, "rush": {"type": "boolean"}},
                        "required": ["to", "copies"],
                    }
                ),
            ),
        )
    }
)
ASKED = {
    "questions": [
        {"id": "size", "text": "Which size?", "options": ["small", "large"]},
        {"id": "why", "text": "Why?"},
    ]
}
WIDE, NARROW = (200, 40), (80, 30)


@pytest.fixture
def desk():
    """A stack in memory with its writers."""
    store = MemoryStore()
    return SimpleNamespace(store=store, stack=WithActors(store))


@pytest.fixture
def screen(desk):
    """The inbox over that stack, as ana sees it; its pilot and the app."""

    @asynccontextmanager
    async def opened(size=WIDE, **wanted):
        client = AsyncClient(StackGateway(desk.stack, timeout_s=10)).acting_as(Principal("ana"))
        app = Inbox(Reached(client, desk.stack, Where()), Wanted(wanted))
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(pilot, lambda: not app.waiting.problem)
            yield app, pilot
        await client.gateway.feed.close()

    return opened


async def until(pilot, condition, within_s=20):
    """Wait for a condition of the screen."""
    try:
        async with asyncio.timeout(within_s):
            while not condition():
                await pilot.pause(0.02)
    except TimeoutError:
        raise AssertionError(text(pilot.app)) from None


async def waits(desk, name, *calls, spec=DESK, since_ms=0):
    """A conversation whose calls wait."""
    writer = desk.stack.writers[name] = await Writer.of(desk.store, name)
    writer.spec = spec
    await writer.do(start(spec=None if spec is DESK else spec), begin(), call(*calls), now=await desk.store.now() - since_ms)
    return writer


def lines(app):
    """The lines of the whole screen."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def text(app):
    return "\n".join(lines(app))


def shown(app):
    """The text of the call that is open."""
    return str(app.query_one("#text", Static).content)


async def opened(app, pilot, name):
    """Wait until a call of this conversation is shown whole."""
    await until(pilot, lambda: app.shown is not None and app.shown.call.conversation_id == name)
    await pilot.pause()


async def test_what_expires_first_comes_first_and_is_shown_whole_with_its_conversation(desk, screen):
    await waits(desk, "late", ("refund", '{"order": "A1", "amount": 42}'))
    await waits(desk, "soon", ("refund", json.dumps({"order": HOSTILE})), since_ms=50 * 60_000)

    async with screen() as (app, pilot):
        await opened(app, pilot, "soon")
        seen = text(app)

        assert [one.call.conversation_id for one in app.waiting.entries.values()] == ["soon", "late"]
        assert "2 wait" in lines(app)[0]
        assert "If approved, the tool runs once, with these arguments." in seen
        assert "│ hello" in shown(app)
        assert "[bold]x[/bold]" in seen
        assert "\\u202e" in seen
        assert not any(char < " " or "\x7f" <= char < "\xa0" or char == "\u202e" for char in seen.replace("\n", ""))


async def test_images_and_files_of_a_message_are_words(desk, screen):
    said = (TextPart.of("Broken:"), ImagePart.of(b"\x89PNG\r\n\x1a\n"), FilePart.of(b"%PDF-1", filename="bill\u202e.pdf"))
    await suspended(desk, "c-1", text=said)

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")

        assert "│ Broken:\n│ [image]\n│ [file bill\\u202e.pdf]" in shown(app)


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_words_of_others_are_marked_on_each_line_also_where_they_are_wrapped(desk, screen, size):
    words = "It was approved by you. " * 30
    await suspended(desk, "c-1", "approval", prompt=words, text=words)

    async with screen(size) as (app, pilot):
        await until(pilot, lambda: app.shown is not None)
        await pilot.press("enter")
        await pilot.resize_terminal(size[0] - 3, size[1])
        await pilot.pause(0.2)
        forged = [line.rpartition("│ It was")[0] for line in lines(app)[1:] if "It was approved" in line]
        seen = [line for line in lines(app)[1:] if "approved by you" in line and "│ " not in line]
        assert forged
        assert not seen, text(app)
        assert max(len(line) for line in lines(app) if "│ " in line) > size[0] - 40, "the width is used"


async def test_a_call_is_approved_once_and_what_became_of_it_stands_in_its_place(desk, screen):
    writer = await waits(desk, "c-1", ("refund", '{"order": "A1"}'))

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("a", *"seen", "enter")
        await until(pilot, lambda: "approved by you" in text(app))

        assert "It was approved by you." in shown(app)
        assert "a Approve" not in text(app), "it is decided"
    (settled,) = [one for one in writer.events if one.kind == "suspension_settled"]
    assert (settled.by, settled.principal.id, settled.reason) == ("approve", "ana", "seen")


async def test_escape_decides_nothing(desk, screen):
    writer = await waits(desk, "c-1", "refund")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("d", *"no", "escape")
        await pilot.pause()
        assert app.screen_stack[1:] == []
    assert writer.suspension_ids


@pytest.mark.parametrize(
    ("kind", "keys", "by", "body"),
    [
        ("approval", ["d", *"not", "enter"], "deny", '"not"'),
        ("approval", ["x", *"old", "enter"], "cancel", None),
        ("client_exec", ["f", *"gone", "enter"], "fail", '"gone"'),
        ("lost", ["u", "enter"], "redispatch", None),
        ("limit", ["a", "enter"], "approve", None),
        ("limit", ["d", *"done", "enter"], "deny", '"done"'),
        ("elicitation", ["w", *"ten", "ctrl+s"], "answer", '"ten"'),
        ("review", ["v", "down", "down", "enter", "tab", *"halve", "ctrl+s"], "review", '{"notes":"halve","verdict":"review"}'),
    ],
    ids=str,
)
async def test_each_kind_is_decided_in_place(desk, screen, kind, keys, by, body):
    await suspended(desk, "c-1", kind)
    writer = desk.stack.writers["c-1"]

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press(*keys)
        await until(pilot, lambda: "by you" in text(app))
    settled = [one for one in writer.events if one.kind == "suspension_settled"][-1]
    assert settled.decision == by
    assert body is None or json.loads(settled.body) == json.loads(body)


async def test_a_failure_without_words_is_asked_for_them(desk, screen):
    await suspended(desk, "c-1", "client_exec")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("f", "enter")
        await until(pilot, lambda: "Say what went wrong" in text(app))
        await pilot.press(*"lost", "enter")
        await until(pilot, lambda: "marked as failed by you" in text(app))


async def test_questions_are_asked_one_by_one_and_each_is_judged_before_the_next(desk, screen):
    writer = await waits(desk, "c-1", ("quiz", json.dumps(ASKED)), spec=QUIZ)

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("w")
        await until(pilot, lambda: "Question 1 of 2" in text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Question 1 of 2" in text(app) and app.screen.query_one("#problem", Static).content)
        await pilot.press("down", "enter", "ctrl+s")
        await until(pilot, lambda: "Question 2 of 2" in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "Question 1 of 2" in text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Question 2 of 2" in text(app))
        await pilot.press(*"because", "ctrl+s")
        await until(pilot, lambda: "answered by you" in text(app))
    (settled,) = [one for one in writer.events if one.kind == "suspension_settled"]
    assert json.loads(settled.body) == {"size": "large", "why": "because"}


async def test_a_form_is_drawn_from_the_schema_and_says_what_is_wrong(desk, screen):
    writer = await waits(desk, "c-1", "form", spec=QUIZ)

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("w")
        await until(pilot, lambda: "copies (needed)" in text(app))
        await pilot.press(*"ana", "tab", *"two", "ctrl+s")
        await until(pilot, lambda: "this is no whole number" in text(app))
        assert writer.suspension_ids
        app.screen.query(Input)[1].value = "2"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "answered by you" in text(app))
    (settled,) = [one for one in writer.events if one.kind == "suspension_settled"]
    assert json.loads(settled.body) == {"to": "ana", "copies": 2}


@pytest.fixture
def editor(monkeypatch, tmp_path):
    """Sets the person's editor: a program that replaces a text in the file."""

    def edits(old, new, code=0):
        file = tmp_path / "editor.py"
        file.write_text(
            f"import pathlib, sys\np = pathlib.Path(sys.argv[1])\n"
            f"p.write_text(p.read_text().replace({old!r}, {new!r}) or {new!r})\nsys.exit({code})\n"
        )
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"{sys.executable} {file}")

    return edits


async def test_edited_arguments_are_compared_before_they_are_approved(desk, screen, editor):
    writer = await waits(desk, "c-1", ("refund", '{"order": "A1", "amount": 42}'))
    editor("42", "7")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("e")
        await until(pilot, lambda: '+   "amount": 7' in text(app))
        assert '-   "amount": 42' in text(app)
        await pilot.press("enter")
        await until(pilot, lambda: "approved by you" in text(app))
    (settled,) = [one for one in writer.events if one.kind == "suspension_settled"]
    assert json.loads(settled.body) == {"order": "A1", "amount": 7}


UNUSABLE = [("42", "?", 0, "Nothing was decided"), ("42", "7", 3, "failed (3)"), ("x", "y", 0, "Nothing was changed")]


@pytest.mark.parametrize(("old", "new", "code", "says"), UNUSABLE)
async def test_an_editor_that_leaves_nothing_usable_decides_nothing(desk, screen, editor, old, new, code, says):
    writer = await waits(desk, "c-1", ("refund", '{"amount": 42}'))
    editor(old, new, code)

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("e")
        await until(pilot, lambda: says in text(app))
    assert writer.suspension_ids


async def test_the_notes_of_a_review_are_written_in_the_persons_editor(desk, screen, editor):
    await suspended(desk, "c-1", "review")
    editor("", "halve it")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("v", "enter", "ctrl+e")
        await until(pilot, lambda: "halve it" in text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "allowed by you" in text(app))


async def test_an_approval_may_give_a_scope(desk, screen):
    writer = await waits(desk, "c-1", ("refund", '{"order": "A1"}'))

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("g")
        await until(pilot, lambda: "tool refund" in text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "choose what later calls may do" in text(app))
        assert writer.suspension_ids
        app.screen.query_one(RadioSet).focus()
        await pilot.press("enter", "ctrl+s")
        await until(pilot, lambda: "approved by you" in text(app))
    assert [(one.kind, one.pattern) for one in writer.state.grants] == [("tool", "refund")]


async def test_what_somebody_else_decides_meanwhile_is_said_in_its_place(desk, screen):
    writer = await waits(desk, "c-1", "refund")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await writer.do(resolve(Deny("no"), principal=Principal("bo")))
        await until(pilot, lambda: "It was denied by bo." in shown(app))
        assert "denied by bo" in lines(app)[1]
        assert "a Approve" not in text(app)
        assert "Nothing waits" in lines(app)[0]


async def test_a_call_says_which_client_has_claimed_it_and_offers_its_cancellation_alone(desk, screen):
    async with screen() as (app, pilot):
        writer = await waits(desk, "c-1", "locate")
        await opened(app, pilot, "c-1")
        assert "w Answer f Failed x Cancel" in text(app)
        await writer.do(claim("laptop", principal=Principal("bo")))
        await until(pilot, lambda: "claimed by the client laptop of bo" in shown(app))
        assert "laptop runs it" in text(app)
        await until(
            pilot, lambda: "Failed" not in lines(app)[-1] and "x Cancel" in text(app)
        )  # the foot is drawn after the rest
        await writer.do(give_back("laptop", principal=Principal("bo"), began=False))
        await until(pilot, lambda: "claimed by" not in shown(app))


async def test_a_decision_that_comes_too_late_changes_nothing_and_says_so(desk, screen):
    writer = await waits(desk, "c-1", "refund")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("a")
        await writer.do(resolve(Deny("no"), principal=Principal("bo")))
        await pilot.press("enter")
        await until(pilot, lambda: "Too late" in text(app))
    (settled,) = [one for one in writer.events if one.kind == "suspension_settled"]
    assert settled.by == "deny"


async def test_new_calls_and_notes_of_others_come_by_themselves(desk, screen):
    async with screen() as (app, pilot):
        assert "Nothing waits" in lines(app)[0]
        writer = await waits(desk, "c-1", "refund")
        await opened(app, pilot, "c-1")
        await writer.do(comment("Ask Bo first", principal=Principal("cleo")), assign("bo", principal=Principal("bo")))
        await until(pilot, lambda: "cleo: Ask Bo first" in shown(app) and "taken on by bo" in shown(app))
        assert "bo is on it · 1 comment" in text(app)


async def test_a_call_is_taken_on_given_back_commented_and_hidden(desk, screen):
    writer = await waits(desk, "c-1", "refund")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("t", "enter")
        await until(pilot, lambda: "taken on by ana" in shown(app))
        await pilot.press("t", "-", "enter")
        await until(pilot, lambda: "taken on by" not in shown(app))
        await pilot.press("c", *"hm", "enter")
        await until(pilot, lambda: "ana: hm" in shown(app))
        await pilot.press("z", "x", "enter")
        await until(pilot, lambda: "is no time" in text(app))
        await pilot.press(*["backspace"] * 9, *"2h", "enter")
        await until(pilot, lambda: "Nothing waits" in lines(app)[0])
    assert writer.suspension_ids


async def test_several_are_decided_after_a_list_and_each_has_its_result(desk, screen):
    names = [f"c-{number}" for number in range(3)]
    writers = [await waits(desk, name, ("refund", json.dumps({"order": name}))) for name in names]

    async with screen() as (app, pilot):
        await until(pilot, lambda: len(app.waiting.entries) == 3)
        await pilot.press("space", "space", "space", "s")
        await until(pilot, lambda: "Decide 3 calls" in text(app) and '"c-2"' in text(app))
        await writers[1].do(resolve(Deny("no"), principal=Principal("bo")))
        await pilot.press("enter", "ctrl+s")
        await until(pilot, lambda: "was denied before" in text(app))
        seen = text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "Nothing waits" in lines(app)[0])
    assert seen.count("│   approved") == 2
    assert [writer.suspension_ids for writer in writers] == [(), (), ()]


async def test_a_narrow_screen_shows_the_list_or_the_call_and_decides_only_what_is_open(desk, screen):
    writer = await waits(desk, "c-1", "refund")

    async with screen(NARROW) as (app, pilot):
        await until(pilot, lambda: app.shown is not None)
        await pilot.press("a", "enter")
        await pilot.pause()
        assert writer.suspension_ids, "only enter opened it"
        await until(pilot, lambda: "Arguments" in text(app))
        assert lines(app)[-1].endswith("q Quit")
        assert len(lines(app)[-1]) <= 80
        await pilot.press("a", "enter")
        await until(pilot, lambda: "It was approved by you." in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "approved by you" in lines(app)[1])


async def test_only_wanted_calls_are_listed(desk, screen):
    await waits(desk, "c-1", "refund", "ask")

    async with screen(tool="ask") as (app, pilot):
        await waits(desk, "c-2", "refund", "ask")
        await until(pilot, lambda: len(app.waiting.entries) == 2)
        assert {one.call.tool for one in app.waiting.entries.values()} == {"ask"}


async def test_a_key_pressed_before_the_next_call_is_shown_decides_neither(desk, screen):
    writers = [await waits(desk, f"c-{number}", "refund") for number in range(2)]

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-0")
        app.call_list.action_move(1)
        assert not app.check_action("approve", ())
        app.action_approve()
        await pilot.pause()
        assert app.screen_stack[1:] == []
    assert all(writer.suspension_ids for writer in writers)


async def test_of_more_calls_than_are_listed_the_rest_come_as_those_are_decided(desk, screen, monkeypatch):
    for name, value in (("MOST", 4), ("FIRST", 2), ("AT_ONCE", 2), ("LOOK_S", 0.05)):
        monkeypatch.setattr(f"holdfast.cli.inbox.waiting.{name}", value)
    writers = [await waits(desk, f"c-{number}", "refund", since_ms=1000 * (9 - number)) for number in range(6)]

    async with screen() as (app, pilot):
        await until(pilot, lambda: "4 and more wait" in lines(app)[0])
        for writer in writers[:3]:
            await writer.do(resolve(Deny("no"), principal=Principal("bo")))
        await until(pilot, lambda: "3 wait" in lines(app)[0])
        assert {name for name, one in app.waiting.entries.items() if not one.ended} == {
            *(name for writer in writers[3:] for name in writer.suspension_ids)
        }


async def test_of_a_filter_the_most_urgent_are_found_among_all_pages(desk, screen, monkeypatch):
    for name, value in (("MOST", 4), ("FIRST", 2), ("AT_ONCE", 2)):
        monkeypatch.setattr(f"holdfast.cli.inbox.waiting.{name}", value)
    for number in range(7):
        await waits(desk, f"c-{number}", "refund", "ask", since_ms=1000 * (9 - number))
    await waits(desk, "client", "locate")

    async with screen(tool="refund") as (app, pilot):
        await until(pilot, lambda: "7 wait" in lines(app)[0])
        assert [one.call.conversation_id for one in app.waiting.entries.values()] == [f"c-{number}" for number in range(7)]


async def test_the_list_is_read_anew_now_and_then_and_shows_what_was_hidden_for_a_while(desk, screen, monkeypatch):
    for name, value in (("LOOK_S", 0.05), ("REREAD_S", 0.1)):
        monkeypatch.setattr(f"holdfast.cli.inbox.waiting.{name}", value)
    await waits(desk, "c-1", "refund")

    async with screen() as (app, pilot):
        await opened(app, pilot, "c-1")
        await pilot.press("z", *["backspace"] * 3, *"4s", "enter")
        await until(pilot, lambda: "Nothing waits" in lines(app)[0])
        await until(pilot, lambda: "1 wait" in lines(app)[0])


@pytest.mark.parametrize(
    ("kind", "key", "says"),
    [("approval", "g", "For how long"), ("approval", "d", "Escape"), ("review", "v", "Your editor")],
)
async def test_a_sheet_fits_on_a_small_terminal(desk, screen, kind, key, says):
    await suspended(desk, "c-1", kind)

    async with screen((80, 24)) as (app, pilot):
        await until(pilot, lambda: app.shown is not None)
        await pilot.press("enter", key)
        await until(pilot, lambda: says in text(app))
        assert sum(line.rstrip().endswith(("╮", "╯")) for line in lines(app)) == 2, text(app)
        if key != "d":
            assert "^s Send" in text(app)


async def test_an_error_of_the_connection_is_said_and_the_list_is_followed_anew(desk, screen, monkeypatch):
    await waits(desk, "c-1", "refund")
    monkeypatch.setattr("holdfast.cli.inbox.waiting.FIRST_S", 0.05)
    monkeypatch.setattr("holdfast.client.list_feed.BLOCK_MS", 10)

    async with screen() as (app, pilot):
        changes, down = desk.store.changes, True

        async def failing(*given, **named):
            if down:
                raise StoreUnavailable("gone for a walk")
            return await changes(*given, **named)

        monkeypatch.setattr(desk.store, "changes", failing)
        await until(pilot, lambda: "gone for a walk" in lines(app)[0])
        down = False
        await waits(desk, "c-2", "refund")
        await until(pilot, lambda: "2 wait" in lines(app)[0] and "gone" not in lines(app)[0])


async def test_the_first_error_of_the_connection_ends_it_with_that_error(desk):
    on = Reached(AsyncClient(StackGateway(desk.stack, timeout_s=10)), desk.stack, Where())

    async def away(*_, **__):
        raise StoreUnavailable("nobody is there")

    desk.store.changes = away
    app = Inbox(on, Wanted({}))
    async with app.run_test():
        async with asyncio.timeout(20):
            while app.failed is None:
                await asyncio.sleep(0.01)
    assert isinstance(app.failed, StoreUnavailable)


async def test_q_leaves(desk, screen):
    async with screen() as (app, pilot):
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)


def test_without_a_terminal_it_says_what_to_use(capsys):
    assert run(["inbox"]) == ExitCode.BAD_INPUT
    assert "holdfast pending" in capsys.readouterr().err
