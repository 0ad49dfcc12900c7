"""Clients that carry out calls, over HTTP: who may, what a page that may is shown and may do, and what ends its presence."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from claiming import claim
from writer import Writer, begin, call, start

from holdfast.conversation import Present, Principal, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.presence import MOST_CLIENTS
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.persistence import AccessScope
from holdfast.server import Bounds, callers, create_app, drain, streams

from .conftest import HERE, Api

ATTACH = "/v1/conversations/c-1/attach?client_id=tab&tools=locate&tools=share"
CLAIM = {"client_id": "tab", "conversation_id": "c-1"}
ANSWER = {"decision": "answer", "value": 1, "client_id": "tab", "conversation_id": "c-1"}


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
async def api(client):
    asked = Api(create_app(client, bounds=Bounds(heartbeat_s=0.02)))
    asked.http = httpx.AsyncClient(transport=httpx.ASGITransport(asked.app), base_url=HERE)
    async with asked.http:
        yield asked


@pytest.fixture
async def writer(store, stack):
    """The writer of a conversation in which two calls wait for a client, and one for a person."""
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    ruled = RuleVerdict(effect=RuleEffect.ASK, rule="rule-secret", reason="reason-secret")
    asked = ProposedCall(tool_call_id="refund", name="refund", arguments="{}", ruled=ruled)
    await writer.do(start(), begin(), call(("locate", '{"precise":true}'), ("locate", "{}"), asked))
    return writer


@pytest.fixture
async def back_end(client):
    _, text = await client.access.create_key("shop", [scope.value for scope in AccessScope])
    return bearer(text)


async def lent(api, back_end, *scopes, **more):
    """The headers of a page to which these scopes are lent."""
    body = {"conversation_id": "c-1", "scopes": list(scopes), "principal": "ana"} | more
    return bearer((await api("POST", "/v1/page-tokens", 201, json=body, headers=back_end))["token"])


@pytest.fixture
async def page(api, back_end, writer):
    return await lent(api, back_end, "client")


@asynccontextmanager
async def attached(api, page):
    """An open stream of a client, once it is told of both calls."""
    async with api.stream("GET", ATTACH, authorization=page["Authorization"]) as stream:
        await stream.until(lambda: len(stream.events) == 3)
        yield stream


async def present(store):
    now = await store.now()
    return [one.name for one in await store.present("c-1") if one.until > now]


async def until(condition):
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.005)


def at_client(writer):
    return [one.suspension.suspension_id for one in writer.state.calls if one.executor == "client"]


async def test_a_page_with_the_scope_client_is_present_claims_reports_and_answers(api, page, writer, store):
    first, second = at_client(writer)
    async with attached(api, page) as stream:
        assert stream.events[0][2]["data"]["suspension_ids"] == [first, second]
        assert await present(store) == ["stated:ana/tab"]
        shown = [data["data"] for _, _, data in stream.events[1:]]
        assert [(one["suspension_id"], one["arguments"]) for one in shown] == [(first, {"precise": True}), (second, {})]
        receipt = await api("POST", f"/v1/pending/{first}/claim", json=CLAIM, headers=page)
        assert receipt["attempt"] == 1
        assert await api("POST", f"/v1/pending/{first}/progress", json=CLAIM | {"value": 1}, headers=page) == {"heard": False}
        await api("POST", f"/v1/pending/{first}/resolve", json=ANSWER, headers=page)
        await api("POST", f"/v1/pending/{second}/claim", json=CLAIM, headers=page)
        await stream.until(lambda: stream.events[-1][0] == "noted")
        await api("POST", f"/v1/pending/{second}/give-back", json=CLAIM | {"began": False}, headers=page)
        await stream.until(lambda: stream.events[-1][0] == "pending" and stream.events[-1][2]["data"]["attempt"] == 1)
        kinds = {(kind, data["data"]["suspension_id"]) for kind, _, data in stream.events[3:]}
        assert {("settled", first), ("noted", second), ("pending", second)} <= kinds
        await stream.until(lambda: b": \n\n" in stream.raw)
    await until(lambda: _none(store))


async def _none(store):
    return not await present(store)


async def test_with_the_scope_client_alone_only_its_own_claims_are_answered(api, page, writer, stack):
    first, second = at_client(writer)
    (approval,) = [one.suspension.suspension_id for one in writer.state.calls if one.executor != "client"]
    await writer.do(claim("tab", principal=Principal("ana", proof=Proof.KEY)))
    place = "/v1/pending/{}/resolve".format
    for sent in ({"decision": "answer", "value": 1}, {"decision": "fail", "error": "x"}):
        refused = await api("POST", place(second), 403, json=sent, headers=page)
        assert (refused["code"], refused["scope"]) == ("not_permitted", "decide")
    for sent in ({"decision": "cancel"}, {"decision": "deny"}, {"decision": "approve"}):
        await api("POST", place(second), 403, json=sent | {"client_id": "tab"}, headers=page)
    for name in (first, second, approval):  # another principal's claim, nobody's, and no client's call
        refused = await api("POST", place(name), 409, json=ANSWER, headers=page)
        assert (refused["code"], refused["reason"]) == ("stale_call", "claimed")
    by_call = {"decision": "answer", "value": 1, "client_id": "tab", "tool_call_id": "refund"}
    await api("POST", "/v1/conversations/c-1/resolve", 422, json=by_call, headers=page)
    await api("POST", "/v1/conversations/c-1/resolve", 409, json=by_call | {"suspension_id": approval}, headers=page)
    await api("POST", "/v1/conversations/c-1/resolve-many", 403, json={"decisions": []}, headers=page)
    await api("POST", f"/v1/pending/{approval}/claim", 422, json=CLAIM, headers=page)
    for path in ("", "/messages", "/events"):
        await api("GET", f"/v1/conversations/c-1{path}", 403, headers=page)
    assert {one.kind for one in stack.delivered} <= {"claim"}


async def test_a_repeated_answer_of_a_client_has_its_first_receipt(api, page, writer):
    first, _ = at_client(writer)
    await api("POST", f"/v1/pending/{first}/claim", json=CLAIM, headers=page)
    one, two = [
        await api("POST", f"/v1/pending/{first}/resolve", json=ANSWER | {"decision_id": "d"}, headers=page) for _ in "12"
    ]
    assert (one["seq"], one["duplicate"], two["duplicate"]) == (two["seq"], False, True)


@pytest.mark.parametrize("scopes", [("read",), ("read", "decide", "start")])
async def test_without_the_scope_client_nobody_is_present_or_claims(api, back_end, writer, store, scopes):
    page, (first, _) = await lent(api, back_end, *scopes), at_client(writer)
    for method, path, sent in [
        ("GET", ATTACH, {}),
        ("POST", f"/v1/pending/{first}/claim", {"json": CLAIM}),
        ("POST", f"/v1/pending/{first}/give-back", {"json": CLAIM}),
        ("POST", f"/v1/pending/{first}/progress", {"json": CLAIM}),
    ]:
        refused = await api(method, path, 403, headers=page, **sent)
        assert (refused["code"], refused["scope"]) == ("not_permitted", "client")
    assert await present(store) == []


@pytest.mark.parametrize("verb", ["claim", "give-back", "progress", "resolve"])
async def test_a_client_of_another_conversation_is_given_nothing(api, page, back_end, writer, store, stack, verb):
    other = stack.writers["c-2"] = await Writer.of(store, "c-2")
    await other.do(start(), begin(), call(("locate", "{}")))
    await other.do(claim("tab", principal=Principal("ana")))
    (foreign,), (mine, _) = at_client(other), at_client(writer)
    body = {"client_id": "tab"} | ({"decision": "answer", "value": 1} if verb == "resolve" else {})
    await api("POST", f"/v1/pending/{foreign}/{verb}", 404, json=body | {"conversation_id": "c-2"}, headers=page)
    for named in ({}, {"conversation_id": "c-1"}):
        refused = await api("POST", f"/v1/pending/{foreign}/{verb}", 409, json=body | named, headers=page)
        assert (refused["code"], refused["reason"]) == ("stale_call", "unknown")
    await api("POST", f"/v1/pending/{mine}/{verb}", 404, json=body | {"conversation_id": "c-2"}, headers=page)
    await api("GET", "/v1/conversations/c-2/attach?client_id=tab&tools=locate", 404, headers=page)
    assert (await store.present("c-2"), other.state) == ((), await store.load("c-2"))
    assert [one.conversation_id for one in await store.pending_of("c-2")] == ["c-2"]


async def test_the_presence_of_a_page_ends_with_its_token(api, client, writer, store, monkeypatch):
    monkeypatch.setattr(streams, "RECHECK_S", 0.01)
    monkeypatch.setattr(callers, "FRESH_S", 0)
    key, text = await client.access.create_key("shop", [scope.value for scope in AccessScope])
    page = await lent(api, bearer(text), "client")
    async with attached(api, page) as stream:
        assert await present(store) == ["stated:ana/tab"]
        await client.access.revoke_key(key.key_id)
        async with asyncio.timeout(20):
            await stream.task
        await until(lambda: _none(store))


async def test_a_page_for_other_kinds_of_calls_is_no_client(api, back_end, writer, store):
    page = await lent(api, back_end, "client", kinds=["elicitation"])
    assert (await api("GET", ATTACH, 403, headers=page))["kind"] == "client_exec"
    await api("POST", f"/v1/pending/{at_client(writer)[0]}/claim", 403, json=CLAIM, headers=page)
    assert await present(store) == []


async def test_a_page_ends_what_waits_for_its_own_client_and_nothing_else(api, page, back_end, writer):
    first, second = at_client(writer)
    await api("POST", f"/v1/pending/{first}/claim", json=CLAIM, headers=page)
    path = "/v1/conversations/c-1/cancel-pending"
    await api("POST", path, 403, json={}, headers=page)
    reader = await lent(api, back_end, "read", "start")
    await api("POST", path, 403, json={"client_id": "tab"}, headers=reader)
    other = await lent(api, back_end, "client", principal="kim")
    assert (await api("POST", path, json={"client_id": "tab"}, headers=other))["calls"] == []
    done = await api("POST", path, json={"client_id": "tab"}, headers=page)
    assert len(done["calls"]) == 1
    assert (await writer.store.pending_of("c-1"))[0].suspension_id == second


@pytest.mark.parametrize(
    ("scopes", "kinds", "ends"),
    [
        (["client"], ["approval", "client_exec"], False),
        (["client", "decide"], ["client_exec"], False),
        (["client", "decide"], ["approval", "client_exec"], True),
    ],
)
async def test_a_page_ends_of_what_waits_for_its_user_only_what_it_may_decide(api, back_end, store, stack, scopes, kinds, ends):
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    alone = ApproverTerms(who=(("id:ana",),), stated=True)
    asked = ProposedCall(tool_call_id="refund", name="refund", arguments="{}", approvers=alone)
    await writer.do(start(), begin(), call(("locate", "{}"), asked))
    (mine,), page = at_client(writer), await lent(api, back_end, *scopes, kinds=kinds)
    await api("POST", f"/v1/pending/{mine}/claim", json=CLAIM, headers=page)
    async with api.stream("GET", f"{ATTACH}&on_detach=cancel", authorization=page["Authorization"]) as stream:
        await stream.until(lambda: stream.events)
        (here,) = await store.present("c-1")
        assert (here.kinds is None or "approval" in here.kinds) == ends
    done = await api("POST", "/v1/conversations/c-1/cancel-pending", json={"client_id": "tab"}, headers=page)
    assert (len(done["calls"]), "refund" in done["calls"]) == (1 + ends, ends)


async def test_a_page_is_not_shown_which_other_clients_there_are(api, page, writer):
    await writer.do(claim("laptop-of-kim-secret", principal=Principal("kim-secret", roles=["role-secret"])))
    async with attached(api, page) as stream:
        kinds = [kind for kind, _, _ in stream.events]
        assert sorted(kinds) == ["following", "noted", "pending"]
        noted = next(data for kind, _, data in stream.events if kind == "noted")
        assert noted["data"]["claimed"]["client_id"] == ""
        assert b"secret" not in stream.raw


@pytest.mark.parametrize(
    "query",
    [
        "",
        "client_id=tab",
        "tools=locate",
        "client_id=&tools=locate",
        "client_id=a%20b&tools=locate",
        f"client_id={'x' * 129}&tools=locate",
        "client_id=tab&tools=",
        f"client_id=tab&tools={'x' * 65}",
        "client_id=tab&tools=loc%20ate",
        "client_id=tab&" + "&".join(f"tools=t{n}" for n in range(129)),
        "client_id=tab&client_id=tab&tools=locate",
        "client_id=tab&tools=locate&on_detach=stay",
        "client_id=tab&tools=locate&moves=1",
        "client_id=tab&tools=locate&principal=kim",
    ],
)
async def test_a_client_that_cannot_be_is_refused(api, page, store, query):
    await api("GET", f"/v1/conversations/c-1/attach?{query}", 422, headers=page)
    assert await present(store) == []


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        ("claim", {"client_id": "a b"}),
        ("claim", {"client_id": None}),
        ("claim", {"on_detach": "stay"}),
        ("claim", {"principal": "kim"}),
        ("give-back", {"began": 1}),
        ("give-back", {"reason": "x" * 2000}),
        ("progress", {"loaded": -1}),
        ("progress", {"status": "x" * 65}),
        ("progress", {"value": "x" * 65_536}),
        ("resolve", {"decision": "answer", "value": 1, "client_id": "a b"}),
    ],
)
async def test_a_request_of_a_client_that_cannot_be_meant_changes_nothing(api, page, writer, stack, verb, wrong):
    first, _ = at_client(writer)
    await writer.do(claim("tab", principal=Principal("ana")))
    await api("POST", f"/v1/pending/{first}/{verb}", 422, json=CLAIM | wrong, headers=page)
    assert stack.delivered == []


async def test_one_client_too_many_is_told_to_come_later(api, page, writer, store):
    for number in range(MOST_CLIENTS):
        await store.attach("c-1", Present(client_id=f"c-{number}", principal=Principal(f"p-{number}"), tools=("locate",)))
    found = await api.http.get(ATTACH, headers=page)
    assert (found.status_code, found.json()["code"]) == (429, "too_many_clients")
    assert int(found.headers["retry-after"]) >= 1


async def test_a_client_of_a_conversation_that_has_ended_is_told_so(api, page, back_end, writer):
    await api("POST", "/v1/conversations/c-1/end", headers=back_end)
    assert (await api.http.get(ATTACH, headers=page)).status_code == 204


async def test_the_end_of_a_conversation_ends_the_presence(api, page, back_end, writer, store):
    async with attached(api, page) as stream:
        await api("POST", "/v1/conversations/c-1/end", headers=back_end)
        await stream.until(lambda: stream.complete)
        assert stream.events[-1][2]["reason"] == "ended"
    assert await present(store) == []


async def test_a_server_that_drains_detaches_nobody(api, page, writer, store):
    async with attached(api, page) as stream:
        drain(api.app)
        await stream.until(lambda: stream.complete)
        assert stream.events[-1][2]["reason"] == "draining"
    assert await present(store) == ["stated:ana/tab"]


async def test_a_client_that_comes_back_before_its_old_stream_ends_stays_present(api, page, writer, store):
    async with attached(api, page) as old:
        async with attached(api, page):
            await old.leave()
            assert await present(store) == ["stated:ana/tab"]
        await until(lambda: _none(store))


async def test_a_client_that_has_moved_to_another_server_is_not_detached_by_the_first(api, page, writer, store):
    async with attached(api, page):
        (known,) = await store.present("c-1")
        await store.attach("c-1", known, "the session at the other server")
    await asyncio.sleep(0.02)
    assert await present(store) == ["stated:ana/tab"]
