"""What cannot be read is drawn as such, with its ids and what can still be done about it."""

import json

import pytest

from holdfast.cli import app, hints, pending, session, show
from holdfast.cli.options import Where
from holdfast.client.results import PendingCall
from holdfast.conversation import Executor, Status, StopReason, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.persistence import ConversationRow

NOW = 1_700_000_100_000
SEEN = PendingView(
    conversation_id="c-1",
    agent="desk",
    tool_call_id="call_1",
    suspension_id="s-1",
    tool="refund",
    arguments={"amount": 5},
    executor=Executor.SERVER,
    kind=SuspensionKind.APPROVAL,
    created_at=NOW - 60_000,
    expires_at=NOW + 60_000,
)
DEEP = SEEN.model_copy(update={"suspension_id": "s-2", "arguments": {}, "problem": "its arguments cannot be shown (\x1b[31m)"})
GONE = PendingView(conversation_id="c-3", suspension_id="s-3", created_at=NOW - 60_000, problem="the log has no entry 5")
STRAY = PendingView(conversation_id="", suspension_id="", created_at=0, problem="an index holds 'x'")


def called(view):
    return PendingCall.of(view, lambda *_, **__: None)


def test_the_table_of_pending_calls_shows_what_cannot_be_read(capsys):
    pending.draw([called(view) for view in (SEEN, DEEP, GONE, STRAY)], NOW, Where())

    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert '{"amount": 5}' in said
    for problem in ("its arguments cannot be shown", "the log has no entry 5", "an index holds 'x'"):
        assert f"it cannot be read: {problem}" in said
    assert "resolve s-1 --conversation c-1 --approve" in said
    assert "resolve s-2 --conversation c-1 --deny REASON" in said
    assert "resolve s-3" not in said
    assert [line for line in said.splitlines() if " c-3 " in line] != []


def test_nothing_is_offered_for_a_call_whose_ids_are_not_known():
    assert hints.resolving(called(GONE), Where()) == []
    assert [line.split("s-2 --conversation c-1 ")[1] for line in hints.resolving(called(DEEP), Where())] == [
        "--deny REASON",
        "--cancel REASON",
    ]


def test_a_row_that_cannot_be_read_is_json_like_any_other():
    for view in (DEEP, GONE, STRAY):
        shown = json.loads(json.dumps(called(view).to_dict()))
        assert shown["problem"] == view.problem
        assert shown["conversation_id"] == view.conversation_id


@pytest.mark.parametrize("view", [SEEN, DEEP, GONE, STRAY])
def test_a_call_is_drawn_by_itself(view, capsys):
    show._draw_call(show.console(), called(view), NOW, Where())

    said = capsys.readouterr().out
    assert ("It cannot be read" in said) is (view.problem is not None)
    assert ('"amount": 5' in said) is (view.problem is None)


def test_the_table_of_conversations_shows_what_cannot_be_read(capsys, monkeypatch):
    rows = [
        ConversationRow("c-1", "desk", Status.IDLE, NOW - 1000, NOW - 500, 0),
        ConversationRow("c-2", "", None, NOW - 1000, 0, 0, "the head of 'c-2' cannot be read (\x1b[2J)"),
        ConversationRow("", "", None, 0, 0, 0, "an index holds 'x'"),
        ConversationRow("c-3", "desk", Status.IDLE, NOW - 1000, NOW - 500, 0, stopped=StopReason.ROUNDS),
    ]

    asked = []

    class Opened:
        """A session whose client has these rows."""

        def __init__(self, _where):
            self.client = self

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            return None

        async def conversations(self, **given):
            asked.append(given)
            return pending.Page(items=rows)

        async def paused(self):
            return []

        async def now(self):
            return NOW

    monkeypatch.setattr(session, "reached", Opened)

    assert app.run(["list"]) == 0
    drawn = capsys.readouterr().out
    assert app.run(["list", "--json", "--stopped"]) == 0
    assert [given.get("stopped") for given in asked] == [None, True]
    items = json.loads(capsys.readouterr().out)["items"]

    assert "\x1b" not in drawn
    assert "idle (stopped: rounds)" in drawn
    assert items[3]["stopped"] == "rounds"
    assert "it cannot be read: the head of 'c-2'" in drawn
    assert "it cannot be read: an index holds 'x'" in drawn
    assert [item["problem"] is not None for item in items] == [False, True, True, False]
