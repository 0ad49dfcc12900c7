"""Questions in a terminal: drawn, asked one by one, and answered at once."""

import asyncio
import io
import json
from contextlib import asynccontextmanager

import pytest
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.questions import asked, drawn
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import AgentSpec, Executor, Question, ToolSpec
from holdfast.persistence import MemoryStore

TRIP = {
    "questions": [
        {"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"]},
        {"id": "extras", "text": "What else?", "options": ["meal", "seat", "bag"], "multiple": True, "required": False},
        {"id": "pace", "text": "How fast?", "options": ["slow", "fast"], "default": "slow"},
        {"id": "note", "text": "Anything to add?", "required": False},
    ]
}
DESK = AgentSpec(
    name="desk",
    model="test/model",
    tools=(ToolSpec(name="quiz", executor=Executor.HUMAN, questions=True), ToolSpec(name="ask", executor=Executor.HUMAN)),
)


@pytest.fixture
def writer(monkeypatch):
    """The writer of a conversation whose questions, and a plain question, wait, and which the commands reach."""
    store = MemoryStore()
    made = asyncio.run(Writer.of(store, "c-1"))
    made.spec = DESK
    asyncio.run(made.do(start(), begin(), call(("quiz", json.dumps(TRIP)), "ask")))

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, made)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    monkeypatch.setattr(session, "reached", reached)
    return made


def ids(writer, number=0):
    waiting = list(writer.state.calls)[number]
    return [waiting.suspension.suspension_id, "--conversation", "c-1"]


def typed(monkeypatch, *lines):
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_questions_are_asked_one_by_one_and_each_answer_is_judged(writer, monkeypatch, capsys):
    typed(monkeypatch, "Paris", "", "2", "bag, 1", "", "by train, please")
    assert run(["resolve", *ids(writer), "--ask"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Answer for ")
    assert "'Paris' is not offered: choose one of Rome, Oslo" in said.err
    assert "it is not answered" in said.err
    resolved = next(event for event in writer.events if event.kind == "call_resolved")
    assert json.loads(resolved.content)["result"]["answers"] == {
        "city": "Oslo",
        "extras": ["meal", "bag"],
        "pace": "slow",
        "note": "by train, please",
    }


def test_what_is_printed_as_json_is_json_alone(writer, monkeypatch, capsys):
    typed(monkeypatch, "1", "", "", "")
    assert run(["resolve", *ids(writer), "--ask", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation_id"] == "c-1"


def test_answers_may_be_given_at_once(writer, capsys):
    assert run(["resolve", *ids(writer), "--answer", '{"city":"Rome"}']) == 0
    assert "is recorded" in capsys.readouterr().out


def test_answers_that_do_not_fit_are_refused_by_the_name_of_the_question(writer, capsys):
    assert run(["resolve", *ids(writer), "--answer", '{"city":"Paris"}']) == ExitCode.BAD_INPUT
    assert "decision.value.city: 'Paris' is not offered" in capsys.readouterr().err
    assert len(writer.suspension_ids) == 2


def test_an_input_that_ends_decides_nothing(writer, monkeypatch, capsys):
    typed(monkeypatch, "1")
    assert run(["resolve", *ids(writer), "--ask"]) == ExitCode.BAD_INPUT
    assert "the input ended at question 2 of 4" in capsys.readouterr().err
    assert len(writer.suspension_ids) == 2


def test_a_call_without_questions_has_none_to_ask(writer, capsys):
    assert run(["resolve", *ids(writer, 1), "--ask"]) == ExitCode.BAD_INPUT
    assert "--ask: the call has no questions to ask" in capsys.readouterr().err


def test_lists_show_the_questions_and_the_command_that_asks_them(writer, capsys):
    assert run(["pending"]) == 0
    said = capsys.readouterr().out
    assert "it asks: Where to?" in said
    assert f"holdfast resolve {' '.join(ids(writer))} --ask\n" in said
    assert run(["show", "c-1"]) == 0
    shown = capsys.readouterr().out
    assert "(choose some, with commas between their numbers, may be left empty; its id is extras)" in shown
    assert "2) Oslo" in shown
    assert "The answer must fit" not in shown


@pytest.mark.parametrize(
    ("line", "answer"),
    [("2", "b"), ("b", "b"), (" 1 ", "10"), ("10", "10"), ("3", "1x")],
)
def test_an_option_is_named_by_its_number_or_as_it_reads(line, answer, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\n"))
    assert asked([Question("q", "Which?", options=["10", "b", "1x"])]) == {"q": answer}
    assert "1) 10" in capsys.readouterr().err


def test_what_a_model_wrote_obeys_nothing_in_the_terminal():
    question = Question("q", "Which?\n\x1b[2K1. Another", options=["a"])
    said = drawn(question, 1)
    assert "\x1b" not in said
    assert [line[:4] for line in said.splitlines()] == ["1. W", "   │", "   (", "   1"]


def test_a_conversation_that_nobody_attends_says_so(writer, capsys):
    other = asyncio.run(Writer.of(writer.store, "c-2"))
    asyncio.run(other.do(start(attended=False), begin()))
    for name, says in (("c-1", False), ("c-2", True)):
        assert run(["show", name]) == 0
        assert ("nobody attends it" in capsys.readouterr().out) is says
        assert run(["show", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["attended"] is not says
