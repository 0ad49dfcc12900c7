"""What is declared for conversations that nobody attends, and the tool with which a model asks questions."""

import logging

import pytest

from holdfast import Agent, Answer, Approve, Cancel, Deny, Scope, Suspend, Unattended, ask_user_questions, tool
from holdfast.agent import TurnContext
from holdfast.agent.unattended import call_of
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.spec import Executor, UnattendedSpec
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.schema import problem
from holdfast.errors import ConfigurationError

TURN = TurnContext(conversation_id="c-1", agent="desk", attended=False)
CALL = call_of("pay", {"amount": [5]}, TURN, prompt="Pay?", rule="large", rule_reason="It is much.")


def test_nothing_is_decided_without_a_word():
    assert Agent(name="desk").unattended == Unattended()
    assert Unattended().spec == UnattendedSpec()
    assert Unattended().about_approval(CALL) is Unattended().about_questions(CALL) is None
    assert not Unattended().by_function


def test_modes_stand_in_the_spec_and_a_function_does_not():
    modes = Unattended(approvals="deny", questions="defaults")
    assert modes.spec.model_dump() == {"approvals": "deny", "questions": "defaults"}
    assert not modes.by_function
    by_function = Unattended(approvals=lambda _: Approve(), questions=lambda _: Cancel())
    assert by_function.spec == UnattendedSpec()
    assert by_function.by_function
    assert Agent(name="desk", unattended=by_function).spec.digest == Agent(name="desk").spec.digest
    assert Agent(name="desk", unattended=modes).spec.digest != Agent(name="desk").spec.digest


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"approvals": "allow"}, r"Unattended\.approvals: 'allow' is neither a mode nor"),
        ({"approvals": "defaults"}, r"use ask, deny, or a function"),
        ({"questions": "deny"}, r"Unattended\.questions: 'deny' .* use ask, cancel, defaults, or a function"),
        ({"approvals": None}, "None is neither"),
        ({"approvals": Approve()}, "is neither"),
        ({"questions": lambda: None}, "is neither"),
    ],
)
def test_what_cannot_be_declared_names_the_field_and_the_fix(declared, said):
    with pytest.raises(ConfigurationError, match=said):
        Unattended(**declared)


def test_a_function_that_has_to_be_awaited_is_refused():
    async def later(_):
        return Approve()

    with pytest.raises(ConfigurationError, match="plain function"):
        Unattended(approvals=later)


def test_an_agent_takes_nothing_else():
    with pytest.raises(ConfigurationError, match=r"agent 'desk'\.unattended: str is not Unattended; give Unattended\("):
        Agent(name="desk", unattended="deny")


def test_a_function_is_given_the_call_and_decides_as_a_person_may():
    seen = []

    def decide(call):
        seen.append((call.tool, call.arguments, call.turn.attended, call.prompt, call.rule, call.rule_reason))
        call.arguments["amount"].append(6)
        return Deny("too much")

    unattended = Unattended(approvals=decide, questions=lambda _: Answer({"q": "a"}))
    arguments = {"amount": [5]}
    ruling = unattended.about_approval(call_of("pay", arguments, TURN, prompt="Pay?", rule="large", rule_reason="It is much."))
    assert ruling == DecisionRecord.of(Deny("too much"))
    assert seen == [("pay", {"amount": [5, 6]}, False, "Pay?", "large", "It is much.")]
    assert arguments == {"amount": [5]}
    assert unattended.about_questions(CALL) == DecisionRecord.of(Answer({"q": "a"}))


def raising(error):
    def decide(_):
        raise error

    return decide


async def coroutine():
    return Approve()


@pytest.mark.parametrize(
    "decide",
    [
        raising(RuntimeError("no")),
        raising(SystemExit(1)),
        raising(Suspend("Look")),
        lambda _: True,
        lambda _: "approve",
        lambda _: coroutine(),
        lambda _: Approve({"amount": object()}),
        lambda _: Approve(scope=Scope("tool", "pay", level="execute")),
    ],
)
def test_a_function_that_fails_or_decides_nothing_leaves_the_call_to_a_person(decide, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert Unattended(approvals=decide).about_approval(CALL) is None
    assert "Unattended.approvals could not decide about a call of pay, so a person is asked" in caplog.text


def test_a_function_may_leave_a_call_to_a_person_in_silence(caplog):
    assert Unattended(approvals=lambda _: None).about_approval(CALL) is None
    assert caplog.text == ""


def test_the_tool_for_questions_tells_the_model_what_they_may_be():
    spec = ask_user_questions.spec
    assert (spec.name, spec.executor, spec.questions) == ("ask_user_questions", Executor.HUMAN, True)
    asked = {
        "questions": [
            {"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"], "default": "Rome"},
            {"id": "extras", "text": "What else?", "options": ["meal"], "multiple": True, "default": ["meal"]},
            {"id": "note", "text": "Anything?", "required": False},
        ]
    }
    assert problem(spec.parameters, asked) is None
    assert len(questions.parse(asked)) == 3
    for wrong in ({"questions": []}, {"questions": [{"id": "a"}]}, {"questions": [{"id": "a", "text": "b", "label": "c"}]}):
        assert problem(spec.parameters, wrong) is not None
        with pytest.raises(questions.NotQuestions):
            questions.parse(wrong)


def test_the_tool_stands_beside_others_in_an_agent():
    @tool
    def look() -> None:
        """Look."""

    agent = Agent(name="desk", tools=[ask_user_questions, look])
    assert agent.spec.tool("ask_user_questions").questions
    assert not agent.spec.tool("look").questions
    assert jsontext.loads(agent.spec.tools[0].parameters)["required"] == ["questions"]
