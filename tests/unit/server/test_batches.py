"""Several decisions in one request: all of one conversation or none, and each by itself."""

import pytest
from writer import Writer, begin, call, start, suspend
from writer import resolve as decided

from holdfast.conversation import Approve
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import StoreUnavailable
from holdfast.persistence import AccessScope
from holdfast.server import Bounds, create_app

from .conftest import Api
from .test_page_tokens import bearer

MANY, EACH = "/v1/conversations/c-1/resolve-many", "/v1/pending/resolve-each"
EVERY = [scope.value for scope in AccessScope]


def approve(suspension_id, **more):
    return {"suspension_id": suspension_id, "decision": "approve", **more}


def answer(suspension_id, value="blue", **more):
    return {"suspension_id": suspension_id, "decision": "answer", "value": value, **more}


@pytest.fixture
def ids(waiting):
    """The suspensions that wait: an approval and a question."""
    return waiting.suspension_ids


@pytest.fixture
async def elsewhere(store, stack):
    """The suspension of another conversation."""
    writer = stack.writers["c-2"] = await Writer.of(store, "c-2")
    await writer.do(start(), begin(), call(("refund", '{"order": 8}')))
    return writer.suspension_ids[0]


async def page_with(api, kinds):
    """The header of a page that may decide these kinds of calls of `c-1`."""
    _, text = await api.app.state.serving.client.access.create_key("shop", EVERY)
    body = {"conversation_id": "c-1", "kinds": kinds}
    return bearer((await api("POST", "/v1/page-tokens", 201, json=body, headers=bearer(text)))["token"])


@pytest.fixture
async def guarded(client):
    """The application that asks who calls."""
    asked = Api(create_app(client))
    async with asked.http:
        yield asked


async def test_all_are_decided_and_the_same_request_again_has_the_same_receipts(api, ids, stack):
    body = {"decisions": [approve(ids[0], reason="seen"), answer(ids[1], None)]}
    first = await api("POST", MANY, json=body, headers={"Idempotency-Key": "d-1"})
    again = await api("POST", MANY, json=body | {"decision_id": "d-1"})

    assert (first["conversation_id"], first["decision_id"]) == ("c-1", "d-1")
    assert [(one["suspension_id"], one["duplicate"]) for one in first["items"]] == [(one, False) for one in ids]
    assert [one["seq"] for one in again["items"]] == [one["seq"] for one in first["items"]]
    assert all(one["duplicate"] for one in again["items"])
    assert [one.reason for one in stack.writers["c-1"].events if one.kind == "suspension_settled"] == ["seen", ""]
    assert (await api("GET", "/v1/pending"))["items"] == []


async def test_without_a_key_the_server_names_one(api, ids):
    body = {"decisions": [approve(ids[0]), answer(ids[1])]}
    drawn = (await api("POST", MANY, json=body))["decision_id"]
    assert (await api("POST", MANY, json=body | {"decision_id": drawn}))["items"][0]["duplicate"]


async def test_one_that_cannot_be_taken_leaves_all_as_they_were_and_each_reason_is_told(api, ids, waiting, elsewhere):
    seq = waiting.state.seq
    body = {"decisions": [approve(ids[0], arguments={"order": "8"}), answer(ids[1], 7), approve("s-none"), approve(elsewhere)]}
    refused = await api("POST", MANY, 409, json=body)

    assert (refused["code"], refused["conversation_id"]) == ("batch_refused", "c-1")
    told = [(one["suspension_id"], one["code"], one.get("reason"), one.get("field")) for one in refused["errors"]]
    assert told == [
        (ids[1], "invalid_decision", None, "decision.value"),
        ("s-none", "stale_call", "unknown", None),
        (elsewhere, "stale_call", "unknown", None),
    ]
    assert waiting.state.seq == seq
    await waiting.do(decided_by(ids[0]))
    settled = await api("POST", MANY, 409, json={"decisions": [answer(ids[1]), approve(ids[0])]})
    (stale,) = settled["errors"]
    assert (stale["suspension_id"], stale["reason"], stale["settled_by"]) == (ids[0], "already_resolved", "approve")


def decided_by(suspension_id):
    """The step that approves."""
    return decided(Approve(), suspension_id=suspension_id)


BAD = {
    "none": [],
    "no list": {"s-1": {"decision": "approve"}},
    "too many": [{"suspension_id": f"s-{number}", "decision": "redispatch"} for number in range(1001)],
    "no suspension": [{"decision": "approve"}],
    "an id that is none": [approve(7)],
    "an id without end": [approve("s" * 1001)],
    "no decision": [{"suspension_id": "s-1"}],
    "an unknown decision": [{"suspension_id": "s-1", "decision": "maybe"}],
    "an unknown field": [approve("s-1", by="ana")],
    "a key of its own": [approve("s-1", decision_id="d-1")],
    "a verdict that is none": [{"suspension_id": "s-1", "decision": "review", "verdict": "maybe"}],
    "no verdict": [{"suspension_id": "s-1", "decision": "review", "notes": "x"}],
    "notes that are none": [{"suspension_id": "s-1", "decision": "review", "verdict": "allow", "notes": None}],
    "a reason that is none": [approve("s-1", reason=7)],
    "two of the same": [approve("s-1"), approve("s-2"), {"suspension_id": "s-1", "decision": "deny"}],
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("path", [MANY, EACH])
async def test_a_set_of_decisions_that_is_none_is_refused_whole(api, waiting, stack, path, name):
    refused = await api("POST", path, 422, json={"decisions": BAD[name]})
    said = refused.get("field") or refused["errors"][0]["field"]
    assert said.startswith("decisions")
    assert stack.delivered == []


@pytest.mark.parametrize("path", [MANY, EACH])
async def test_a_key_that_is_none_is_refused(api, ids, stack, path):
    body = {"decisions": [approve(ids[0])]}
    for key in ("a b", "x" * 201, "\u00fc"):
        assert (await api("POST", path, 422, json=body | {"decision_id": key}))["field"] == "decision_id"
    for headers in ({"Idempotency-Key": ""}, {"Idempotency-Key": "other"}):
        await api("POST", path, 422, json=body | {"decision_id": "d-1"}, headers=headers)
    assert stack.delivered == []


async def test_a_key_that_was_used_for_other_decisions_is_refused(api, ids):
    key = {"Idempotency-Key": "d-1"}
    await api("POST", MANY, json={"decisions": [approve(ids[0])]}, headers=key)
    other = {"suspension_id": ids[0], "decision": "deny"}
    assert (await api("POST", MANY, 422, json={"decisions": [other]}, headers=key))["field"] == "decision_id"
    found = await api("POST", EACH, 207, json={"decisions": [other | {"conversation_id": "c-1"}]}, headers=key)
    assert (found["items"][0]["status"], found["items"][0]["problem"]["field"]) == (422, "decision_id")


@pytest.mark.parametrize("more", [{"conversation_id": "c-2"}, {"tool_call_id": "call_1"}])
async def test_decisions_of_one_conversation_name_no_other_place(api, ids, stack, more):
    refused = await api("POST", MANY, 422, json={"decisions": [approve(ids[0], **more)]})
    assert refused["field"] == f"decisions.0.{next(iter(more))}"
    assert stack.delivered == []


async def test_more_decisions_than_one_request_may_bring_are_refused(api, waiting, stack):
    body = {"decisions": [approve(f"s-{number}") for number in range(101)]}
    assert (await api("POST", EACH, 422, json=body))["errors"][0]["field"] == "decisions"
    assert stack.delivered == []


async def test_each_is_decided_by_itself_and_has_its_own_result(api, ids, elsewhere, waiting):
    place = {"conversation_id": "c-1", "tool_call_id": waiting.state.turn.calls.open()[1].tool_call_id}
    items = [
        answer(ids[1], 7),
        approve(elsewhere),
        approve("s-none"),
        approve(ids[0], conversation_id="c-2"),
        answer("s-other", conversation_id="c-none"),
        approve("s-more", conversation_id="a b"),
    ]
    body = {"decisions": [*items, {"suspension_id": "s-4", "decision": "cancel", **place}], "decision_id": "d-1"}
    found = await api("POST", EACH, 207, json=body)

    assert [(one["suspension_id"], one["status"], (one["problem"] or {}).get("code")) for one in found["items"]] == [
        (ids[1], 422, "invalid_decision"),
        (elsewhere, 200, None),
        ("s-none", 409, "stale_call"),
        (ids[0], 409, "stale_call"),
        ("s-other", 404, "conversation_not_found"),
        ("s-more", 422, "invalid_conversation_id"),
        ("s-4", 409, "stale_call"),
    ]
    taken = found["items"][1]
    assert (taken["receipt"]["conversation_id"], taken["receipt"]["suspension_id"]) == ("c-2", elsewhere)
    single = {"decision": "approve", "conversation_id": "c-2", "decision_id": taken["decision_id"]}
    again = await api("POST", f"/v1/pending/{elsewhere}/resolve", json=single)
    assert (again["seq"], again["duplicate"]) == (taken["receipt"]["seq"], True)
    assert len((await api("GET", "/v1/pending"))["items"]) == 2


async def test_a_store_that_is_away_is_the_problem_of_each(api, ids, stack):
    stack.failing = StoreUnavailable("redis://:hunter22@db:6379 is away")
    found = await api("POST", EACH, 207, json={"decisions": [approve(ids[0]), answer(ids[1])]})
    assert [(one["status"], one["problem"]["code"]) for one in found["items"]] == [(503, "store_unavailable")] * 2
    assert "hunter22" not in str(found)


async def test_a_mistake_in_one_hides_no_receipt_of_another(api, ids, client, stack, monkeypatch, caplog):
    deliver, broken = stack.deliver, []

    async def first_fails(delivery):
        if not broken:
            broken.append(delivery)
            raise RuntimeError("hunter22")
        return await deliver(delivery)

    monkeypatch.setattr(stack, "deliver", first_fails)
    found = await api("POST", EACH, 207, json={"decisions": [approve(ids[0]), answer(ids[1])]})
    assert sorted(one["status"] for one in found["items"]) == [200, 500]
    assert "hunter22" not in str(found)
    assert "hunter22" in caplog.text


# --- who may


async def test_a_page_decides_several_of_the_kinds_that_it_was_given_and_no_other(guarded, ids, elsewhere, stack):
    usual = await page_with(guarded, ["elicitation"])
    both = {"decisions": [answer(ids[1]), approve(ids[0])]}

    refused = await guarded("POST", MANY, 403, json=both, headers=usual)
    assert (refused["code"], refused["kind"]) == ("not_permitted", "approval")
    unknown = await guarded("POST", MANY, 409, json={"decisions": [answer(ids[1]), approve("s-none")]}, headers=usual)
    assert [one["suspension_id"] for one in unknown["errors"]] == ["s-none"]
    await guarded("POST", "/v1/conversations/c-2/resolve-many", 404, json={"decisions": [approve(elsewhere)]}, headers=usual)
    assert stack.delivered == []

    items = [approve(ids[0]), answer(ids[1]), approve(elsewhere), approve(elsewhere[:-1] + "x", conversation_id="c-2")]
    found = await guarded("POST", EACH, 207, json={"decisions": items}, headers=usual)
    assert [(one["status"], (one["problem"] or {}).get("code")) for one in found["items"]] == [
        (403, "not_permitted"),
        (200, None),
        (409, "stale_call"),
        (404, "conversation_not_found"),
    ]
    assert len(stack.delivered) == 1
    whole = await page_with(guarded, ["approval", "elicitation"])
    key = {"Idempotency-Key": "d-1"}
    await guarded("POST", MANY, json={"decisions": [approve(ids[0])]}, headers=whole | key)
    assert (await guarded("POST", MANY, json={"decisions": [approve(ids[0])]}, headers=whole | key))["items"][0]["duplicate"]


async def test_a_page_sends_fewer_at_once_than_others(guarded, ids, stack):
    usual = await page_with(guarded, ["elicitation"])
    many = {"decisions": [approve(f"s-{number}") for number in range(101)]}
    assert (await guarded("POST", MANY, 422, json=many, headers=usual))["field"] == "decisions"
    assert stack.delivered == []


async def test_a_key_for_some_agents_decides_nothing_of_others(guarded, client, ids, elsewhere, stack):
    _, text = await client.access.create_key("ana", ["decide", "read"], agents=["another"])
    items = [approve(ids[0]), answer(ids[1], conversation_id="c-1")]
    found = await guarded("POST", EACH, 207, json={"decisions": items}, headers=bearer(text))
    assert [one["problem"]["code"] for one in found["items"]] == ["stale_call", "conversation_not_found"]
    await guarded("POST", MANY, 404, json={"decisions": items[:1]}, headers=bearer(text))
    assert stack.delivered == []


async def test_every_decision_counts_as_a_request_of_its_caller(client, ids, stack):
    api = Api(create_app(client, bounds=Bounds(caller_burst=4, caller_per_s=0.5)))
    api.app.state.serving.callers._clock = lambda: 100.0
    _, text = await client.access.create_key("ana", ["decide"])
    items = [approve(f"s-{number}") for number in range(10)]
    async with api.http:
        await api("POST", EACH, 207, json={"decisions": items[:2]}, headers=bearer(text))
        found = await api.http.post(EACH, json={"decisions": items}, headers=bearer(text))
    assert (found.status_code, found.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(found.headers["retry-after"]) <= 8


# --- reviews


@pytest.fixture
async def review(waiting, ids):
    """The suspension of a review, in the conversation that waits for an answer, too."""
    await waiting.do(decided_by(ids[0]))
    asked = {"message": "May it?", "report_md": "# Why", "payload": '{"amount":[900]}', "action": "confirm"}
    await waiting.do(suspend(title="A refund of 900", **asked))
    return waiting.suspension_ids[0]


async def test_a_review_is_shown_whole_and_its_verdict_is_taken(api, review, waiting):
    (shown,) = (await api("GET", "/v1/pending?kind=review"))["items"]
    assert (shown["suspension_id"], shown["title"], shown["action"]) == (review, "A refund of 900", "confirm")
    assert (shown["prompt"], shown["report_md"], shown["payload"]) == ("May it?", "# Why", {"amount": [900]})
    assert (shown["decisions"], shown["batch_id"]) == (["review", "cancel"], "t1.m1")

    place = f"/v1/pending/{review}/resolve"
    for body in ({"verdict": "maybe"}, {}, {"verdict": "allow", "notes": 7}, {"verdict": "allow", "reason": "x"}):
        refused = await api("POST", place, 422, json={"decision": "review"} | body)
        assert refused["errors"][0]["field"].startswith("review.")
    too_long = await api("POST", place, 422, json={"decision": "review", "verdict": "allow", "notes": "x" * 5000})
    assert (too_long["code"], too_long["field"]) == ("invalid_decision", "decision")
    assert (await api("POST", place, 422, json={"decision": "approve"}))["code"] == "invalid_decision"

    await api("POST", place, json={"decision": "review", "verdict": "review", "notes": "halve it"})
    said = next(one for one in reversed(waiting.events) if one.kind == "suspension_settled")
    assert (said.by, said.body) == ("review", '{"verdict":"review","notes":"halve it"}')


async def test_a_page_gives_a_verdict_only_where_its_maker_said_so(guarded, review):
    body = {"decision": "review", "verdict": "allow"}
    usual, reviewing = await page_with(guarded, ["elicitation"]), await page_with(guarded, ["review"])
    await guarded("POST", f"/v1/pending/{review}/resolve", 403, json=body, headers=usual)
    await guarded("POST", f"/v1/pending/{review}/resolve", json=body, headers=reviewing)


async def test_a_page_decides_reviews_at_once_that_are_too_large_to_be_listed_whole_beside_each_other(guarded, store, stack):
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(*["lookup"] * 40))
    for run in [one.effect_id for one in writer.state.calls]:
        await writer.do(suspend(run, report_md="r" * 250_000))
    page = await page_with(guarded, ["review"])
    items = [{"suspension_id": one, "decision": "review", "verdict": "allow"} for one in writer.suspension_ids]

    decided = await guarded("POST", MANY, json={"decisions": items}, headers=page)

    assert len(decided["items"]) == 40


@pytest.mark.parametrize(
    ("body", "by"),
    [
        ({"decision": "cancel", "reason": "the shop is closed"}, "cancellation"),
        ({"decision": "deny", "reason": "the shop is closed"}, "deny"),
        ({"decision": "approve", "reason": "the shop is closed"}, "approve"),
    ],
)
async def test_every_decision_has_a_reason_that_is_bounded(api, ids, waiting, body, by):
    place = f"/v1/pending/{ids[0]}/resolve"
    assert (await api("POST", place, 422, json=body | {"reason": "x" * 5000}))["code"] == "invalid_decision"
    await api("POST", place, json=body)
    said = next(one for one in waiting.events if one.kind == "suspension_settled")
    assert (said.by, "the shop is closed" in (said.reason, (said.body or "").strip('"'))) == (by, True)


@pytest.mark.parametrize(
    ("effect", "tool", "shown"),
    [
        (RuleEffect.ASK, "lookup", ("approval", "pushes", "Others see it.")),
        (RuleEffect.ALLOW, "locate", ("client_exec", "", "")),  # the rule lets it go on: nobody is asked by it
    ],
)
async def test_a_call_that_a_rule_asks_about_says_which_and_why(api, client, store, stack, effect, tool, shown):
    ruled = RuleVerdict(effect=effect, rule="pushes", reason="Others see it.")
    writer = stack.writers["c-3"] = await Writer.of(store, "c-3")
    await writer.do(start(), begin(), call(ProposedCall(tool_call_id="call_a", name=tool, arguments="{}", ruled=ruled)))

    (listed,) = (await api("GET", "/v1/pending"))["items"]
    (of_state,) = (await api("GET", "/v1/conversations/c-3"))["pending"]
    (called,) = (await client.pending()).items

    assert [(one["kind"], one["rule"], one["rule_reason"]) for one in (listed, of_state)] == [shown, shown]
    assert (called.kind, called.rule, called.rule_reason) == shown
