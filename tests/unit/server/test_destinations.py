"""Where a browser may be sent once somebody has signed in."""

import pytest

from holdfast.server.pages.destinations import LONGEST, destination


@pytest.mark.parametrize(
    "asked",
    ["/inbox", "/inbox/s-1", "/inbox?agent=desk&kind=approval#s-1", "/conversations/a%20b", "/x?next=//y", "/signing"],
)
def test_a_page_of_the_application_is_gone_to(asked):
    assert destination(asked, "") == asked
    assert destination(f"/agents{asked}", "/agents") == f"/agents{asked}"


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "inbox",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\/evil.example",
        "/inbox\\..\\evil",
        "/%5Cevil.example",
        "/%2F/evil.example",
        "/%2fevil.example/%2f%2fx",
        "https://evil.example/inbox",
        "https:/inbox",
        "javascript:alert(1)",
        "data:text/html,x",
        "/in\tbox",
        "/in\nbox",
        "/in%0d%0aSet-Cookie:%20a=b",
        "/in%00box",
        "/inbox\r\nX: y",
        " /inbox",
        "/inb\xf6x",
        "/\u2028",
        "/inbox/../signin",
        "/inbox/%2e%2e/signin",
        "/./signin",
        "/signin",
        "/signin?next=/signin",
        "/signin/",
        "/signin/token",
        "/%73ignin",
        "/signin#x",
        "/signout",
        "/signout/x",
        "/" + "x" * LONGEST,
    ],
)
def test_whatever_else_is_asked_for_leads_to_the_first_page(asked):
    assert destination(asked, "") == "/inbox"
    if asked.startswith("/"):
        assert destination(f"/agents{asked}", "/agents") == "/agents/inbox"


@pytest.mark.parametrize("asked", ["/inbox", "/agentsx/inbox", "/agents", "/", "/other"])
def test_a_page_of_another_application_on_the_same_host_is_not_gone_to(asked):
    assert destination(asked, "/agents") == "/agents/inbox"
