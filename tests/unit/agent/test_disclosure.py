"""How much is told of what a tool raised: all of it, its class, or what a function of the app's says."""

import sys

import pytest

from holdfast.agent import Agent, InvalidArguments
from holdfast.agent.callback import ValidatorRaised
from holdfast.agent.disclosure import told
from holdfast.errors import ConfigurationError


def declared(errors):
    return Agent(name="desk", model="m", errors=errors)


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ("full", "KeyError: 'x'"),
        ("type", "KeyError"),
        (lambda error: f"look for {error.args[0]}", "look for x"),
        (lambda _: 1 / 0, "KeyError"),
        (lambda _: None, "KeyError"),
        (lambda _: sys.exit(), "KeyError"),
    ],
)
def test_an_exception_is_told_as_the_agent_declares(errors, text):
    assert told(declared(errors).errors, KeyError("x")) == text


def test_an_agent_tells_all_by_default_and_the_policy_is_not_stored():
    assert Agent(name="desk", model="m").errors == "full"
    assert Agent(name="desk", model="m").spec == declared("type").spec


@pytest.mark.parametrize("errors", ["some", None, 7, ValueError, lambda: "x", lambda _, __: "x"])
def test_what_is_no_policy_is_refused(errors):
    with pytest.raises(ConfigurationError, match=r"agent 'desk'\.errors"):
        declared(errors)


def test_a_coroutine_function_is_refused():
    async def say(error):
        return "x"

    with pytest.raises(ConfigurationError, match=r"agent 'desk'\.errors"):
        declared(say)


def test_what_is_wrong_with_arguments_is_told_whatever_the_policy_says_but_not_what_a_validator_raised():
    assert told("type", InvalidArguments("$.size: too large")) == "$.size: too large"
    raised = ValidatorRaised("$: a validator raised KeyError")
    raised.__cause__ = KeyError("x")
    assert told("type", raised) == "$: a validator raised KeyError"
    assert told("full", raised) == "$: a validator raised KeyError: 'x'"
