"""What a worker says that a proposed call touches: what its tool declares, and nothing where that cannot be told."""

import pytest

from holdfast.actors.worker.model_answer import AnswerCall
from holdfast.actors.worker.model_outcome import judged
from holdfast.agent import Agent, Rules, Tool, TurnContext
from holdfast.conversation.terms.grants import CallTarget, Level, Target
from holdfast.redaction import PLAIN

TURN = TurnContext(conversation_id="c-1", agent="desk")


def edit(path: str) -> str:
    """Change a file."""
    return path


def look() -> str:
    """Look around."""
    return "nothing"


def desk(targets):
    return Agent(name="desk", model="m", tools=[Tool(callback=edit, targets=targets), Tool(callback=look)])


def proposed(name, arguments, targets=lambda arguments: [Target("path", arguments["path"], level="write")], *, gone=False):
    agent = desk(targets)
    calls = [AnswerCall("call_1", [name], [arguments])]
    (call,) = judged(None if gone else agent, agent.spec, calls, PLAIN, rules=Rules(), turn=TURN)
    return call


def test_a_call_touches_what_its_tool_says_of_its_arguments():
    assert proposed("edit", '{"path":"src/a"}').targets == (CallTarget(kind="path", value="src/a", level=Level.WRITE),)


def test_a_tool_that_declares_nothing_says_nothing():
    assert proposed("look", "{}").targets is None


@pytest.mark.parametrize("arguments", ['{"path":3}', "[]", "{", ""])
def test_of_arguments_that_cannot_be_used_nothing_is_asked(arguments):
    asked = []
    call = proposed("edit", arguments, lambda given: asked.append(given) or [])
    assert (call.targets or (), asked) == ((), [])


def test_a_call_of_a_tool_that_the_app_has_no_more_is_covered_by_no_grant():
    assert proposed("edit", '{"path":"src/a"}', gone=True).targets == ()


def test_a_function_that_fails_spoils_no_answer():
    call = proposed("edit", '{"path":"src/a"}', lambda _: 1 / 0)
    assert (call.problem, call.targets) == (None, ())
