"""What a page offers of a call, no more than the call takes; reasons that are recorded; calls of one answer together."""

import re
from html import unescape

import httpx
import pytest
from page_forms import HOSTILE, decide, fields, path_of
from served import served
from waiting_calls import APP, all_waiting, events_of, narrowed, settled, waiting
from writer import cancel

from holdfast.conversation import Execution
from holdfast.server import Authentication


@pytest.fixture(scope="module")
def server():
    with served() as running:
        running.stack._app = APP
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=30) as found:
        yield found


def offered(page):
    """The decisions whose buttons stand on a page, and `edit` where a link leads there."""
    found = set(re.findall(r'<button name="decision" value="(\w+)"', page))
    return found | ({"edit"} if 'id="edit"' in page else set())


NARROWED = [
    (("approve", "edit", "deny"), {"approve", "edit", "deny", "cancel"}),
    (("approve", "deny"), {"approve", "deny", "cancel"}),
    (("approve",), {"approve", "cancel"}),
    (("answer", "deny"), {"answer", "deny", "cancel"}),
    (("approve", "edit", "deny", "answer"), {"approve", "edit", "deny", "answer", "cancel"}),
    (("edit", "answer"), {"edit", "answer", "cancel"}),
    (("edit", "deny"), {"approve", "compare", "deny", "cancel"}),
]
REFUSED = {
    "approve": {"decision": "approve"},
    "edit": {"decision": "approve", "edited": "1", "v/order": "B2"},
    "deny": {"decision": "deny"},
    "answer": {"decision": "answer", "v": "done"},
}


@pytest.mark.parametrize(("decisions", "buttons"), NARROWED, ids=["-".join(one) for one, _ in NARROWED])
def test_a_page_offers_what_the_tool_lets_a_person_say_and_takes_nothing_else(server, http, decisions, buttons):
    name = f"narrow-{'-'.join(decisions)}"
    suspension_id = waiting(server, name, spec=narrowed(*decisions))

    page = http.get(path_of(suspension_id, name)).text

    assert offered(page) == buttons
    for choice in REFUSED.keys() - set(decisions):
        form = {"conversation_id": name, "decision_id": "d-1"} | REFUSED[choice]
        assert http.post(f"/inbox/{suspension_id}", data=form).status_code == 422
    edited = http.get(f"{path_of(suspension_id, name)}&edit=1").text
    assert ('name="edited"' in edited) == ("edit" in decisions)
    assert events_of(server, name)[-1].kind == "call_suspended"


def test_a_tool_that_runs_with_edited_arguments_alone_opens_their_form_and_takes_them_unchanged(server, http):
    suspension_id = waiting(server, "only-edit", spec=narrowed("edit", "deny"))
    page = http.get(path_of(suspension_id, "only-edit")).text
    assert 'name="v/order" value="A1042"' in page
    assert "looked through and confirmed" in page

    answered = decide(http, "only-edit", suspension_id, decision="approve", **{"v/order": "A1042"})

    assert answered.status_code == 303
    assert (settled(server, "only-edit").by.value, settled(server, "only-edit").body) == ("approve", '{"order":"A1042"}')


def test_a_call_whose_arguments_are_always_edited_is_denied_all_the_same(server, http):
    suspension_id = waiting(server, "edit-deny", spec=narrowed("edit", "deny"))

    answered = decide(http, "edit-deny", suspension_id, decision="deny", reason="no")

    assert answered.status_code == 303
    assert settled(server, "edit-deny").by.value == "deny"


def test_an_approval_takes_an_answer_in_the_fields_of_its_schema(server, http):
    schema = '{"type":"object","properties":{"refunded":{"type":"number"}},"required":["refunded"]}'
    suspension_id = waiting(server, "answered", spec=narrowed("approve", "answer", response_schema=schema))
    assert "your answer is the result that the agent reads" in http.get(path_of(suspension_id, "answered")).text

    wrong = decide(http, "answered", suspension_id, decision="answer", **{"v/refunded": "much"})
    right = decide(http, "answered", suspension_id, decision="answer", note="by hand", **{"v/refunded": "12"})

    assert (wrong.status_code, right.status_code) == (422, 303)
    assert "this is no number" in wrong.text
    end = settled(server, "answered")
    assert (end.by.value, end.body, end.reason) == ("answer", '{"refunded":12}', "by hand")


REASONS = [
    ("approval", {"decision": "approve", "note": "the photo is clear"}, "the photo is clear"),
    ("elicitation", {"decision": "answer", "v": "to my card", "note": "as on the phone"}, "as on the phone"),
    ("client_exec", {"decision": "fail", "reason": "no gps", "note": "the phone is gone"}, "the phone is gone"),
    ("lost", {"decision": "redispatch", "note": "the carrier has none"}, "the carrier has none"),
    ("approval", {"decision": "cancel", "reason": "it is moot"}, "it is moot"),
    ("approval", {"decision": "approve", "note": HOSTILE}, HOSTILE),
]


@pytest.mark.parametrize(("kind", "said", "reason"), REASONS)
def test_a_reason_is_recorded_and_shown_afterwards(server, http, kind, said, reason):
    name = f"reason-{REASONS.index((kind, said, reason))}"
    suspension_id = waiting(server, name, kind)

    answered = decide(http, name, suspension_id, **said)

    assert answered.status_code == 303, answered.text
    assert settled(server, name).reason == reason
    shown = reason.removesuffix("\u202e")
    for page in (http.get(answered.headers["location"]).text, http.get(f"/conversations/{name}").text):
        assert shown in unescape(page)
        assert "<script>alert" not in page
        assert "\u202e" not in page


def test_a_reason_that_is_too_long_is_refused_and_stays_written(server, http):
    suspension_id = waiting(server, "reason-long")

    refused = decide(http, "reason-long", suspension_id, decision="approve", note="é" * 3000)

    assert refused.status_code == 422
    assert "4096 are allowed" in refused.text
    assert "é" * 3000 in refused.text
    assert '<details class="why" open>' in refused.text
    assert events_of(server, "reason-long")[-1].kind == "call_suspended"


def test_what_was_written_for_one_decision_does_not_appear_in_the_form_of_another(server, http):
    suspension_id = waiting(server, "reason-apart")

    refused = decide(http, "reason-apart", suspension_id, decision="cancel", reason="ü" * 3000)

    assert refused.status_code == 422
    assert '<details class="apart" open>' in refused.text
    assert re.search(r'id="reason" name="reason" value=""', refused.text)


def test_the_calls_of_one_answer_lead_to_each_other_and_are_decided_together_one_by_one(server, http):
    first, second, third = all_waiting(server, "batch-1", calls=3)
    other = waiting(server, "batch-2")

    page = http.get(path_of(first, "batch-1")).text
    assert "2 more of the same answer" in page
    siblings = page[page.index('class="siblings"') :]
    assert f'href="{path_of(second, "batch-1")}"' in siblings
    assert f'href="{path_of(third, "batch-1")}"' in siblings
    assert other not in siblings
    marked = [("call", one) for one in re.findall(r'name="call" value="([^"]+)"', siblings)]
    assert marked == [("call", f"batch-1/{one}") for one in (first, second, third)]
    together = http.post("/several", content=str(httpx.QueryParams(marked)), headers=FORM)
    assert "Approve (3)" in together.text
    sent = [*marked[:2], ("batch", fields(together.text)["batch"]), ("decision", "approve"), ("reason", "both are broken")]
    done = http.post("/several/decide", content=str(httpx.QueryParams(sent)), headers=FORM)

    assert "2 of 2 approved" in done.text
    ends = [event for event in events_of(server, "batch-1") if event.kind == "suspension_settled"]
    assert [(end.suspension_id, end.reason) for end in ends] == [(first, "both are broken"), (second, "both are broken")]
    assert "of the same answer" not in http.get(path_of(third, "batch-1")).text
    assert "of the same answer" not in http.get(path_of(other, "batch-2")).text


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_the_page_of_a_conversation_shows_the_calls_that_wait_their_turn(server, http):
    spec = narrowed("approve", "deny").model_copy(update={"execution": Execution.SEQUENTIAL})
    (first,) = all_waiting(server, "held-1", calls=3, spec=spec, prompt=HOSTILE)
    page = http.get("/conversations/held-1").text
    waits = page[page.index("Waiting their turn") : page.index('aria-label="Messages"')]
    assert waits.count("<code>refund</code>") == 2
    assert "<script>alert" not in page

    decide(http, "held-1", first, decision="deny")

    page = http.get("/conversations/held-1").text
    waits = page[page.index("Waiting their turn") : page.index('aria-label="Messages"')]
    assert waits.count("<code>refund</code>") == 1
    server.run(server.stack.writers["held-1"].do(cancel("r-1")))
    assert "Waiting their turn" not in http.get("/conversations/held-1").text


def test_several_are_cancelled_with_a_reason(server, http):
    ids = {name: waiting(server, name, kind) for name, kind in (("stop-1", "approval"), ("stop-2", "review"))}
    marked = [("call", f"{name}/{suspension_id}") for name, suspension_id in ids.items()]
    together = http.post("/several", content=str(httpx.QueryParams(marked)), headers=FORM).text
    assert offered(together) == {"cancel"}
    assert "Publish the July report?" in together

    sent = [*marked, ("batch", "b-1"), ("decision", "cancel"), ("reason", "July is over")]
    done = http.post("/several/decide", content=str(httpx.QueryParams(sent)), headers=FORM)

    assert "2 of 2 cancelled" in done.text
    assert [settled(server, name).reason for name in ids] == ["July is over"] * 2


def test_whoever_may_not_decide_sees_a_review_and_no_button_of_it():
    with served(authentication=Authentication()) as server:
        suspension_id = waiting(server, "read-2", "review")
        _, key = server.run(server.client.access.create_key("reader", ["read"]))
        page = httpx.get(f"{server.url}{path_of(suspension_id, 'read-2')}", headers={"Authorization": f"Bearer {key}"}).text

    assert "Publish the July report?" in page
    assert "<strong>Refunds</strong>" in page
    assert 'name="verdict"' not in page
    assert offered(page) == set()
