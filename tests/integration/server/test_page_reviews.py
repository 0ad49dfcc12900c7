"""The page of a review over real HTTP, without scripts: what a tool's body asks, its verdicts, and what was recorded."""

import json
import re

import httpx
import pytest
from page_forms import HOSTILE, decide, fields, path_of
from served import served
from waiting_calls import APP, events_of, settled, waiting


@pytest.fixture(scope="module")
def server():
    with served() as running:
        running.stack._app = APP
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=30) as found:
        yield found


def said(server, name):
    end = settled(server, name)
    return end.by.value, None if end.body is None else json.loads(end.body)


def test_a_review_shows_what_is_asked_the_report_and_the_data(server, http):
    suspension_id = waiting(server, "review-shown", "review")

    page = http.get(path_of(suspension_id, "review-shown")).text

    assert '<h2 dir="auto">Publish the July report?</h2>' in page
    assert "<dt>Asks for</dt><dd><bdi>publish</bdi></dd>" in page
    assert "It goes to 240 customers." in page
    assert "<strong>Refunds</strong> are up by 4 %" in page
    assert "in the words of <code>lookup</code>" in page
    assert '<dt><bdi>recipients</bdi></dt>\n<dd><pre class="json">240</pre></dd>' in page
    assert re.findall(r'name="verdict" value="(\w+)"', page) == ["allow", "block", "review"]
    assert 'value="answer"' not in page
    assert "Publish the July report?" in http.get("/inbox?q=review-shown").text
    assert "review-shown" in http.get("/inbox?q=complaints+subject").text


VERDICTS = [
    ("allow", "", "allowed"),
    ("allow", "Fine by me.", "allowed"),
    ("block", "", "blocked"),
    ("review", "Leave the complaints out.", "sent back"),
]


@pytest.mark.parametrize(("verdict", "notes", "done"), VERDICTS)
def test_each_verdict_is_recorded_with_its_notes_and_said(server, http, verdict, notes, done):
    name = f"review-{verdict}-{len(notes)}"
    suspension_id = waiting(server, name, "review")

    answered = decide(http, name, suspension_id, decision="review", verdict=verdict, reason=notes)

    assert answered.status_code == 303
    assert said(server, name) == ("review", {"verdict": verdict, "notes": notes})
    after = http.get(answered.headers["location"]).text
    assert f"<h2>{done.capitalize()}</h2>" in after
    assert notes in after
    whole = http.get(f"/conversations/{name}").text
    assert f"<code>lookup</code> {done}" in whole
    assert notes in whole


def test_what_is_sent_back_without_notes_or_without_a_verdict_is_asked_for_them(server, http):
    suspension_id = waiting(server, "review-empty", "review")

    empty = decide(http, "review-empty", suspension_id, decision="review", verdict="review", reason="  ")
    none = decide(http, "review-empty", suspension_id, decision="review", reason="Kept.")
    other = decide(http, "review-empty", suspension_id, decision="review", verdict="launch", reason="")

    assert [one.status_code for one in (empty, none, other)] == [422, 422, 422]
    assert "what is to be revised" in empty.text
    assert 'aria-invalid="true"' in empty.text
    assert "Choose a verdict" in none.text
    assert ">\nKept.</textarea>" in none.text
    assert events_of(server, "review-empty")[-1].kind == "call_suspended"


def test_notes_that_are_too_long_are_refused_and_stay_written(server, http):
    suspension_id = waiting(server, "review-long", "review")
    notes = "é" * 3000

    refused = decide(http, "review-long", suspension_id, decision="review", verdict="block", reason=notes)

    assert refused.status_code == 422
    assert "4096 are allowed" in refused.text
    assert notes in refused.text
    assert events_of(server, "review-long")[-1].kind == "call_suspended"


def test_a_review_with_a_schema_takes_an_answer_in_its_fields_too(server, http):
    schema = json.dumps({"type": "object", "properties": {"subject": {"type": "string"}}, "required": ["subject"]})
    suspension_id = waiting(server, "review-answer", "review", review={"response_schema": schema})
    page = http.get(path_of(suspension_id, "review-answer")).text
    assert re.findall(r'name="verdict" value="(\w+)"', page) == ["allow", "block", "review"]
    assert 'name="v/subject"' in page

    decide(http, "review-answer", suspension_id, decision="answer", note="as legal wants it", **{"v/subject": "July"})

    assert said(server, "review-answer") == ("answer", {"subject": "July"})
    assert settled(server, "review-answer").reason == "as legal wants it"


def test_a_review_without_a_schema_takes_no_answer_and_no_approval(server, http):
    suspension_id = waiting(server, "review-narrow", "review")

    for choice in ("answer", "approve", "deny", "fail", "redispatch", "compare"):
        refused = decide(http, "review-narrow", suspension_id, decision=choice, v="x", reason="x")
        assert refused.status_code == 422
    assert events_of(server, "review-narrow")[-1].kind == "call_suspended"


def test_a_review_is_cancelled_and_its_turn_goes_on(server, http):
    suspension_id = waiting(server, "review-cancel", "review")

    decide(http, "review-cancel", suspension_id, decision="cancel", reason="July is over")

    end = settled(server, "review-cancel")
    assert (end.by.value, end.decision.value, end.reason) == ("cancellation", "cancel", "July is over")
    assert server.stack.writers["review-cancel"].state.status.value == "generating"
    page = http.get(path_of(suspension_id, "review-cancel")).text
    assert "<h2>Cancelled</h2>" in page
    assert "July is over" in page


MARKDOWN = (
    HOSTILE
    + "\n\n[click](javascript:alert(1)) ![x](https://evil.example/x.png) <iframe src=//evil.example></iframe>\n\n"
    + '<form action="/signout" method="post"><button>Allow</button></form>\n\n<!-- list -->\n'
)


def test_hostile_text_in_every_part_of_a_review_is_text(server, http):
    review = {
        "title": HOSTILE.replace("\u202e", ""),
        "message": HOSTILE,
        "report_md": MARKDOWN,
        "payload": json.dumps({HOSTILE: HOSTILE, "deep": [HOSTILE]}),
        "action": "<b>publish</b>",
    }
    suspension_id = waiting(server, "review-hostile", "review", review=review, arguments={HOSTILE: HOSTILE})
    bare = [json.dumps(HOSTILE), json.dumps([HOSTILE])]
    others = [waiting(server, f"review-bare-{at}", "review", review={"payload": one}) for at, one in enumerate(bare)]
    refused = decide(http, "review-hostile", suspension_id, decision="review", reason=HOSTILE)
    pages = [http.get(path_of(suspension_id, "review-hostile")), refused, http.get("/inbox?q=review-hostile")]
    pages.append(http.post("/several", data={"call": f"review-hostile/{suspension_id}"}))
    pages += [http.get(path_of(other, f"review-bare-{at}")) for at, other in enumerate(others)]
    decide(http, "review-hostile", suspension_id, decision="review", verdict="block", reason=HOSTILE)
    pages += [http.get(path_of(suspension_id, "review-hostile")), http.get("/conversations/review-hostile")]

    for page in pages:
        assert page.status_code in (200, 422), page.text
        for harm in ("<script>alert", "<img", "<iframe", "<b>publish", 'href="javascript', "action=/signout"):
            assert harm not in page.text
        assert "&lt;script&gt;" in page.text
        shown = re.sub(r"<textarea.*?</textarea>", "", page.text, flags=re.DOTALL)  # what was typed stays as it was typed
        assert "\u202e" not in shown


def test_a_report_of_any_length_and_a_payload_of_any_kind_are_shown_whole(server, http):
    for number, payload in enumerate(("null", "false", '""', "0", "[1, [2]]", '"a text"', "{}")):
        name = f"review-payload-{number}"
        suspension_id = waiting(
            server, name, "review", review={"payload": payload, "report_md": "line\n" * 9000, "message": ""}
        )

        page = http.get(path_of(suspension_id, name))

        assert page.status_code == 200
        assert page.text.count("line\n") >= 9000
        assert ("What it is about, as data" in page.text) == (payload != "null")


def test_somebody_who_was_first_with_a_verdict_is_named_with_it(server, http):
    suspension_id = waiting(server, "review-race", "review")
    mine = fields(http.get(path_of(suspension_id, "review-race")).text)
    decide(http, "review-race", suspension_id, decision="review", verdict="block", reason="not yet")

    late = http.post(f"/inbox/{suspension_id}", data={**mine, "decision": "review", "verdict": "allow"})

    assert late.status_code == 409
    assert "<code>lookup</code> was blocked by" in late.text
    assert "not yet" in late.text
    assert "changed nothing" in late.text
