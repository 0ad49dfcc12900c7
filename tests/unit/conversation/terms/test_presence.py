"""Clients that are attached: their ids, their names in the name space of their principal, and the tools that they carry out."""

import pytest
from pydantic import ValidationError

from holdfast.conversation import OnDetach, Present, Principal, Proof
from holdfast.conversation.terms.presence import (
    MOST_TOOLS,
    check_client_id,
    checked_tools,
    client_name,
)
from holdfast.errors import InvalidInput

ANA = Principal("ana", proof=Proof.KEY)
GOOD = ["t", "tab-1", "T:1.2_x", "0" * 128]
BAD = ["", " ", "-tab", ".tab", "a/b", "tab 1", "tab\n", "\n", "ä", "0" * 129, None, 7]


@pytest.mark.parametrize("client_id", GOOD)
def test_an_id_like_a_conversations_is_one(client_id):
    assert check_client_id(client_id) == client_id
    assert Present(client_id=client_id, tools=("locate",)).client_id == client_id


@pytest.mark.parametrize("client_id", BAD)
def test_any_other_id_is_refused(client_id):
    with pytest.raises(InvalidInput, match="client_id"):
        check_client_id(client_id)
    with pytest.raises(ValidationError):
        Present(client_id=client_id, tools=("locate",))


def test_a_client_id_is_a_name_in_the_name_space_of_its_principal():
    mine = Present(client_id="tab-1", principal=ANA, tools=("locate",))
    assert (mine.by, mine.name) == ("key:ana", "key:ana/tab-1")
    assert Present(client_id="tab-1", tools=("locate",)).name == "/tab-1"
    names = {client_name("tab-1", by) for by in (None, ANA, Principal("ana"), Principal("ana/x", proof=Proof.KEY))}
    assert len(names) == 4
    assert client_name("tab-1", Principal("ana", roles=["ops"], proof=Proof.KEY)) == mine.name


def test_tools_are_named_once():
    assert checked_tools(["locate", "share", "locate"]) == ("locate", "share")
    assert checked_tools({"locate": print}) == ("locate",)
    assert len(checked_tools(str(one) for one in range(MOST_TOOLS))) == MOST_TOOLS
    assert checked_tools(["x" * 64])


@pytest.mark.parametrize(
    "tools",
    [
        "locate",
        None,
        7,
        [],
        [""],
        ["x" * 65],
        ["a b"],
        ["tool\n"],
        ["ö"],
        [["locate"]],
        [1],
        [None],
        [str(one) for one in range(MOST_TOOLS + 1)],
    ],
)
def test_tools_that_are_none_are_refused(tools):
    with pytest.raises(InvalidInput, match="tools"):
        checked_tools(tools)


@pytest.mark.parametrize(
    "more",
    [{"until": "soon"}, {"tools": ("",)}, {"tools": ("x" * 65,)}, {"tools": ("a b",)}, {"on_detach": "stay"}, {"name": "x"}],
)
def test_a_record_that_is_wrong_is_refused(more):
    with pytest.raises(ValidationError):
        Present(**({"client_id": "tab-1", "tools": ("locate",)} | more))


def test_a_client_is_gone_for_long_and_keeps_what_waits_unless_it_says_otherwise():
    one = Present(client_id="tab-1", tools=("locate",))
    assert (one.until, one.on_detach) == (0, OnDetach.KEEP)
