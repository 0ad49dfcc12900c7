"""Errors: a tree of classes that crosses Ray by pickle."""

import inspect
import pickle

import pytest

import holdfast
from holdfast import errors
from holdfast.conversation import SettledBy
from holdfast.errors import HoldfastError, InvalidInput, StaleCall, StaleReason

CLASSES = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, HoldfastError)]
BY_NAME = {error.__name__: error for error in CLASSES}
VALUES = {
    "errors": {"s-1": "why {0}"},
    "retry_after_ms": 250,
    "found": 3,
    "known": 2,
    "reason": StaleReason.EXPIRED,
    "settled_at": 1_700_000_000_000,
}


def _example(error):
    """An instance with telling arguments, braces and quotes among them."""
    if not error.arguments:
        return error("a {0} 'told' {why}")
    return error(*(VALUES.get(name, f"{name} {{0}} 'x'") for name in error.arguments))


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_an_error_survives_pickle(error):
    # given an error
    sent = _example(error)
    # when it crosses a process boundary, by any protocol, twice
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        received = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(sent, protocol)), protocol))  # noqa: S301 - our own
        # then it is the same error
        assert type(received) is error
        assert received.args == sent.args
        assert str(received) == str(sent)
        assert vars(received) == vars(sent)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_an_errors_text_is_built_from_all_that_it_was_given(error):
    sent = _example(error)
    told = [part for argument in sent.args for part in (argument.popitem() if isinstance(argument, dict) else [argument])]
    assert all(str(part) in str(sent).replace("\\'", "'") for part in told)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_an_error_has_what_it_was_given_as_attributes(error):
    if not error.arguments:
        return
    sent = _example(error)
    given = dict(zip(error.arguments, sent.args, strict=True))
    assert {name: getattr(sent, name) for name in given} == given


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_an_error_says_what_it_means(error):
    assert error.__doc__
    assert error.__doc__ != error.__base__.__doc__


def test_every_error_is_public():
    for error in CLASSES:
        assert getattr(holdfast, error.__name__) is error
        assert error.__name__ in holdfast.__all__


def test_every_error_has_one_base():
    for error in CLASSES:
        assert len(error.__bases__) == 1


def test_a_stale_call_names_conversation_call_reason_and_what_settled_it():
    stale = StaleCall("c-1", "call_7", StaleReason.ALREADY_RESOLVED, SettledBy.APPROVE, 1_700_000_000_000)
    call, fix = "conversation 'c-1': call 'call_7' is stale", "look at what is pending now before you decide again"
    assert str(stale) == f"{call}: already_resolved (by approve, at 1700000000000 ms UTC); {fix}"
    assert str(StaleCall("c-1", "call_7", StaleReason.UNKNOWN)) == f"{call}: unknown; {fix}"


def test_the_reasons_of_a_stale_call_are_those_of_the_design():
    assert [reason.value for reason in StaleReason] == [
        "unknown",
        "already_resolved",
        "expired",
        "cancelled",
        "superseded",
        "claimed",
    ]


@pytest.mark.parametrize("error", [HoldfastError, errors.StoreError, errors.ClusterError])
def test_an_error_without_arguments_has_a_text(error):
    assert isinstance(str(error()), str)


class Named(InvalidInput):
    """Somebody else's error, with a constructor of its own."""

    def __init__(self, name):
        super().__init__("name", f"{name!r} is taken", "use another one")
        self.name = name


def test_an_error_with_a_constructor_of_its_own_has_the_arguments_of_its_base():
    error = Named("ana")
    assert (error.field, error.problem, error.name, error.http_code) == ("name", "'ana' is taken", "ana", 422)
    assert str(error) == "name: 'ana' is taken; use another one"


def test_arguments_that_an_error_does_not_take_are_refused():
    for given, named in (
        ((), {}),
        (("a", "b"), {}),
        (("a", "b", "c", "d"), {}),
        (("a", "b", "c"), {"fix": "x"}),
        (("a", "b"), {"fi": "x"}),
    ):
        with pytest.raises(TypeError, match="InvalidInput takes field, problem, fix"):
            InvalidInput(*given, **named)
    assert InvalidInput("a", "b", fix="c").args == ("a", "b", "c")
