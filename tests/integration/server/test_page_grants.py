"""Scopes of approvals and the grants that stand, on the pages, over real HTTP and without scripts."""

import re

import httpx
import pytest
from page_forms import HOSTILE, decide, fields, path_of
from served import served
from waiting_calls import APP, events_of, narrowed, settled, waiting
from writer import call, finish

from holdfast.conversation import CallTarget
from holdfast.server.pages.conversations import PAGES

PATH = CallTarget(kind="path", value="src/a.py", level="write")
OWN = {"decision": "approve", "scope": "own", "kind": "path", "pattern": "src/**", "level": "write", "lasts": "1h"}
READY = re.compile(r'<button name="scope" value="(\d+)"[^>]*>(.*?)</button>')


@pytest.fixture(scope="module")
def server():
    with served() as running:
        running.stack._app = APP
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=30) as found:
        yield found


def given(server, name):
    """The grants that the log of a conversation has."""
    return [event.grant for event in events_of(server, name) if event.kind == "grant_given"]


def ready_in(page):
    return [(number, re.sub(r"<[^>]+>", "", says)) for number, says in READY.findall(page)]


# -- what is offered ----------------------------------------------------------------------------------------------------------


def test_what_a_call_touches_is_offered_as_it_is(server, http):
    targets = (PATH, CallTarget(kind="path", value="app/[id].tsx", level="read"))
    suspension_id = waiting(server, "offered", targets=targets)

    page = http.get(path_of(suspension_id, "offered")).text
    assert ready_in(page) == [
        ("0", "Approve, and from now on src/a.py (path, write)"),
        ("1", "Approve, and from now on app/[id].tsx (path, read)"),
    ]

    assert decide(http, "offered", suspension_id, decision="approve", scope="1", lasts="").status_code == 303
    (grant,) = given(server, "offered")
    assert (grant.kind, grant.pattern, grant.level, grant.ends_at) == ("path", r"app/\[id\].tsx", "read", None)
    assert grant.covers(targets[1])


def test_a_tool_that_says_no_targets_is_offered_itself(server, http):
    suspension_id = waiting(server, "tool")
    assert ready_in(http.get(path_of(suspension_id, "tool")).text) == [("0", "Approve, and all calls of refund from now on")]

    decide(http, "tool", suspension_id, decision="approve", scope="0", lasts="15m", note="it is a quiet day")

    (grant,) = given(server, "tool")
    end = settled(server, "tool")
    assert (grant.kind, grant.pattern, grant.level) == ("tool", "refund", "execute")
    assert grant.ends_at == end.at + 900_000
    assert (end.by.value, end.reason) == ("approve", "it is a quiet day")


def test_a_call_whose_targets_cannot_be_told_has_no_ready_choice_and_says_so(server, http):
    outside = (PATH, CallTarget(kind="path", value="../x"))
    page = http.get(path_of(waiting(server, "untold", targets=outside), "untold")).text
    assert ready_in(page) == []
    assert "It is not known what this call touches" in page


def test_a_call_that_cannot_be_approved_as_it_is_takes_no_scope(server, http):
    edits = waiting(server, "edits", spec=narrowed("edit", "deny"))
    question = waiting(server, "question", "elicitation", {"question": "Where?"})
    for name, suspension_id in (("edits", edits), ("question", question)):
        assert "Also allow later calls" not in http.get(path_of(suspension_id, name)).text

    edited = path_of(waiting(server, "edited"), "edited")
    assert "Also allow later calls" in http.get(edited).text
    page = http.get(f"{edited}&edit=1").text
    assert "Also allow later calls" not in page
    form = fields(page) | {"decision": "approve", "edited": "1", "scope": "0", "lasts": "", "v/order": "A2"}
    assert http.post(edited, data=form).status_code == 422
    assert given(server, "edited") == []


def test_whoever_may_only_look_is_offered_no_grant_and_no_revocation(server, http):
    """The pages ask for the scope `decide`, as for every decision."""
    assert {page.scope.value for page in PAGES if page.path.endswith("/revoke")} == {"decide"}


# -- scopes of one's own ------------------------------------------------------------------------------------------------------


def test_a_scope_of_ones_own_lets_later_calls_run_and_is_said_wherever_the_decision_is(server, http):
    suspension_id = waiting(server, "own", targets=(PATH,))

    page = decide(http, "own", suspension_id, **OWN)

    assert page.status_code == 303
    (grant,) = given(server, "own")
    assert (grant.kind, grant.pattern, grant.level) == ("path", "src/**", "write")
    later = 'Later calls run without asking, too: <code class="wrap">src/**</code> <span class="faint">(path, up to write)'
    assert later in http.get(path_of(suspension_id, "own")).text
    whole = http.get("/conversations/own").text
    assert 'Later calls, too:</span> <code class="wrap">src/**</code>' in whole
    assert "<h2>Runs without asking</h2>" in whole


BAD = [
    ({"pattern": ""}, "scope-pattern", "it is empty"),
    ({"pattern": "**"}, "scope-pattern", "covers every path; name what may be touched, or mark the box below"),
    ({"pattern": "src/[ab]"}, "scope-pattern", "only * and ** are wildcards here"),
    ({"pattern": "../x"}, "scope-pattern", "is no path in its canonical form"),
    ({"pattern": "x" * 300}, "scope-pattern", "it has 300 bytes; give 1 to 256 bytes"),
    ({"kind": "Path"}, "scope-kind", "is no kind of target"),
    ({"kind": HOSTILE}, "scope-kind", "is no kind of target"),
    ({"level": "all"}, "scope-level", "is no level"),
    ({"lasts": "9y"}, "scope-lasts", "choose for how long"),
]


@pytest.mark.parametrize(("said", "place", "problem"), BAD)
def test_a_bad_scope_is_shown_beside_its_field_keeps_what_was_typed_and_changes_nothing(server, http, said, place, problem):
    name = f"bad-{BAD.index((said, place, problem))}"
    suspension_id = waiting(server, name, targets=(PATH,))
    before = len(events_of(server, name))

    page = decide(http, name, suspension_id, **(OWN | said | {"note": "my reason"}))

    assert page.status_code == 422
    shown = re.search(rf'<p class="problem" id="{place}-problem">(.*?)</p>', page.text)
    assert shown is not None
    assert problem in shown[1]
    assert len(re.findall(r'<p class="problem"', page.text)) == 1
    assert f'aria-describedby="{place}-problem"' in page.text
    assert 'value="my reason"' in page.text
    assert "<script>alert" not in page.text
    assert len(events_of(server, name)) == before


def test_everything_of_a_kind_is_allowed_only_with_the_box_marked(server, http):
    suspension_id = waiting(server, "everything", targets=(PATH,))
    assert decide(http, "everything", suspension_id, **(OWN | {"pattern": "**"})).status_code == 422
    assert given(server, "everything") == []

    assert decide(http, "everything", suspension_id, **(OWN | {"pattern": "**", "everything": "yes"})).status_code == 303
    assert [grant.pattern for grant in given(server, "everything")] == ["**"]


def test_a_form_that_chooses_no_scope_approves_nothing(server, http):
    suspension_id = waiting(server, "nothing", targets=(PATH,))
    before = len(events_of(server, "nothing"))

    for scope in ("", "7", "-1", "none"):  # Enter in a field; a choice that is not there
        assert decide(http, "nothing", suspension_id, **(OWN | {"scope": scope})).status_code == 422

    assert len(events_of(server, "nothing")) == before


def test_a_form_that_is_sent_twice_gives_one_grant(server, http):
    suspension_id = waiting(server, "twice", targets=(PATH,))
    form = fields(http.get(path_of(suspension_id, "twice")).text) | OWN

    pages = [http.post(f"/inbox/{suspension_id}", data=form, follow_redirects=True) for _ in range(2)]

    assert [page.status_code for page in pages] == [200, 200]
    assert len(given(server, "twice")) == 1


# -- what stands --------------------------------------------------------------------------------------------------------------


def with_a_grant(server, http, name):
    """The suspension that waits in a conversation that has a grant for `src/**`."""
    decide(http, name, waiting(server, name, targets=(PATH,)), **OWN)
    writer = server.stack.writers[name]

    async def another():
        await writer.do(finish(), call("refund"))
        return [view.suspension_id for view in await server.store.pending_of(name)]

    (suspension_id,) = server.run(another())
    return suspension_id


def revocation_in(page):
    """Where the button of a page that revokes its only grant leads, and what its form sends."""
    (action, form) = re.search(r'<form method="post" action="([^"]+/revoke)" data-once>(.*?)</form>', page, re.DOTALL).groups()
    return action, fields(form)


def test_what_stands_is_listed_beside_a_call_and_revoked_there(server, http):
    suspension_id = with_a_grant(server, http, "listed")
    page = http.get(path_of(suspension_id, "listed")).text
    assert "Runs without asking in this conversation" in page
    assert "given by <bdi" in page
    action, form = revocation_in(page)

    back = http.post(action, data=form)

    assert back.status_code == 303
    assert back.headers["location"] == path_of(suspension_id, "listed")
    assert "Runs without asking" not in http.get(back.headers["location"]).text
    (event,) = [one for one in events_of(server, "listed") if one.kind == "grant_revoked"]
    assert event.principal.id == "local"
    assert http.post(action, data=form).status_code == 303  # the same form again
    gone = http.post(action, data=form | {"request_id": "another"})
    assert gone.status_code == 422
    assert "has ended" in gone.text


def test_what_stands_is_listed_on_the_conversation_and_revoked_there(server, http):
    with_a_grant(server, http, "whole")
    action, form = revocation_in(http.get("/conversations/whole").text)

    back = http.post(action, data=form)

    assert back.headers["location"] == "/conversations/whole"
    assert "<h2>Runs without asking</h2>" not in http.get("/conversations/whole").text


def test_a_revocation_of_another_site_or_without_its_key_changes_nothing(server, http):
    with_a_grant(server, http, "guarded")
    action, form = revocation_in(http.get("/conversations/guarded").text)

    assert http.post(action, data=form, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert http.post(action, data={"reason": "x"}).status_code == 422
    assert http.get(action).status_code == 405

    assert [one.kind for one in events_of(server, "guarded") if one.kind == "grant_revoked"] == []
