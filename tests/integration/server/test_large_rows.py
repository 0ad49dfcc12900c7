"""Lists of large calls over real HTTP: their pages are bounded, show what is long in short, and one call by itself whole."""

import re
from html import unescape

import httpx
import pytest
from page_forms import decide, fields
from served import served
from waiting_calls import settled, waiting
from writer import Writer, begin, call, start, suspend

from holdfast.client import Approve, Client, Deny, InvalidDecision
from holdfast.server.pages.several import TOO_LARGE

LARGE = "x" * 900_000


@pytest.fixture(scope="module")
def server():
    with served() as running:
        for number in range(12):
            waiting(running, f"large-{number:02}", arguments={"order": f"L{number}", "note": LARGE}, now=1_000 + number)
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as found:
        yield found


@pytest.fixture
def client(server):
    with Client.connect(url=server.url) as found:
        yield found


def test_a_page_of_large_calls_is_small_and_the_next_one_goes_on(http):
    sizes, names, after = [], [], ""
    while after is not None:
        found = http.get(f"/v1/pending?limit=1000{after and f'&after={after}'}")
        sizes.append(len(found.content))
        names += [row["conversation_id"] for row in found.json()["items"] if row["conversation_id"].startswith("large-")]
        after = found.json()["next"]

    assert names == [f"large-{number:02}" for number in range(12)]
    assert len(sizes) >= 2
    assert max(sizes) < 50_000


def test_a_row_says_how_long_its_arguments_are_and_how_they_begin_and_the_call_by_itself_is_whole(http):
    row = http.get("/v1/pending?limit=1").json()["items"][0]
    place = {"conversation_id": row["conversation_id"]}
    whole = http.get(f"/v1/pending/{row['suspension_id']}", params=place).json()

    assert row["arguments"] == {}
    assert row["cut"]["arguments"]["size_bytes"] > len(LARGE)
    assert row["cut"]["arguments"]["begins"].startswith('{"order": "L0", "note": "xxx')
    assert (whole["arguments"], whole["cut"]) == ({"order": "L0", "note": LARGE}, {})


def test_what_a_list_leaves_out_is_not_approved_by_the_list(server, client):
    waiting(server, "unseen", arguments={"order": "U1", "note": LARGE}, now=1)
    (row,) = client.pending(limit=1).items

    with pytest.raises(InvalidDecision, match=r"does not show the call's arguments whole; .*client\.pending_call"):
        row.resolve(Approve())
    (refused,) = client.resolve_each([(row, Approve())])
    assert isinstance(refused, InvalidDecision)

    whole = client.pending_call(row.suspension_id, conversation_id=row.conversation_id)
    whole.resolve(Approve())
    assert settled(server, "unseen").by == "approve"


def test_what_a_list_leaves_out_can_be_denied_by_the_list(server, client):
    waiting(server, "denied", arguments={"order": "D1", "note": LARGE}, now=1)
    (row,) = client.pending(limit=1).items
    row.resolve(Deny("not so long"))
    assert settled(server, "denied").by == "deny"


def test_the_inbox_lists_large_calls_in_short_and_opens_one_whole(http):
    page = http.get("/inbox")
    assert len(page.content) < 100_000
    assert "bytes: {&#34;order&#34;: &#34;L3&#34;" in page.text
    assert len(re.findall('id="row-', page.text)) == 12
    assert "not all are shown" not in page.text
    assert 'id="row-' not in http.get("/inbox?q=nothing-has-this").text

    path = unescape(re.search(r'href="(/inbox/[^"]*large-00[^"]*)"', page.text)[1])
    assert LARGE in http.get(path).text


def test_a_large_call_is_decided_where_it_is_shown_whole(server, http):
    suspension_id = waiting(server, "on-a-page", arguments={"order": "P1", "note": LARGE})
    assert decide(http, "on-a-page", suspension_id, decision="approve").status_code == 303
    assert settled(server, "on-a-page").by == "approve"


def test_of_large_calls_as_many_are_decided_at_once_as_a_person_can_look_at(server, http):
    named = [f"{name}/{waiting(server, name, arguments={'note': LARGE})}" for name in ("several-1", "several-2", "several-3")]
    shown = http.post("/several", data={"call": named}, headers={"Origin": server.url})

    assert len(shown.content) < 8_000_000
    assert shown.text.count(TOO_LARGE) == 1
    assert "Decide 2 calls at once" in shown.text
    form = {**fields(shown.text), "decision": "approve", "call": named}
    done = http.post("/several/decide", data=form, headers={"Origin": server.url})
    assert "2 of 3 approved" in done.text
    assert [settled(server, name).by for name in ("several-1", "several-2")] == ["approve"] * 2
    assert http.get("/v1/conversations/several-3").json()["status"] == "awaiting_input"


def test_the_changes_of_the_lists_tell_of_a_large_call_in_short(server, http):
    with http.stream("GET", "/v1/events") as events:
        lines = events.iter_lines()
        assert next(line for line in lines if line.startswith("event: ")) == "event: following"
        waiting(server, "told", arguments={"order": "T1", "note": LARGE})
        told = next(line for line in lines if line.startswith("data: ") and '"told"' in line and '"arguments"' in line)
    assert len(told) < 5_000
    assert '"size_bytes"' in told


def test_many_large_reviews_of_one_conversation_are_whole_as_far_as_they_have_room(server, http):
    async def reviews():
        writer = await Writer.of(server.store, "reviews")
        await writer.do(start(), begin(), call(*["lookup"] * 40))
        for run in [one.effect_id for one in writer.state.calls]:
            await writer.do(suspend(run, report_md="r" * 250_000))

    server.run(reviews())

    found = http.get("/v1/conversations/reviews")

    assert len(found.content) < 9_000_000
    lengths = [len(one["report_md"] or "") for one in found.json()["pending"]]
    assert len(lengths) == 40
    assert lengths[:30] == [250_000] * 30
    assert lengths[35:] == [0] * 5
