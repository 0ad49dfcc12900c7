"""Who may decide a tool's calls: nothing that a function of the app does leaves a call to everybody."""

import pytest

from holdfast.agent import Approvers, Tool
from holdfast.agent.functions import Deciders, UntoldError
from holdfast.agent.suspend import Suspend
from holdfast.errors import ConfigurationError


def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


def failing(error):
    def function(_):
        raise error

    return function


@pytest.mark.parametrize(
    "function",
    [
        failing(ValueError("x")),
        failing(SystemExit()),
        failing(GeneratorExit()),
        failing(Suspend("May I?")),
        lambda _: [],
        lambda _: (),
        lambda _: "role:finance",
        lambda _: ["finance"],
        lambda _: {"who": ["role:finance"]},
        lambda _: False,
        lambda _: 0,
        lambda _: ["id:ana"] * 65,
        lambda _: ["role:" + "x" * 190 + str(number) for number in range(60)],
        lambda _: (name for name in ["role:finance"]),
        lambda given: given["missing"],
    ],
)
def test_a_function_that_does_not_say_who_leaves_the_call_to_nobody(function):
    with pytest.raises(UntoldError):
        Deciders(function, "approvers").of({"amount": 1})


def test_a_function_sees_arguments_of_its_own():
    arguments = {"amount": 1, "to": ["a"]}
    terms = Deciders(lambda given: given["to"].clear() or given.clear() or Approvers("role:x"), "approvers").of(arguments)
    assert (terms.who, arguments) == ((("role:x",),), {"amount": 1, "to": ["a"]})


@pytest.mark.parametrize("nobody", [[], (), "role:finance", {"who": ["role:a"]}, 7])
def test_a_declaration_that_names_nobody_is_refused(nobody):
    with pytest.raises(ConfigurationError) as refused:
        Tool(callback=pay, approval="required", approvers=nobody)
    assert "approvers" in refused.value.field
    with pytest.raises(ConfigurationError):
        Suspend("May I?", approvers=nobody)
