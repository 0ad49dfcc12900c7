"""The rows of the operations, held against what is derived from them and written beside them."""

import inspect
import re

import pytest

import holdfast.client
from holdfast import errors
from holdfast.client import AsyncClient, AsyncConversation, Client, Conversation, http_gateway, stack_gateway, verbs
from holdfast.client.operation import Verb
from holdfast.server.app import OPERATIONS

ROWS = [row for row in vars(verbs).values() if isinstance(row, Verb)]
FIRST = ROWS.index(verbs.SEND)
"""The rows before it are a client's, those from it on a conversation's."""
METHODS = [(AsyncClient, row) for row in ROWS[:FIRST] if row is not verbs.RESOLVE_CALL]
METHODS += [(AsyncConversation, row) for row in ROWS[FIRST:]]
PARTS = [verbs.PENDING_OF, verbs.LATEST, verbs.AUDIT_LINES]
"""Operations without a route of their own: over HTTP each is made of another one."""


def public(kind):
    return {name: one for name, one in vars(kind).items() if inspect.isfunction(one) and not name.startswith("_")}


@pytest.mark.parametrize(("kind", "row"), METHODS, ids=lambda one: getattr(one, "operation", None))
def test_a_method_names_errors_that_there_are(kind, row):
    _, _, raised = (inspect.getdoc(getattr(kind, row.name)) or "").partition("Raises:\n")
    named = re.findall(r"^ {4}(\w+): ", raised, re.MULTILINE)
    assert all(issubclass(getattr(errors, name), errors.HoldfastError) for name in named)
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.operation}")
def test_an_operation_is_carried_out_on_both_ways(row):
    by_row = row.read is not None or row.command is not None
    assert by_row or row in {**stack_gateway._ANSWERS, **stack_gateway._STREAMS}
    assert row not in PARTS or row in {**http_gateway._ANSWERS, **http_gateway._STREAMS}


@pytest.mark.parametrize(("face", "faced"), [(Client, AsyncClient), (Conversation, AsyncConversation)])
def test_a_blocking_face_has_the_methods_of_the_async_one_and_their_arguments(face, faced):
    def taken(method):
        return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]

    mine, theirs = public(face), public(faced)
    assert {name: taken(mine[name]) for name in theirs if name != "aclose"} == {
        name: taken(theirs[name]) for name in theirs if name != "aclose"
    }


def test_a_server_has_an_operation_for_each_row_with_its_route_scope_and_key():
    served = {one.name: (one.method, one.path, one.scope, one.also, one.key) for one in OPERATIONS}
    rows = [row for row in ROWS if row not in PARTS]
    assert {row.operation: (row.method, row.path, row.scope, row.also, row.key) for row in rows}.items() <= served.items()


def test_the_package_names_what_every_read_and_every_command_raises():
    parts = (holdfast.client.__doc__ or "").split("\n- ")[1:5]
    named = [set(re.findall(r"`([A-Z]\w+)`", part)) for part in parts]
    assert all(issubclass(getattr(errors, name), errors.HoldfastError) for group in named for name in group)
    assert [len(group) for group in named] == [1, 5, 3, 9]
