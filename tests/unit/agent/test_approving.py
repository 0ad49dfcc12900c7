"""Approvals that a function of the app asks for: of the arguments, or of the arguments and the turn."""

import functools
import logging
from asyncio import CancelledError

import pytest

from holdfast.agent import Suspend, Tool, TurnContext
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.spec import Approval, OnLost
from holdfast.errors import ConfigurationError

ANA = TurnContext(conversation_id="c-1", agent="desk", requester=Principal(id="ana"), context={"tier": "gold"})


def gated(approval, **options):
    return Tool(name="refund", approval=approval, callback=lambda amount: amount, **options)


def raising(error):
    def needs(_arguments):
        raise error

    return needs


class Above:
    """A limit that can be called."""

    def __init__(self, limit):
        self.limit = limit

    def __call__(self, arguments):
        return arguments["amount"] > self.limit

    def of_turn(self, arguments, turn):
        return turn.context["tier"] != "gold" and self(arguments)


def test_a_function_of_the_arguments_says_which_calls_need_an_approval():
    declared = gated(lambda arguments: arguments["amount"] > 100)
    assert [declared.needs_approval({"amount": amount}, ANA) for amount in (100, 101)] == [False, True]
    assert (declared.approves_by_function, declared.approves_by_turn) == (True, False)


def test_a_function_of_the_turn_knows_who_asks_and_the_context():
    seen = []

    def needs(arguments, turn):
        seen.append((arguments, turn))
        return turn.requester.id != "ana"

    declared = gated(needs)
    assert not declared.needs_approval({"amount": 5}, ANA)
    assert seen == [({"amount": 5}, ANA)]
    assert (declared.approves_by_function, declared.approves_by_turn) == (True, True)


@pytest.mark.parametrize("approval", ["auto", "required"])
def test_a_mode_is_no_function(approval):
    declared = gated(approval)
    assert declared.needs_approval({"amount": 5}, ANA) is (approval == "required")
    assert declared.needs_approval(None, ANA) is (approval == "required")
    assert (declared.approves_by_function, declared.approves_by_turn) == (False, False)


@pytest.mark.parametrize(
    ("said", "needed"), [(True, True), (False, False), ("required", True), ("auto", False), (Approval.AUTO, False)]
)
def test_a_function_says_it_with_a_truth_value_or_a_mode(said, needed):
    assert gated(lambda _: said).needs_approval({"amount": 5}, ANA) is needed


@pytest.mark.parametrize("said", [None, 0, 1, 1.0, "", "no", "Required", "false", [], [True], {}, object()])
def test_whatever_else_a_function_says_asks_and_is_logged(said, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert gated(lambda _: said).needs_approval({"amount": 5}, ANA)
    assert "tool 'refund'.approval could not say whether a call needs an approval" in caplog.text


@pytest.mark.parametrize(
    "error", [KeyError("amount"), SystemExit(3), RecursionError(), Suspend("Look"), GeneratorExit(), CancelledError()]
)
def test_a_function_that_fails_asks_and_is_logged(error, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert gated(raising(error)).needs_approval({"amount": 5}, ANA)
    assert type(error).__name__ in caplog.text


def test_a_function_whose_answer_would_have_to_be_awaited_asks():
    assert gated(lambda arguments: _async(arguments)).needs_approval({"amount": 5}, ANA)  # noqa: PLW0108 - a plain function


def test_an_interrupt_is_nobodys_answer():
    with pytest.raises(KeyboardInterrupt):
        gated(raising(KeyboardInterrupt())).needs_approval({"amount": 5}, ANA)


def test_arguments_that_cannot_be_read_ask_and_no_function_sees_them():
    assert gated(raising(AssertionError("it was called"))).needs_approval(None, ANA)


def test_a_function_cannot_change_the_arguments():
    def needs(arguments):
        arguments["amount"]["cents"] = 0
        arguments.clear()
        return False

    arguments = {"amount": {"cents": 5}}
    assert not gated(needs).needs_approval(arguments, ANA)
    assert arguments == {"amount": {"cents": 5}}


def test_whatever_can_be_called_with_the_arguments_will_do():
    above = Above(100)
    for approval in (above, above.__call__, functools.partial(Above.__call__, above)):
        assert [gated(approval).needs_approval({"amount": amount}, ANA) for amount in (100, 101)] == [False, True]
    assert gated(above.of_turn).approves_by_turn
    assert not gated(above.of_turn).needs_approval({"amount": 500}, ANA)


async def _async(_arguments):
    return True


class Awaited:
    """Its call is a coroutine."""

    async def __call__(self, _arguments):
        return True


@pytest.mark.parametrize(
    "approval",
    [
        True,
        None,
        7,
        ["required"],
        lambda: True,
        lambda _one, _two, _three: True,
        lambda *, _arguments: True,
        _async,
        functools.partial(_async),
        Awaited(),
    ],
)
def test_what_cannot_say_so_is_refused_where_it_is_declared(approval):
    with pytest.raises(ConfigurationError, match=r"tool 'refund'\.approval.*function of the arguments") as refused:
        gated(approval)
    assert "use auto or required" in str(refused.value)


def test_a_mode_that_there_is_not_is_refused():
    with pytest.raises(ConfigurationError, match=r"tool 'refund'\.approval"):
        gated("sometimes")


def test_a_tool_that_may_need_an_approval_is_declared_as_one_that_does():
    """Whoever does not know the function, an older release or the machine itself, asks."""
    declared = gated(lambda _: False, decisions=["approve", "deny"], approval_timeout_s=60)
    assert declared.spec.approval is Approval.REQUIRED
    assert declared.spec.on_lost is OnLost.ASK
    assert "approval=function" in repr(declared)


@pytest.mark.parametrize("executor", ["human", "provider"])
def test_a_function_stands_only_where_an_approval_may(executor):
    options = {"definition": {"type": "web_search"}} if executor == "provider" else {"description": "Ask."}
    with pytest.raises(ConfigurationError, match="approval"):
        Tool(name="ask", executor=executor, approval=lambda _: True, **options)


def test_a_clients_tool_may_be_approved_by_function():
    declared = Tool(name="share", executor="client", description="Share.", approval=lambda given: "x" in given)
    assert [declared.needs_approval(given, ANA) for given in ({}, {"x": 1})] == [False, True]
