"""What a tool's calls touch: the same targets for each call, or what a function of the arguments says."""

import functools
import logging
from asyncio import CancelledError

import pytest

from holdfast.agent import Suspend, Tool
from holdfast.conversation.terms.grants import CallTarget, Level, Target
from holdfast.errors import ConfigurationError

SOURCE = Target("path", "src/a", level="write")
AS_LOGGED = CallTarget(kind="path", value="src/a", level=Level.WRITE)


def touching(targets, **options):
    return Tool(name="edit", targets=targets, callback=lambda path: path, **options)


def raising(error):
    def touched(_arguments):
        raise error

    return touched


class Below:
    """A folder that can be called."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, arguments):
        return [Target("path", f"{self.folder}/{arguments['path']}", level="write")]

    def of(self, arguments):
        return self(arguments)


def test_a_tool_that_does_not_say_what_it_touches_says_so():
    assert touching(None).touched({"path": "a"}) is None


@pytest.mark.parametrize("declared", [[SOURCE], (SOURCE,)], ids=["list", "tuple"])
def test_a_list_holds_for_each_call(declared):
    assert touching(declared).touched({"path": "b"}) == touching(declared).touched({}) == (AS_LOGGED,)


def test_a_target_without_a_level_is_executed():
    assert touching([Target("account", "A-1")]).touched({}) == (CallTarget(kind="account", value="A-1", level=Level.EXECUTE),)


@pytest.mark.parametrize(
    "function",
    [Below("src"), Below("src").of, functools.partial(Below("src")), lambda arguments, _more=(): Below("src")(arguments)],
    ids=["callable", "method", "partial", "lambda"],
)
def test_a_function_of_the_arguments_says_what_a_call_touches(function):
    assert touching(function).touched({"path": "a"}) == (AS_LOGGED,)


def test_a_function_may_say_it_with_a_tuple_and_up_to_eight_targets():
    every = tuple(Target("path", f"src/{number}", level="read") for number in range(8))
    assert touching(lambda _: every).touched({}) == tuple(
        CallTarget(kind="path", value=one.value, level=one.level) for one in every
    )


def test_a_function_cannot_change_the_arguments_that_the_body_gets():
    arguments = {"path": "a", "more": {"deep": [1]}}

    def touched(given):
        given["path"] = "b"
        given["more"]["deep"].clear()
        return [SOURCE]

    touching(touched).touched(arguments)
    assert arguments == {"path": "a", "more": {"deep": [1]}}


@pytest.mark.parametrize("value", ["../etc/passwd", "src//a", "src/%2e%2e/a", "src\\a", "SRC:stream"])
def test_a_value_that_is_read_in_more_than_one_way_is_kept_as_it_is_and_no_grant_covers_it(value):
    (found,) = touching(lambda _: [Target("path", value, level="write")]).touched({})
    assert (found.value, found.is_canonical) == (value, False)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("path"),
        SystemExit(3),
        RecursionError(),
        Suspend("Look"),
        GeneratorExit(),
        CancelledError(),
        ConfigurationError("target.value", "it is empty", "give one"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_function_that_fails_touches_what_no_grant_covers_and_is_logged(error, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert touching(raising(error)).touched({"path": "a"}) == ()
    assert "tool 'edit'.targets could not say what a call touches, so no grant covers it" in caplog.text
    assert type(error).__name__ in caplog.text


@pytest.mark.parametrize(
    "said",
    [None, "src/a", b"src/a", 3, {}, {"path": "src/a"}, {SOURCE}, [], (), ["src/a"], [SOURCE, None], [("path", "src/a")]],
    ids=repr,
)
def test_whatever_else_a_function_says_touches_what_no_grant_covers_and_is_logged(said, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert touching(lambda _: said).touched({}) == ()
    assert "could not say what a call touches" in caplog.text


def test_more_than_eight_targets_are_covered_by_no_grant(caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert touching(lambda _: [SOURCE] * 9).touched({}) == ()
    assert "9 targets, 1 to 8 are allowed" in caplog.text


def test_a_coroutine_that_a_plain_function_returns_is_no_answer_and_is_never_awaited(caplog):
    async def later():
        return [SOURCE]

    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert touching(lambda _: later()).touched({}) == ()
    assert "coroutine is no list of targets" in caplog.text


def test_who_stops_the_process_is_heard():
    with pytest.raises(KeyboardInterrupt):
        touching(raising(KeyboardInterrupt())).touched({})


async def _async(_arguments):
    return [SOURCE]


class Async:
    async def __call__(self, _arguments):
        return [SOURCE]


@pytest.mark.parametrize(
    "declared",
    [
        [],
        "src/a",
        b"src/a",
        3,
        {"path": "src/a"},
        {SOURCE},
        SOURCE,
        ["src/a"],
        [("path", "src/a", "write")],
        [AS_LOGGED],
        [SOURCE] * 9,
        lambda: [SOURCE],
        lambda arguments, turn: [arguments, turn],
        lambda *, arguments: [arguments],
        _async,
        functools.partial(_async),
        Async(),
        Target,
    ],
    ids=lambda one: repr(one).partition(" at 0x")[0],
)
def test_what_cannot_say_what_a_call_touches_is_refused(declared):
    with pytest.raises(ConfigurationError, match=r"tool 'edit'\.targets") as refused:
        touching(declared)
    assert "Target(" in str(refused.value)


@pytest.mark.parametrize("executor", ["human", "provider"])
def test_targets_are_refused_where_nobody_approves_calls(executor):
    definition = {"definition": {"type": "web_search"}} if executor == "provider" else {}
    with pytest.raises(ConfigurationError, match=rf"tool 'edit'\.targets.*nobody approves calls of a {executor} tool"):
        Tool(name="edit", executor=executor, targets=[SOURCE], **definition)


@pytest.mark.parametrize(("executor", "approval"), [("server", "auto"), ("server", "required"), ("client", "required")])
def test_targets_go_with_what_rules_or_declarations_may_ask_about(executor, approval):
    body = {"callback": lambda path: path} if executor == "server" else {}
    declared = Tool(name="edit", executor=executor, approval=approval, targets=[SOURCE], **body)
    assert declared.touched({}) == (AS_LOGGED,)


@pytest.mark.parametrize(
    ("target", "field"),
    [
        (("", "a"), "target.kind"),
        (("Path", "a"), "target.kind"),
        (("path", ""), "target.value"),
        (("path", "a" * 257), "target.value"),
        (("path", "a\x00"), "target.value"),
        (("path", 3), "target.value"),
        (("path", "a", "root"), "target.level"),
        (("path", "a", None), "target.level"),
    ],
)
def test_a_target_that_cannot_be_one_names_its_field(target, field):
    with pytest.raises(ConfigurationError, match=field.replace(".", r"\.")):
        Target(*target)


def test_targets_are_no_part_of_what_the_model_and_the_spec_see():
    assert touching([SOURCE]).spec == touching(None).spec
