"""The pages over real HTTP as a browser without scripts uses them: every kind decided, everything refused that should be."""

import asyncio
import re
from html import unescape

import httpx
import pytest
from page_forms import HOSTILE, decide, fields, path_of
from served import served
from waiting_calls import APP, TOOLS, events_of, settled, waiting
from writer import Writer, begin, cancel, fail_model, reply, send, start

from holdfast.client import Deny
from holdfast.client.async_client import acting_for
from holdfast.conversation import Principal, Proof
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


def decision_of(server, name):
    end = settled(server, name)
    return end.by.value, end.body


DECIDED = [
    ("approval", {"decision": "approve"}, ("approve", None)),
    ("approval", {"decision": "deny", "reason": "too much"}, ("deny", "too much")),
    ("elicitation", {"decision": "answer", "v": "to my card"}, ("answer", '"to my card"')),
    ("elicitation", {"decision": "deny", "reason": ""}, ("deny", "")),
    ("client_exec", {"decision": "answer", "v": '{"lat": 1}', "j": "on"}, ("answer", '{"lat":1}')),
    ("client_exec", {"decision": "fail", "reason": "no gps"}, ("fail", "no gps")),
    ("lost", {"decision": "redispatch"}, ("redispatch", None)),
    ("lost", {"decision": "answer", "v": "sent"}, ("answer", '"sent"')),
    ("lost", {"decision": "fail", "reason": "the carrier has none"}, ("fail", "the carrier has none")),
    ("review", {"decision": "review", "verdict": "allow"}, ("review", '"allow"')),
    ("limit", {"decision": "approve", "note": "one more"}, ("approve", None)),
    ("limit", {"decision": "deny", "reason": "that will do"}, ("deny", "that will do")),
    *((kind, {"decision": "cancel"}, ("cancellation", None)) for kind in TOOLS if kind != "limit"),
]


@pytest.mark.parametrize(("kind", "said", "recorded"), DECIDED, ids=[f"{kind}-{said['decision']}" for kind, said, _ in DECIDED])
def test_each_kind_takes_each_of_its_decisions(server, http, kind, said, recorded):
    name = f"each-{kind}-{said['decision']}"
    suspension_id = waiting(server, name, kind)

    answered = decide(http, name, suspension_id, **said)

    assert (answered.status_code, answered.headers["location"]) == (303, path_of(suspension_id, name))
    by, body = decision_of(server, name)
    assert by == recorded[0]
    assert (body or None) == (recorded[1] or None) or recorded[1] in (body or "")
    assert settled(server, name).principal == Principal("local")
    after = http.get(answered.headers["location"])
    assert "Your decision is recorded" in after.text


def test_a_turn_that_asks_shows_its_bound_and_what_it_used_and_offers_no_cancellation(server, http):
    name = "asks"
    suspension_id = waiting(server, name, "limit")

    page = http.get(path_of(suspension_id, name)).text

    assert "Let it go on" in page
    assert "End the turn" in page
    assert "Cancel instead" not in page
    assert "Stop(tokens=100): 120 so far" in page
    assert "the turn ends." in page
    refused = decide(http, name, suspension_id, decision="cancel", reason="")
    assert refused.status_code == 422


def test_the_list_shows_what_waits_the_most_urgent_first_with_its_arguments_and_prompt(server, http):
    now = server.run(server.store.now())
    waiting(server, "list-late", arguments={"order": "L1"}, now=now)
    waiting(server, "list-soon", arguments={"order": "S1"}, prompt="Refund S1?", now=now - 3_000_000)

    page = http.get("/inbox?q=list-").text

    assert page.index("list-soon") < page.index("list-late")
    assert "Refund S1?" in page
    assert "order &#34;L1&#34;" in page


FILTERED = [
    ("q=filter-a", {"filter-a"}),
    ("q=filter+zebra", {"filter-b"}),
    ("q=filter&kind=elicitation", {"filter-c"}),
    ("q=filter&tool=refund", {"filter-a", "filter-b"}),
    ("q=filter&agent=desk&kind=&tool=&older=", {"filter-a", "filter-b", "filter-c"}),
    ("q=filter&agent=nobody", set()),
    ("q=filter&older=1h", {"filter-b"}),
    ("q=filter&older=1d", set()),
]


@pytest.mark.parametrize(("query", "found"), FILTERED)
def test_the_filters_stand_in_the_url(server, http, query, found):
    now = server.run(server.store.now())
    names = {row["conversation_id"] for row in http.get("/v1/pending?limit=1000").json()["items"]}
    if "filter-a" not in names:
        waiting(server, "filter-a")
        waiting(server, "filter-b", arguments={"order": "zebra"}, now=now - 3_700_000)
        waiting(server, "filter-c", "elicitation")

    page = http.get(f"/inbox?{query}").text

    assert set(re.findall(r"<bdi>(filter-[abc])</bdi>", page)) == found


def test_a_call_shows_who_asked_what_approving_does_and_the_last_messages(server, http):
    async def sent():
        client = acting_for(server.client, Principal("ana@shop.example", proof=Proof.OIDC))
        await client.start("desk", "Refund it, **please**.", conversation_id="who-1", message_id="who-1")
        from writer import call  # noqa: PLC0415 - beside its use

        await server.stack.writers["who-1"].do(begin(), call(("refund", '{"order":"A1"}'), prompt="Refund A1?"))
        (view,) = await server.store.pending_of("who-1")
        return view.suspension_id

    suspension_id = server.run(sent())

    page = http.get(path_of(suspension_id, "who-1")).text

    assert "ana@shop.example" in page
    assert "If approved, the tool runs once" in page
    assert "Refund an order." in page
    assert "<strong>please</strong>" in page


def test_edited_arguments_are_compared_and_then_recorded_and_the_original_stays(server, http):
    suspension_id = waiting(server, "edit-1", arguments={"order": "A1042"})
    page = http.get(f"{path_of(suspension_id, 'edit-1')}&edit=1")
    form = fields(page.text)
    assert form["edited"] == "1"

    compared = http.post(f"/inbox/{suspension_id}", data={**form, "v/order": "A7", "decision": "compare"})

    assert compared.status_code == 200
    assert '<span class="removed">-   &#34;order&#34;: &#34;A1042&#34;' in compared.text
    assert '<span class="added">+   &#34;order&#34;: &#34;A7&#34;' in compared.text
    assert http.get(path_of(suspension_id, "edit-1")).text.count("A1042") > 0

    http.post(f"/inbox/{suspension_id}", data={**fields(compared.text), "v/order": "A7", "decision": "approve"})

    assert decision_of(server, "edit-1") == ("approve", '{"order":"A7"}')
    assert "A1042" in events_of(server, "edit-1")[3].calls[0].arguments


def test_edited_arguments_that_break_the_schema_are_said_and_stay_filled_in(server, http):
    suspension_id = waiting(server, "edit-2")
    form = fields(http.get(f"{path_of(suspension_id, 'edit-2')}&edit=1").text)

    large = http.post(f"/inbox/{suspension_id}", data={**form, "v/order": "A7", "v/amount": "900", "decision": "approve"})
    word = http.post(f"/inbox/{suspension_id}", data={**form, "v/order": "A7", "v/amount": "many", "decision": "approve"})

    assert (large.status_code, word.status_code) == (422, 422)
    assert "900 is greater than the maximum of 500" in large.text
    assert "this is no number" in word.text
    assert 'value="900"' in large.text
    assert 'value="A7"' in word.text
    assert events_of(server, "edit-2")[-1].kind == "call_suspended"


def test_a_form_that_was_drawn_for_another_version_of_the_tool_approves_nothing(server, http):
    suspension_id = waiting(server, "edit-3", arguments={"order": "A1", "amount": 100})
    form = fields(http.get(f"{path_of(suspension_id, 'edit-3')}&edit=1").text) | {"v/order": "A1", "v/amount": "1"}
    lost, server.stack._app = server.stack._app, None
    try:
        unknown = http.post(f"/inbox/{suspension_id}", data={**form, "decision": "approve"})
    finally:
        server.stack._app = lost
    other = http.post(f"/inbox/{suspension_id}", data={**form, "layout": "0" * 16, "decision": "approve"})

    assert (unknown.status_code, other.status_code) == (422, 422)
    assert "have changed since it was drawn" in unknown.text
    assert events_of(server, "edit-3")[-1].kind == "call_suspended"


def test_a_failure_without_a_word_is_asked_for_one_and_nothing_is_recorded(server, http):
    suspension_id = waiting(server, "word-1", "client_exec")

    answered = decide(http, "word-1", suspension_id, decision="fail", reason="  ")

    assert answered.status_code == 422
    assert "Say what went wrong" in answered.text
    assert events_of(server, "word-1")[-1].kind == "call_suspended"


def test_a_form_that_is_sent_twice_counts_once(server, http):
    suspension_id = waiting(server, "twice-1")
    form = fields(http.get(path_of(suspension_id, "twice-1")).text) | {"decision": "approve"}

    first = http.post(f"/inbox/{suspension_id}", data=form)
    again = http.post(f"/inbox/{suspension_id}", data=form)

    assert (first.status_code, again.status_code) == (303, 303)
    assert [event.kind for event in events_of(server, "twice-1")].count("suspension_settled") == 1


def test_who_comes_second_is_told_who_was_first_and_changes_nothing(server, http):
    suspension_id = waiting(server, "race-1")
    mine = fields(http.get(path_of(suspension_id, "race-1")).text)
    ana = acting_for(server.client, Principal("ana", proof=Proof.KEY))
    server.run(ana.resolve(suspension_id, Deny("not today"), conversation_id="race-1"))

    late = http.post(f"/inbox/{suspension_id}", data={**mine, "decision": "approve"})

    assert late.status_code == 409
    assert "It was decided before" in late.text
    assert "denied by <bdi" in late.text
    assert "not today" in late.text
    assert "changed nothing" in late.text
    assert decision_of(server, "race-1")[0] == "deny"


def test_a_call_that_is_over_says_how_whether_it_was_cancelled_or_never_was(server, http):
    suspension_id = waiting(server, "over-1")
    server.run(server.stack.writers["over-1"].do(cancel("r-1")))

    cancelled, unknown = http.get(path_of(suspension_id, "over-1")), http.get("/inbox/s-nothing")

    assert "was cancelled" in cancelled.text
    assert "no longer waits" in unknown.text


def test_several_are_listed_whole_and_then_each_has_its_own_result(server, http):
    ids = {name: waiting(server, name, arguments={"order": name}) for name in ("many-1", "many-2", "many-3")}
    marked = [("call", f"{name}/{suspension_id}") for name, suspension_id in ids.items()]
    marked.append(("call", "many-none/s-1"))

    review = http.post("/several", content=httpx.QueryParams(marked).__str__(), headers=FORM)
    assert review.status_code == 200
    assert all(name in review.text for name in ids)
    assert "Approve (3)" in review.text
    server.run(server.client.resolve(ids["many-2"], Deny(), conversation_id="many-2"))
    batch = fields(review.text)["batch"]
    sent = [*marked[:3], ("batch", batch), ("decision", "approve")]
    done = http.post("/several/decide", content=str(httpx.QueryParams(sent)), headers=FORM)

    assert "2 of 3 approved" in done.text
    assert "not taken: it was denied" in done.text
    assert [decision_of(server, name)[0] for name in ids] == ["approve", "deny", "approve"]
    again = http.post("/several/decide", content=str(httpx.QueryParams(sent)), headers=FORM)
    assert "2 of 3 approved" in again.text


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_several_of_different_kinds_offer_what_all_of_them_take(server, http):
    one, other = waiting(server, "mixed-1"), waiting(server, "mixed-2", "elicitation")
    third = waiting(server, "mixed-3", "lost")

    def offered(*marked):
        text = http.post("/several", content=str(httpx.QueryParams([("call", one) for one in marked])), headers=FORM).text
        return re.findall(r'name="decision" value="(\w+)"', text)

    assert offered(f"mixed-1/{one}") == ["approve", "deny", "cancel"]
    assert offered(f"mixed-1/{one}", f"mixed-2/{other}") == ["deny", "cancel"]
    assert offered(f"mixed-1/{one}", f"mixed-3/{third}") == ["cancel"]


@pytest.mark.parametrize("marked", [[], [("call", f"c-{n}/s") for n in range(101)]])
def test_none_and_too_many_at_once_are_refused(http, marked):
    refused = http.post("/several", content=str(httpx.QueryParams(marked)), headers=FORM)

    assert refused.status_code == 422
    assert "mark 1 to 100" in refused.text


BAD = [
    ({"decision": "approve"}, 422),
    ({"decision": "launch", "decision_id": "d-1", "conversation_id": "bad-1"}, 422),
    ({"decision": "answer", "decision_id": "d-1", "conversation_id": "bad-1", "v": "x"}, 422),
    ({"decision": "approve", "decision_id": "d 1", "conversation_id": "bad-1"}, 422),
    ({"decision": "approve", "decision_id": "d-1", "conversation_id": "no such"}, 422),
    ({"decision": "approve", "decision_id": "d-1", "conversation_id": "nothing"}, 404),
]


@pytest.mark.parametrize(("form", "status"), BAD)
def test_a_form_that_no_page_has_is_refused_and_changes_nothing(server, http, form, status):
    rows = {row["conversation_id"]: row["suspension_id"] for row in http.get("/v1/pending?limit=1000").json()["items"]}
    suspension_id = rows.get("bad-1") or waiting(server, "bad-1")
    before = len(events_of(server, "bad-1"))

    refused = http.post(f"/inbox/{suspension_id}", data=form)

    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"].startswith("text/html")
    assert len(events_of(server, "bad-1")) == before


def test_bodies_that_are_no_forms_and_queries_that_are_none_are_refused(http):
    assert http.post("/inbox/s-1", json={"decision": "approve"}).status_code == 415
    assert http.post("/inbox/s-1", content=b"\xff=1", headers=FORM).status_code == 400
    assert http.post("/several", content="&".join("call=1" for _ in range(6000)), headers=FORM).status_code == 400
    assert http.get("/inbox?kind=unheard").status_code == 422
    assert http.get("/inbox?wish=1").status_code == 422
    assert http.get("/inbox?" + "q=" + "x" * 9000).status_code == 414
    assert http.get("/conversations?limit=0").status_code == 422


PAGES = ["/inbox", "/conversations", "/problems", "/agents", "/conversations/nothing", "/inbox/s-nothing", "/signin"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_stands_under_the_same_policy_and_is_kept_by_nobody(http, path):
    page = http.get(path)

    policy = page.headers.get("content-security-policy", "")
    if page.status_code != 303:
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<script(?![^>]* src=)|<style|\son[a-z]+=|\sstyle=|javascript:", page.text)
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-frame-options"] == "DENY"


def test_hostile_text_in_every_field_is_text(server, http):
    suspension_id = waiting(
        server, "hostile-1", arguments={HOSTILE: HOSTILE, "deep": [{HOSTILE: HOSTILE}]}, prompt=HOSTILE, text=HOSTILE
    )
    server.run(server.client.conversation("hostile-1").send(HOSTILE))
    pages = [
        path_of(suspension_id, "hostile-1"),
        f"{path_of(suspension_id, 'hostile-1')}&edit=1",
        f"/inbox?q={HOSTILE}",
        "/conversations/hostile-1",
        f"/conversations?agent={HOSTILE}",
    ]
    for path in pages:
        page = http.get(path)
        assert page.status_code == 200, page.text
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
        if "=<" not in path:  # what was typed into a filter stays as it was typed
            assert "\u202e" not in re.sub(r' name="[^"]*"', "", page.text)
        assert "&lt;script&gt;" in page.text


def test_a_page_of_another_site_can_neither_send_a_form_nor_frame_one(server, http):
    suspension_id = waiting(server, "cross-1")
    form = fields(http.get(path_of(suspension_id, "cross-1")).text) | {"decision": "approve"}

    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}):
        assert http.post(f"/inbox/{suspension_id}", data=form, headers=headers).status_code == 403
        assert http.post("/signout", data={}, headers=headers).status_code == 403
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert http.get(path_of(suspension_id, "cross-1"), headers=framed).status_code == 403
    assert events_of(server, "cross-1")[-1].kind == "call_suspended"


def test_who_may_touch_some_agents_alone_repeats_a_decision_as_all_others_do():
    with served(authentication=Authentication()) as server:
        suspension_id = waiting(server, "again-1")
        _, key = server.run(server.client.access.create_key("desk", ["read", "decide"], agents=["desk"]))
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as http:
            page = http.get(path_of(suspension_id, "again-1")).text
            action = unescape(re.search(r'action="(/inbox/[^"]*)"', page)[1])
            form = fields(page) | {"decision": "approve"}
            answers = [http.post(action, data=form, headers={"HX-Request": "true"}) for _ in range(2)]

            assert [one.status_code for one in answers] == [200, 200]
            assert "Your decision is recorded" in answers[1].text


def test_a_search_looks_beyond_the_first_thousand(server, http, monkeypatch):
    monkeypatch.setattr("holdfast.server.pages.inbox.AT_ONCE", 5)
    for number in range(12):
        waiting(server, f"deep-{number}", arguments={"order": f"deep{number}"})

    assert "<bdi>deep-11</bdi>" in http.get("/inbox?q=deep11").text
    monkeypatch.setattr("holdfast.server.pages.inbox.MOST_SEEN", 5)
    assert "None of the oldest 5 fits these filters; there are more." in http.get("/inbox?q=deep11").text


def test_the_head_of_a_stream_is_refused(http):
    assert http.head("/inbox-feed?after=1-0").status_code == 405
    assert http.head("/conversations/c-1/feed?after=0").status_code == 405


def test_conversations_are_listed_by_status_and_page_by_page(server, http):
    for name in ("row-1", "row-2"):
        waiting(server, name)

    page = http.get("/conversations?status=awaiting_input&agent=desk&limit=1")

    assert page.text.count('class="status status-awaiting_input"') == 1
    following = unescape(re.search(r'href="([^"]*after=[^"]*)"', page.text)[1])
    assert http.get(following).status_code == 200
    assert "None with these filters" in http.get("/conversations?agent=nobody").text


def test_a_conversation_is_sent_to_cancelled_and_ended(server, http):
    waiting(server, "talk-1")
    page = http.get("/conversations/talk-1").text
    keys = fields(page)

    sent = http.post("/conversations/talk-1/send", data={"message_id": keys["message_id"], "text": "And now?"})
    again = http.post("/conversations/talk-1/send", data={"message_id": keys["message_id"], "text": "And now?"})
    cancelled = http.post("/conversations/talk-1/cancel", data={"request_id": "q-1", "turn_id": "t1"})
    unsure = http.post("/conversations/talk-1/end", data={"request_id": "q-2"})
    ended = http.post("/conversations/talk-1/end", data={"request_id": "q-3", "sure": "yes"})

    assert [one.status_code for one in (sent, again, cancelled, unsure, ended)] == [303, 303, 303, 422, 303]
    kinds = [event.kind for event in events_of(server, "talk-1")]
    assert (kinds.count("message_accepted"), kinds.count("turn_cancelled"), kinds[-1]) == (2, 1, "conversation_ended")
    after = http.get("/conversations/talk-1").text
    assert "cancelled by" in after
    assert "Send a message" not in after


def test_a_long_conversation_shows_its_last_messages_and_links_to_the_ones_before(server, http):
    async def written():
        writer = await Writer.of(server.store, "long-1")
        await writer.do(start("the first"), begin())
        for number in range(60):
            await writer.do(reply(f"done {number}."), send(f"next {number}."), begin())

    server.run(written())
    pages = [http.get("/conversations/long-1").text]
    while (link := re.search(r'href="([^"]*/earlier\?before=[^"]*)"', pages[-1])) is not None:
        pages.append(http.get(unescape(link[1])).text)

    said = [re.findall(r'<div class="said"[^>]*>(.*?)</div>', page, re.DOTALL) for page in pages]
    assert [len(one) for one in said] == [50, 50, 21]
    texts = [re.sub(r"<[^>]*>", "", text).strip() for page in reversed(said) for text in page]
    assert texts == ["the first", *(text for number in range(60) for text in (f"done {number}.", f"next {number}."))]
    assert http.get("/conversations/long-1/now").text.count('class="message ') == 50
    assert http.get("/conversations/long-1/earlier?before=x").status_code == 422


def test_a_failed_conversation_says_why_and_one_in_quarantine_can_be_taken_up_again(server, http):
    async def written():
        writer = server.stack.writers["failed-1"] = await Writer.of(server.store, "failed-1")
        await writer.do(start("hi"), begin(), fail_model(f"no model {HOSTILE}"))

    server.run(written())

    page = http.get("/conversations/failed-1").text

    assert "The last turn failed: no model &lt;script&gt;" in page


def test_whoever_may_only_read_sees_no_button_and_cannot_send_the_form():
    with served(authentication=Authentication()) as server:
        suspension_id = waiting(server, "read-1")
        _, key = server.run(server.client.access.create_key("viewer", ["read"]))
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as http:
            page = http.get(path_of(suspension_id, "read-1"))
            form = {"decision": "approve", "decision_id": "d-1", "conversation_id": "read-1"}

            assert "not decide it" in page.text
            assert '<button name="decision"' not in page.text
            assert http.post(f"/inbox/{suspension_id}", data=form).status_code == 403
            assert http.post("/conversations/read-1/send", data={"text": "x", "message_id": "m"}).status_code == 403
        assert events_of(server, "read-1")[-1].kind == "call_suspended"


def test_whoever_may_touch_some_agents_alone_finds_the_others_nowhere():
    with served(authentication=Authentication()) as server:
        suspension_id = waiting(server, "mine-1")
        _, key = server.run(server.client.access.create_key("sales", ["read", "decide", "start"], agents=["sales"]))
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as http:
            form = {"decision": "approve", "decision_id": "d-1", "conversation_id": "mine-1"}

            assert "mine-1" not in http.get("/inbox").text
            assert http.get(path_of(suspension_id, "mine-1")).status_code == 404
            assert http.post(f"/inbox/{suspension_id}", data=form).status_code in (404, 409)
            assert http.get("/conversations/mine-1").status_code == 404
            assert "mine-1" not in http.get("/conversations").text
            assert "Your access is limited to some agents" in http.get("/problems").text
            several = http.post("/several", data={"call": f"mine-1/{suspension_id}"})
            assert "refund" not in several.text
        assert events_of(server, "mine-1")[-1].kind == "call_suspended"


def test_a_stranger_is_led_to_the_page_that_signs_in_and_back():
    with served(authentication=Authentication()) as server, httpx.Client(base_url=server.url) as http:
        asked = http.get("/inbox?q=a+b&kind=lost")
        assert (asked.status_code, asked.headers["location"]) == (303, "/signin?next=/inbox%3Fq%3Da%2Bb%26kind%3Dlost")
        part = http.get("/inbox/s-1", headers={"HX-Request": "true"})
        assert (part.status_code, part.content) == (401, b"")
        stream = http.get("/inbox-feed?after=1-0", headers={"Accept": "text/event-stream"})
        assert stream.status_code == 401
        assert http.post("/inbox/s-1", data={"decision": "approve"}).headers["location"] == "/signin"
        _, key = server.run(server.client.access.create_key("ana", ["read", "decide"]))
        signed_in = http.post("/signin", data={"key": key, "next": "/inbox?q=a+b&kind=lost"}, headers={"Origin": server.url})
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/inbox?q=a+b&kind=lost")
        assert http.get("/inbox").status_code == 200


async def test_the_feed_tells_rows_that_come_what_settled_them_and_goes_on_where_it_was(server):
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        page = (await http.get("/inbox?q=feed-")).text
        place = unescape(re.search(r'sse-connect="([^"]+)"', page)[1])
        first = await asyncio.to_thread(waiting, server, "feed-1")
        await asyncio.to_thread(waiting, server, "other-1")
        async with http.stream("GET", place) as stream:
            lines = stream.aiter_lines()
            row = await data_of(lines)
            assert (row["id"], "feed-1" in row["row"]) == (first, True)
            cursor = await cursor_of(lines)
        await asyncio.to_thread(lambda: server.run(server.client.resolve(first, Deny(), conversation_id="feed-1")))
        async with http.stream("GET", place, headers={"Last-Event-ID": cursor}) as stream:
            told = await data_of(stream.aiter_lines())
            assert told.pop("at") > 0
            assert told == {"id": first, "ended": "denied"}


async def data_of(lines):
    import json  # noqa: PLC0415 - beside its use

    async with asyncio.timeout(20):
        async for line in lines:
            if line.startswith("data: "):
                return json.loads(line[6:])
    raise AssertionError


async def cursor_of(lines):
    async with asyncio.timeout(20):
        async for line in lines:
            if line.startswith("id: "):
                return line[4:]
    raise AssertionError
