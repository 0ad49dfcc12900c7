"""A filter of a list is declared once: each face has what is derived from it, and what is written beside it fits."""

import inspect
import re
from dataclasses import replace

import pytest
import typer

from holdfast.cli.app import _app
from holdfast.client import AsyncClient, filters, verbs
from holdfast.client.results import PendingCall
from holdfast.persistence import ConversationRow, Listing, Store
from holdfast.server.app import OPERATIONS
from holdfast.server.pages.conversations import ConversationsQuery
from holdfast.server.pages.inbox import InboxQuery

LISTS = {
    verbs.PENDING: filters.CALLS,
    verbs.CONVERSATIONS: filters.CONVERSATIONS,
    verbs.GIVEN: filters.GIVEN,
    verbs.LIST_EVENTS: filters.EVENTS,
}
OF_STORE = {verbs.PENDING: Store.pending, verbs.CONVERSATIONS: Store.conversations}
ON_PAGES = {verbs.PENDING: InboxQuery, verbs.CONVERSATIONS: ConversationsQuery}
ROWS = {verbs.PENDING: PendingCall.model_fields, verbs.CONVERSATIONS: ConversationRow.__dataclass_fields__}
COMMANDS = {verbs.PENDING: "pending", verbs.CONVERSATIONS: "list"}
BESIDE = {"limit", "after", "roles"}
"""What a list takes that is no filter: its place, and the roles of `approver`."""

WALKED = {"root"}
"""What no index answers: a tree is walked from its root."""

lists = pytest.mark.parametrize("row", LISTS, ids=lambda row: row.operation)


def offered(row):
    return [one for one in LISTS[row] if one.check is not None]


@lists
def test_the_clients_method_takes_each_filter_by_its_name(row):
    method = getattr(AsyncClient, row.name)
    taken = {name: one for name, one in inspect.signature(method).parameters.items() if name not in {"self", *BESIDE}}
    assert taken.keys() == {one.name for one in offered(row)}
    assert {one.default for one in taken.values()} == {None}
    assert all(re.search(rf"`{one.name}`|^ +{one.name}: ", inspect.getdoc(method), re.MULTILINE) for one in offered(row))


@lists
def test_the_query_of_the_route_has_each_filter_with_what_it_says(row):
    (operation,) = [one for one in OPERATIONS if one.name == row.operation]
    fields = operation.query.model_fields
    assert fields.keys() - BESIDE == {one.name for one in offered(row)}
    assert all(fields[one.name].description == one.says for one in offered(row))


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.operation)
def test_the_command_has_an_option_for_each_filter_with_the_values_that_may_be_chosen(row):
    command = typer.main.get_command(_app).get_command(None, COMMANDS[row])
    said = {option.name: option.help or "" for option in command.params}
    for one in offered(row):
        named = said[one.name.removesuffix("_s")]  # a number of seconds is a time in a terminal
        assert named.startswith(one.says[:-1])
        assert all(value in named for value in one.values)


@pytest.mark.parametrize("row", ON_PAGES, ids=lambda row: row.operation)
def test_the_page_has_a_control_for_each_filter_with_a_label(row):
    labelled = {one.name: one for one in LISTS[row] if one.label}
    controls = {one.name: options for one, options in ON_PAGES[row].controls({})}
    assert controls.keys() == labelled.keys() <= ON_PAGES[row].model_fields.keys()
    assert all([value for value, _ in controls[name] or ()] == list(one.values) for name, one in labelled.items())


@pytest.mark.parametrize("row", OF_STORE, ids=lambda row: row.operation)
def test_a_filter_is_answered_by_an_index_of_the_store_or_by_a_look_at_each_row(row):
    by_index = {one.name for one in LISTS[row] if one.by_index}
    assert by_index - WALKED <= inspect.signature(OF_STORE[row]).parameters.keys()
    assert all(one.by_index or one.keeps is not None or one.name in ROWS[row] for one in LISTS[row])


async def test_an_index_is_asked_and_the_other_rows_are_looked_at_until_one_is_wanted():
    even = filters.Filter("even", int, "Only even ones.", keeps=lambda row, wanted: (row % 2 == 0) == wanted)
    agent = replace(filters.EVENTS[0])
    asked = []

    async def read(**where):
        asked.append(where)
        return Listing([2 * where["limit"] + 1], f"{len(asked)}" if len(asked) < 3 else None)

    page = await filters.filtered(read, (even, agent), limit=7, after=None, even=True, agent="desk")

    assert (page.items, page.next) == ([], None)
    assert asked == [{"limit": 7, "after": after, "agent": "desk"} for after in (None, "1", "2")]


async def test_pages_without_a_wanted_row_are_bounded():
    asked = []

    async def read(**where):
        asked.append(where["after"])
        return Listing([1], "more")

    never = filters.Filter("never", int, "None.", keeps=lambda _row, _wanted: False)
    page = await filters.filtered(read, [never], limit=1, after=None, never=True)

    assert (page.items, page.next, len(asked)) == ([], "more", filters.MOST_PAGES)
