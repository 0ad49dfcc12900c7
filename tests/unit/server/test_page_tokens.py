"""Page tokens: what an application's back end may lend to a page, and that the page may do nothing else."""

import asyncio
import json

import httpx
import pytest
from writer import Writer, begin, call, start

from holdfast.client.access import TicketKind
from holdfast.conversation import Proof
from holdfast.persistence import AccessScope
from holdfast.server import Bounds, callers, create_app, page_view, streams
from holdfast.server.app import OPERATIONS
from holdfast.server.arrived import Arrived
from holdfast.server.refusal import Refusal
from holdfast.server.tickets import ISSUED, digest_of

from .conftest import HERE, Api

BODY = {"conversation_id": "c-1"}
EVERY = [scope.value for scope in AccessScope]


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
async def api(client):
    asked = Api(create_app(client))
    asked.http = httpx.AsyncClient(transport=httpx.ASGITransport(asked.app, client=("10.0.0.9", 7)), base_url=HERE)
    asked.now = 100.0
    asked.app.state.serving.callers._clock = lambda: asked.now
    async with asked.http:
        yield asked


@pytest.fixture
async def back_end(client):
    _, text = await client.access.create_key("shop", ["read", "start", "decide", "client", "admin"], roles=["lead"])
    return bearer(text)


@pytest.fixture
async def other(store, stack):
    """Another conversation that waits, which no page of these tests may touch."""
    writer = stack.writers["c-2"] = await Writer.of(store, "c-2")
    await writer.do(start(), begin(), call(("refund", '{"order": 8}')))
    return writer


@pytest.fixture
async def page(api, back_end, waiting):
    body = BODY | {"scopes": ["read", "decide", "start", "client"], "kinds": ["approval", "elicitation"]}
    made = await api("POST", "/v1/page-tokens", 201, json=body, headers=back_end)
    return bearer(made["token"])


async def test_a_page_reads_decides_and_sends_in_its_conversation_alone(api, page, stack, waiting):
    state = await api("GET", "/v1/conversations/c-1", headers=page)
    for path in ("/messages", "/turns", "/turns/t1", "/messages/m-1"):
        await api("GET", f"/v1/conversations/c-1{path}", headers=page)
    first, second = [one["suspension_id"] for one in state["pending"]]
    await api("GET", f"/v1/pending/{first}", headers=page)
    await api("POST", f"/v1/pending/{first}/resolve", json={"decision": "approve"}, headers=page)
    await api("POST", f"/v1/pending/{second}/resolve", json={"decision": "answer", "value": "x"} | BODY, headers=page)
    await api("POST", "/v1/conversations/c-1/messages", json={"text": "x"}, headers=page)
    assert {command.principal.id for command in stack.delivered} == {"shop"}


async def test_what_a_token_is_good_for_is_said_and_the_store_has_its_digest_alone(api, back_end, store, waiting):
    body = BODY | {"scopes": ["decide", "read"], "ttl_s": 60}
    made = await api("POST", "/v1/page-tokens", 201, json=body, headers=back_end)
    assert (made["scopes"], made["conversation_id"], made["principal"]) == (["read", "decide"], "c-1", "shop")
    assert abs(made["expires_at"] - await store.now() - 60_000) < 5000
    assert made["token"].startswith("hfp_")
    secret = made["token"].removeprefix("hfp_")
    assert (await store.ticket(digest_of(secret))).expires_at == made["expires_at"]
    assert secret not in repr(vars(store))
    again = await api("POST", "/v1/page-tokens", 201, json=body, headers=back_end)
    assert again["token"] != made["token"]
    default = await api("POST", "/v1/page-tokens", 201, json=BODY, headers=back_end)
    assert default["scopes"] == ["read", "decide", "start"]
    assert default["kinds"] == ["elicitation", "client_exec"]
    assert abs(default["expires_at"] - await store.now() - 900_000) < 5000


async def test_a_page_approves_nothing_unless_its_maker_said_so(api, back_end, stack, waiting):
    usual = bearer((await api("POST", "/v1/page-tokens", 201, json=BODY, headers=back_end))["token"])
    approval, question = (await api("GET", "/v1/conversations/c-1", headers=usual))["pending"]
    place = f"/v1/pending/{approval['suspension_id']}/resolve"
    by_call = {"decision": "approve", "tool_call_id": approval["tool_call_id"]}

    refused = await api("POST", place, 403, json={"decision": "approve"}, headers=usual)
    assert (refused["code"], refused["kind"]) == ("not_permitted", "approval")
    await api("POST", place, 403, json={"decision": "deny"} | BODY, headers=usual)
    named = by_call | {"suspension_id": approval["suspension_id"]}
    await api("POST", "/v1/conversations/c-1/resolve", 403, json=named, headers=usual)
    await api("POST", "/v1/conversations/c-1/resolve", 422, json=by_call, headers=usual)
    for kind in ({}, {"kind": "approval"}, {"kind": "lost"}):
        await api("POST", "/v1/conversations/c-1/cancel-pending", 403, json=kind, headers=usual)
    assert stack.delivered == []
    answer = {"decision": "answer", "value": "blue", "tool_call_id": question["tool_call_id"], "decision_id": "d-1"}
    answer |= {"suspension_id": question["suspension_id"]}
    first = await api("POST", "/v1/conversations/c-1/resolve", json=answer, headers=usual)
    again = await api("POST", "/v1/conversations/c-1/resolve", json=answer, headers=usual)
    assert (first["seq"], again["duplicate"]) == (again["seq"], True)


WHOLE = [one for one in OPERATIONS if one.scope is not None and one.name not in page_view.OPERATIONS]


@pytest.mark.parametrize("operation", WHOLE, ids=lambda operation: operation.name)
async def test_what_is_not_for_pages_is_refused_to_one_before_anything_is_read(api, page, operation):
    async def body():
        raise AssertionError("the body was read")
        yield b""

    sent = {"content": body()} if operation.method == "POST" else {}
    path = operation.path.format(
        conversation_id="c-1", suspension_id="s-1", request_id="x-1", outbox_id="c-1~own:c-2~1.0.end.1"
    )
    found = await api.http.request(operation.method, path, headers=page, **sent)
    assert (found.status_code, found.json()["code"]) == (403, "not_permitted")


def test_each_operation_that_a_page_may_call_names_the_conversation():
    assert {operation.path for operation in OPERATIONS if operation not in WHOLE and operation.scope is not None} == {
        "/v1/conversations/{conversation_id}",
        *(
            f"/v1/conversations/{{conversation_id}}{rest}"
            for rest in (
                "/tree",
                "/messages",
                "/messages/{message_id}",
                "/turns",
                "/turns/{turn_id}",
                "/events",
                "/resolve",
                "/resolve-many",
                "/grants",
                "/grants/{grant_id}",
                "/queue",
                "/queue/{message_id}",
                "/attach",
            )
        ),
        *(f"/v1/conversations/{{conversation_id}}/{verb}" for verb in ("cancel", "cancel-pending", "interrupt")),
        "/v1/pending/{suspension_id}",
        "/v1/pending/{suspension_id}/assign",
        *(f"/v1/pending/{{suspension_id}}/{verb}" for verb in ("comment", "claim", "give-back", "progress")),
        "/v1/pending/{suspension_id}/resolve",
        "/v1/pending/resolve-each",  # which looks at the conversation of each
    }


PLACED = [one for one in OPERATIONS if "{conversation_id}" in one.path and one not in WHOLE]


@pytest.mark.parametrize("operation", PLACED, ids=lambda operation: operation.name)
async def test_another_conversation_seems_not_to_be_there(api, page, other, stack, operation):
    told = []
    for name in ("c-2", "c-404"):
        path = operation.path.format(conversation_id=name, message_id="m-1", turn_id="t1", grant_id="g1")
        said = {"text": "x", "decision": "deny", "tool_call_id": "call_1", "decisions": [{"suspension_id": "s-1"}]}
        sent = {} if operation.method == "GET" else {"json": said}
        found = await api.http.request(operation.method, path, headers=page, **sent)
        told.append((found.status_code, found.json()["code"], found.text.replace(name, "")))
    assert told[0] == told[1]
    assert told[0][:2] == (404, "conversation_not_found")
    assert stack.delivered == []


async def test_a_suspension_of_another_conversation_seems_not_to_be_there(api, page, other, stack):
    (foreign,) = other.suspension_ids
    deny = {"decision": "deny"}
    for method, rest, sent in (("GET", "", {}), ("POST", "/resolve", {"json": deny})):
        told = [await api(method, f"/v1/pending/{one}{rest}", 409, headers=page, **sent) for one in (foreign, "s-404")]
        assert json.dumps(told[0]).replace(foreign, "") == json.dumps(told[1]).replace("s-404", "")
    for name in ("c-2", "c-404"):
        await api("GET", f"/v1/pending/{foreign}?conversation_id={name}", 404, headers=page)
        for more in ({}, {"tool_call_id": "call_1"}):
            body = deny | more | {"conversation_id": name}
            await api("POST", f"/v1/pending/{foreign}/resolve", 404, json=body, headers=page)
    for more in ({}, {"tool_call_id": "call_1"}):
        found = await api("POST", f"/v1/pending/{foreign}/resolve", 409, json=deny | BODY | more, headers=page)
        assert found["code"] == "stale_call"
    body = deny | {"tool_call_id": "call_1", "suspension_id": foreign}
    assert (await api("POST", "/v1/conversations/c-1/resolve", 409, json=body, headers=page))["code"] == "stale_call"
    assert stack.delivered == []
    assert [view.suspension_id for view in await other.store.pending_of("c-2")] == [foreign]


@pytest.mark.parametrize("lacking", ["read", "decide", "start", "client"])
async def test_nobody_lends_what_they_may_not_do_themselves(api, client, waiting, lacking):
    _, text = await client.access.create_key("shop", [scope for scope in EVERY if scope != lacking])
    every = ["read", "decide", "start", "client"]
    refused = await api("POST", "/v1/page-tokens", 403, json=BODY | {"scopes": every}, headers=bearer(text))
    assert (refused["code"], refused["scope"]) == ("not_permitted", lacking)
    rest = [scope for scope in every if scope != lacking]
    status = 403 if lacking == "start" else 201
    await api("POST", "/v1/page-tokens", status, json=BODY | {"scopes": rest}, headers=bearer(text))


async def test_a_page_may_do_what_was_lent_alone(api, back_end, waiting, stack):
    made = await api("POST", "/v1/page-tokens", 201, json=BODY | {"scopes": ["read"]}, headers=back_end)
    page = bearer(made["token"])
    await api("GET", "/v1/conversations/c-1", headers=page)
    refused = await api("POST", "/v1/conversations/c-1/messages", 403, json={"text": "x"}, headers=page)
    assert refused["scope"] == "start"
    await api("POST", f"/v1/pending/{waiting.suspension_ids[0]}/resolve", 403, json={"decision": "deny"}, headers=page)
    assert stack.delivered == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"conversation_id": ""},
        {"conversation_id": "../c-1"},
        {"conversation_id": "c" * 200},
        {"conversation_id": None},
        {"scopes": []},
        {"scopes": ["admin"]},
        {"scopes": ["read", "admin"]},
        {"scopes": "read"},
        {"scopes": ["read"] * 5},
        {"kinds": []},
        {"kinds": ["everything"]},
        {"kinds": "approval"},
        {"ttl_s": 0},
        {"ttl_s": -1},
        {"ttl_s": 3601},
        {"ttl_s": "60"},
        {"ttl_s": True},
        {"ttl_s": 1e308},
        {"principal": ""},
        {"principal": " ana"},
        {"principal": "x" * 201},
        {"principal": "an\u202ea"},
        {"principal": "an\u200ba"},
        {"principal": "an\na"},
        {"principal": {"id": "ana"}},
        {"roles": ["lead"]},
        {"agents": ["desk"]},
    ],
)
async def test_a_request_that_cannot_be_meant_gives_no_token(api, back_end, store, waiting, wrong):
    assert (await api("POST", "/v1/page-tokens", 422, json=BODY | wrong, headers=back_end))["status"] == 422
    assert store._tickets == {}


async def test_a_conversation_that_may_not_be_touched_and_one_that_is_none_give_no_token(api, client, store, waiting):
    _, text = await client.access.create_key("bar", EVERY, agents=["bar"])
    _, whole = await client.access.create_key("shop", EVERY)
    told = [
        await api("POST", "/v1/page-tokens", 404, json={"conversation_id": name}, headers=bearer(key))
        for name, key in (("c-1", text), ("c-404", text), ("c-404", whole))
    ]
    assert {one["code"] for one in told} == {"conversation_not_found"}
    assert store._tickets == {}


async def test_whom_a_page_is_for_is_stated_and_no_role_is_lent(api, back_end, stack, waiting):
    for stated, expected in (("ana@shop.example", ("ana@shop.example", Proof.STATED)), (None, ("shop", Proof.KEY))):
        made = await api("POST", "/v1/page-tokens", 201, json=BODY | {"principal": stated}, headers=back_end)
        await api("POST", "/v1/conversations/c-1/messages", json={"text": "x"}, headers=bearer(made["token"]))
        principal = stack.delivered[-1].principal
        assert (principal.id, principal.proof, principal.roles) == (*expected, ())


async def test_a_page_token_ends_with_the_key_that_made_it_and_at_its_time(api, client, store, waiting):
    key, text = await client.access.create_key("shop", EVERY)
    page = bearer((await api("POST", "/v1/page-tokens", 201, json=BODY, headers=bearer(text)))["token"])
    short = bearer((await api("POST", "/v1/page-tokens", 201, json=BODY | {"ttl_s": 1}, headers=bearer(text)))["token"])
    await api("GET", "/v1/conversations/c-1", headers=page)
    assert await client.access.revoke_key(key.key_id)
    api.now += callers.FRESH_S
    assert "revoked" in (await api("GET", "/v1/conversations/c-1", 401, headers=page))["detail"]
    store._clock = lambda clock=store._clock: clock() + 1001
    assert "ended" in (await api("GET", "/v1/conversations/c-1", 401, headers=short))["detail"]


async def test_a_page_token_ends_no_later_than_the_key_that_made_it(api, client, waiting, store):
    _, text = await client.access.create_key("shop", EVERY, expires_s=100)
    made = await api("POST", "/v1/page-tokens", 201, json=BODY, headers=bearer(text))
    assert made["expires_at"] <= await store.now() + 100_000


async def test_a_stream_of_a_page_ends_with_its_token(api, client, waiting, monkeypatch):
    monkeypatch.setattr(streams, "RECHECK_S", 0.01)
    monkeypatch.setattr(callers, "FRESH_S", 0)
    key, text = await client.access.create_key("shop", EVERY)
    page = bearer((await api("POST", "/v1/page-tokens", 201, json=BODY, headers=bearer(text)))["token"])
    async with api.stream("GET", "/v1/conversations/c-1/events", authorization=page["Authorization"]) as stream:
        await stream.until(lambda: stream.events)
        await client.access.revoke_key(key.key_id)
        async with asyncio.timeout(20):
            await stream.task


async def test_a_page_uses_up_no_share_of_its_makers(client, waiting):
    api = Api(create_app(client, bounds=Bounds(caller_burst=3, caller_per_s=0.001)))
    _, text = await client.access.create_key("shop", EVERY)
    async with api.http:
        page = bearer((await api("POST", "/v1/page-tokens", 201, json=BODY, headers=bearer(text)))["token"])
        statuses = [(await api.http.get("/v1/conversations/c-1", headers=page)).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        await api("GET", "/v1/pending", headers=bearer(text))


async def test_what_does_not_ask_for_pages_lets_none_in(api, page):
    scope = {"headers": [(b"authorization", page["Authorization"].encode())], "client": ("10.0.0.9", 7)}
    scope["state"] = {"arrived": Arrived("http", "127.0.0.1:8484", ambient=True)}
    found = api.app.state.serving.callers
    assert (await found.of(scope, narrow=True)).conversation_id == "c-1"
    with pytest.raises(Refusal, match="on one conversation"):
        await found.of(scope)
    assert await found.known(scope) is None


async def test_nobody_gets_more_page_tokens_than_may_be(api, back_end, waiting):
    api.app.state.serving.tickets._issued[TicketKind.PAGE]._clock = lambda: 0.0
    for _ in range(ISSUED[TicketKind.PAGE][1]):
        assert (await api.http.post("/v1/page-tokens", json=BODY, headers=back_end)).status_code == 201
    refused = await api.http.post("/v1/page-tokens", json=BODY, headers=back_end)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) >= 1
