"""An answer that is paid for is kept, whatever the app's functions about its calls do: they hang, fail, or find no thread."""

import asyncio
import sys
import threading
from functools import partial

import pytest

from holdfast.actors.worker import app_loop, asking
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.gate import UNTOLD_DECIDERS
from holdfast.actors.worker.model_answer import AnswerCall
from holdfast.actors.worker.model_outcome import UNVALIDATED, judged
from holdfast.actors.worker.threads import RuleThreads
from holdfast.agent import Agent, App, Rules, Tool, TurnContext, Unattended
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.grants import Target
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.redaction import PLAIN

TURN = TurnContext(conversation_id="c-1", agent="desk", attended=False)
SAYS = {
    "prompt": lambda _: "Shall it?",
    "approval": lambda _: False,
    "approvers": lambda _: Approvers("role:finance"),
    "targets": lambda _: [Target("path", "src/a")],
}


class Fits:
    """A parameter's type, whose validator does what it is told to."""

    does = staticmethod(lambda: None)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source, handler):
        from pydantic_core import core_schema  # noqa: PLC0415 - of this class alone

        return core_schema.no_info_after_validator_function(lambda value: Fits.does() or value, handler(int))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema, handler):
        return handler(schema)


def refund(amount: Fits) -> str:
    """Refund."""
    return str(amount)


def desk(**functions):
    tool = Tool(callback=refund, **SAYS | functions)
    return Agent(name="desk", model="m", tools=[tool])


@pytest.fixture
async def loop():
    opened = await AppLoop.open(App(agents=[]))
    yield opened
    await opened.close()


@pytest.fixture
def hangs(monkeypatch):
    """A function that does not answer."""
    over = threading.Event()
    monkeypatch.setattr(asking, "FUNCTION_S", 0.05)
    yield lambda *_: over.wait(30)
    over.set()


@pytest.fixture(autouse=True)
def fitting(monkeypatch):
    monkeypatch.setattr(Fits, "does", lambda: None)


async def of(loop, agent, *, calls=1):
    """What the calls of an answer are judged to be."""
    answered = [AnswerCall(f"call_{number}", ["refund"], ['{"amount":1}']) for number in range(calls)]
    verdict = partial(judged, agent, agent.spec, answered, PLAIN, rules=Rules(), turn=TURN)
    async with asyncio.timeout(20):
        return await loop.judged("desk", lambda about: verdict(asking=about))


async def test_what_the_functions_say_is_in_the_verdict(loop):
    (call,) = await of(loop, desk())
    assert (call.problem, call.prompt, call.ruled.effect) == (None, "Shall it?", RuleEffect.ALLOW)
    assert (call.approvers, call.targets[0].value, call.ruling) == (Approvers("role:finance").terms, "src/a", None)


def ends(*_):
    sys.exit(3)


@pytest.mark.parametrize("how", ["hangs", "ends the process"])
@pytest.mark.parametrize(
    ("function", "left"),
    [
        ("prompt", {"prompt": None}),
        ("approval", {"ruled": None}),  # as it is declared: a person approves
        ("approvers", {"approvers": None, "ruled": UNTOLD_DECIDERS}),
        ("targets", {"targets": ()}),
    ],
)
async def test_a_function_that_hangs_or_ends_gives_what_a_failing_one_gives_and_the_others_say_theirs(
    loop, hangs, how, function, left
):
    (whole,) = await of(loop, desk())
    (call,) = await of(loop, desk(**{function: hangs if how == "hangs" else ends}))

    found = {name: getattr(call, name) for name in ("problem", "prompt", "approvers", "targets", "ruled")}
    assert found == {name: getattr(whole, name) for name in found} | left
    assert loop.held == (how == "hangs")


async def test_a_validator_that_hangs_is_an_error_for_the_model(loop, hangs, monkeypatch):
    monkeypatch.setattr(Fits, "does", hangs)
    (call,) = await of(loop, desk())
    assert call.problem == UNVALIDATED


async def test_a_function_that_decides_in_nobodys_stead_and_hangs_leaves_the_call_to_a_person(loop, hangs):
    tool = Tool(callback=refund, approval="required")
    (call,) = await of(loop, Agent(name="desk", model="m", tools=[tool], unattended=Unattended(approvals=hangs)))
    assert (call.ruling, call.ruled) == (None, None)


async def test_what_was_asked_is_not_asked_again_where_a_function_hangs(loop, hangs):
    asked = []

    def prompt(arguments):
        asked.append(arguments["amount"])
        return "Shall it?"

    calls = await of(loop, desk(prompt=prompt, targets=hangs), calls=3)

    assert asked == [1, 1, 1]
    assert [(call.prompt, call.targets) for call in calls] == [("Shall it?", ())] * 3
    assert loop.left == 3


async def test_an_answer_whose_judgement_takes_too_long_is_kept_and_what_was_not_asked_has_no_say(loop, hangs, monkeypatch):
    monkeypatch.setattr(app_loop, "JUDGING_S", 0.12)
    plain = Tool(name="refund", callback=refund, parameters={"type": "object"}, prompt="Shall it?")

    calls = await of(loop, desk(targets=hangs, approval=lambda _: False), calls=9)
    assert len(calls) == 9
    assert (calls[0].problem, calls[0].prompt, calls[0].ruled.effect) == (None, "Shall it?", RuleEffect.ALLOW)
    assert (calls[8].problem, calls[8].prompt, calls[8].ruled, calls[8].targets) == (UNVALIDATED, None, None, None)

    # and where no thread is to be had at all, tools without functions are judged as ever
    loop._rules = RuleThreads(0, 1)
    (call,) = await of(loop, Agent(name="desk", model="m", tools=[plain]))
    assert (call.problem, call.prompt, call.ruled, call.targets, call.approvers) == (None, "Shall it?", None, None, None)


async def test_a_function_that_returns_after_it_was_given_up_goes_on_with_nothing(loop, monkeypatch):
    monkeypatch.setattr(asking, "FUNCTION_S", 0.05)
    over, asked = threading.Event(), []

    def prompt(_):
        over.wait(30)
        return "late"

    (call,) = await of(loop, desk(prompt=prompt, targets=lambda _: asked.append("targets") or SAYS["targets"](_)))
    over.set()
    async with asyncio.timeout(20):
        while loop.held:
            await asyncio.sleep(0.001)
    assert (call.prompt, call.targets[0].value, asked) == (None, "src/a", ["targets"])
