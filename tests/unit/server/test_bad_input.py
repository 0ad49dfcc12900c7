"""Bad requests: each gets a problem with a status from 400 to 499, and changes nothing."""

import asyncio
import json

import httpx
import pytest

from holdfast.errors import ClusterUnavailable, Overloaded, StoreUnavailable
from holdfast.server import Bounds, create_app

from .conftest import OPEN, Api

DEEP = "[" * 200 + "]" * 200
HOSTILE = {
    "no JSON": (b"{", 400, "not_json"),
    "nothing but space": (b"   ", 400, "not_json"),
    "not UTF-8": (b'{"text": "\xff"}', 400, "not_json"),
    "a lone surrogate": (b'{"agent": "desk", "text": "\\ud800"}', 400, "not_json"),
    "NaN": (b'{"agent": "desk", "text": "x", "context": NaN}', 400, "not_json"),
    "a number out of range": (b'{"agent": "desk", "text": "x", "context": 1e999}', 400, "not_json"),
    "a number without end": (b'{"agent": "desk", "text": "x", "context": ' + b"9" * 5000 + b"}", 400, "not_json"),
    "a key twice": (b'{"agent": "desk", "text": "x", "text": "y"}', 400, "not_json"),
    "too deep": (b'{"agent": "desk", "text": "x", "context": ' + DEEP.encode() + b"}", 400, "not_json"),
    "much too deep": (b"[" * 1_000_000, 400, "not_json"),
    "too many values": (b'{"agent":"desk","text":"x","context":[' + b"1," * (1 << 20) + b"1]}", 400, "not_json"),
    "no object": (b"[]", 422, "invalid_request"),
    "null": (b"null", 422, "invalid_request"),
    "no agent": (b'{"text": "x"}', 422, "invalid_request"),
    "a text that is none": (b'{"agent": "desk", "text": 7}', 422, "invalid_message"),
    "no text": (b'{"agent": "desk"}', 422, "invalid_request"),
    "a part that is none": (b'{"agent": "desk", "text": [{"type": "text", "text": "x", "y": 1}]}', 422, "invalid_message"),
    "a URL without tls": (
        b'{"agent": "desk", "text": [{"type": "image_url", "image_url": {"url": "http://a"}}]}',
        422,
        "invalid_message",
    ),
    "an unknown field": (b'{"agent": "desk", "text": "x", "attend": true}', 422, "invalid_request"),
    "attended by no boolean": (b'{"agent": "desk", "text": "x", "attended": "no"}', 422, "invalid_request"),
    "an unknown agent": (b'{"agent": "nobody", "text": "x"}', 422, "agent_not_found"),
    "an agent that is no name": (b'{"agent": "\\u0000", "text": "x"}', 422, "agent_not_found"),
    "an ill-formed id": (b'{"agent": "desk", "text": "x", "conversation_id": "a b"}', 422, "invalid_conversation_id"),
    "an ill-formed key": (b'{"agent": "desk", "text": "x", "message_id": "a b"}', 422, "invalid_message"),
    "a text beyond its limit": (
        b'{"agent": "desk", "text": "' + b"x" * (1024 * 1024 + 1) + b'"}',
        422,
        "invalid_message",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_body_is_refused_and_nothing_begins(api, store, name):
    body, status, code = HOSTILE[name]

    problem = await api("POST", "/v1/conversations", status, content=body, headers={"Content-Type": "application/json"})

    assert problem["code"] == code
    assert "Traceback" not in json.dumps(problem)
    assert (await store.conversations(limit=10)).items == []


async def test_a_body_that_is_too_large_is_not_read(client, stack):
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(client, authentication=OPEN, bounds=Bounds(body_bytes=1000))),
        base_url="http://localhost",
    ) as http:
        told = await http.post("/v1/conversations", content=b"x" * 1001, headers={"Content-Type": "application/json"})
        assert (told.status_code, told.json()["code"]) == (413, "body_too_large")
        read = []

        async def endless():
            while True:
                read.append(100)
                yield b"x" * 100

        untold = await http.post("/v1/conversations", content=endless(), headers={"Content-Type": "application/json"})
        assert (untold.status_code, len(read)) == (413, 11)
    assert stack.delivered == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {},
    ],
)
async def test_a_body_of_another_sort_is_refused(api, headers):
    body = b'{"agent": "desk", "text": "x"}'
    assert (await api("POST", "/v1/conversations", 415, content=body, headers=headers))["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/conversations?limit=0", 422),
        ("/v1/conversations?limit=1001", 422),
        ("/v1/conversations?limit=x", 422),
        ("/v1/conversations?limit=1&limit=2", 422),
        ("/v1/conversations?status=asleep", 422),
        ("/v1/conversations?colour=blue", 422),
        ("/v1/conversations?after=x", 422),
        ("/v1/conversations?after=" + "x" * 9000, 414),
        ("/v1/pending?kind=none", 422),
        ("/v1/pending?after=%00", 422),
        ("/v1/pending?agent=%ff", 200),
        ("/v1/conversations/c-1?wait_s=-1", 422),
        ("/v1/conversations/c-1?wait_s=nan", 422),
        ("/v1/conversations/c-1?wait_s=inf", 422),
        ("/v1/conversations/c-1?after=-1", 422),
        ("/v1/conversations/c-1?after=" + "9" * 5000, 422),
        ("/v1/conversations/c-1/messages?after=-1", 422),
        ("/v1/conversations/c-1/messages?after=%C2%B2", 422),
        ("/v1/conversations/c-1/turns?after=t9", 422),
        ("/v1/conversations/c-1/turns/t9", 404),
        ("/v1/conversations/c-1/messages/m-9", 404),
        ("/v1/conversations/c-1/messages/%00", 422),
        ("/v1/conversations/c-2", 404),
        ("/v1/conversations/c-2/events", 404),
        ("/v1/conversations/c-2/turns", 404),
        ("/v1/conversations/a%20b", 422),
        ("/v1/conversations/..%2f..", 404),
        ("/v1/conversations/" + "x" * 200, 422),
        ("/v1/conversations/c-1/events?after=-1", 422),
        ("/v1/conversations/c-1/events?live=maybe", 422),
        ("/v1/pending/s-none", 409),
        ("/v1/pending/%00", 409),
        ("/v1/pending/*", 409),
        ("/v1/pending/s-none?conversation_id=c-2", 404),
        ("/v1/agents?limit=1", 422),
        ("/v1/nothing", 404),
        ("/v1/conversations/", 404),
    ],
)
async def test_a_bad_question_is_a_typed_problem(api, waiting, path, status):
    found = await api("GET", path, status)
    assert status == 200 or found["status"] == status


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30])
async def test_a_cursor_that_is_no_place_in_a_log_is_refused(api, waiting, last):
    found = await api("GET", "/v1/conversations/c-1/events", 422, headers={"Last-Event-ID": last})
    assert found["field"] == "Last-Event-ID"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "maybe"},
        {"decision": None},
        {"decision": "answer"},
        {"decision": "fail"},
        {"decision": "fail", "error": 7},
        {"decision": "deny", "reason": None},
        {"decision": "deny", "value": 1},
        {"decision": "approve", "arguments": [1]},
        {"decision": "approve", "by": "ana"},
        {"decision": "answer", "value": 1},
        {"decision": "redispatch"},
        {"decision": "approve", "decision_id": "a b"},
        {"decision": "approve", "decision_id": 7},
        {"decision": "approve", "conversation_id": "a b"},
        {"decision": "approve", "scope": "src/**"},
        {"decision": "approve", "scope": {}},
        {"decision": "deny", "scope": {"kind": "tool", "pattern": "refund", "level": "execute"}},
        {"decision": "approve", "arguments": {}, "scope": {"kind": "tool", "pattern": "refund", "level": "execute"}},
        ["approve"],
        "approve",
    ],
)
async def test_a_decision_that_does_not_fit_is_refused_and_the_call_still_waits(api, waiting, body):
    (shown,) = (await api("GET", "/v1/pending?kind=approval"))["items"]
    before = waiting.state.seq

    await api("POST", f"/v1/pending/{shown['suspension_id']}/resolve", 422, json=body)

    assert waiting.state.seq == before
    assert (await api("GET", "/v1/pending?kind=approval"))["items"] == [shown]


async def test_two_keys_that_differ_are_refused(api, waiting, stack):
    for path, field in (("messages", "message_id"), ("cancel", "request_id"), ("end", "request_id")):
        body = {field: "b"} | ({"text": "x"} if field == "message_id" else {})
        found = await api("POST", f"/v1/conversations/c-1/{path}", 422, json=body, headers={"Idempotency-Key": "a"})
        assert field in found["detail"]
    assert stack.delivered == []


async def test_an_empty_key_or_two_of_them_are_not_taken_for_none(api, waiting, stack):
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    for path, field in (("messages", "message_id"), ("cancel", "request_id"), ("cancel-pending", "request_id")):
        body = {"text": "x"} if field == "message_id" else {}
        for headers in ({"Idempotency-Key": ""}, twice):
            found = await api("POST", f"/v1/conversations/c-1/{path}", 422, json=body, headers=headers)
            assert found["errors"][0]["field"] == "Idempotency-Key"
        found = await api("POST", f"/v1/conversations/c-1/{path}", 422, json=body | {field: ""})
        assert found["errors"][0]["field"] == field
    start = {"agent": "desk", "text": "x"}
    await api("POST", "/v1/conversations", 422, json=start, headers={"Idempotency-Key": ""})
    assert stack.delivered == []


async def test_a_key_that_belongs_to_something_else_is_refused(api, waiting):
    await api("POST", "/v1/conversations/c-1/messages", json={"text": "one", "message_id": "k-1"})
    assert (await api("POST", "/v1/conversations/c-1/messages", 422, json={"text": "two", "message_id": "k-1"}))["field"] == (
        "message_id"
    )
    await api("POST", "/v1/conversations", 409, json={"agent": "desk", "text": "another", "conversation_id": "c-1"})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_another_method_is_refused_and_those_of_the_path_are_named(api, method):
    found = await api.http.request(method, "/v1/conversations")
    assert (found.status_code, found.json()["code"]) == (405, "method_not_allowed")
    assert {"GET", "POST"} <= set(found.headers["allow"].replace(" ", "").split(","))


@pytest.mark.parametrize(
    ("error", "status"),
    [(Overloaded("c-1", 1500), 429), (ClusterUnavailable("it does not answer"), 503), (StoreUnavailable("it is full"), 503)],
)
async def test_trouble_behind_the_server_is_a_problem_with_the_time_to_come_back(api, waiting, stack, error, status):
    stack.failing = error
    found = await api.http.post("/v1/conversations/c-1/messages", json={"text": "x", "message_id": "m-9"})
    assert found.status_code == status
    assert int(found.headers["retry-after"]) >= 1


async def test_a_mistake_of_ours_tells_the_caller_nothing_and_the_log_everything(api, waiting, client, monkeypatch, caplog):
    async def broken(*_, **__):
        raise RuntimeError("the secret sauce")

    monkeypatch.setattr(type(client), "pending", broken)

    found = await api("GET", "/v1/pending", 500)

    assert (found["code"], "sauce" in json.dumps(found)) == ("internal", False)
    assert "the secret sauce" in caplog.text


async def test_no_more_requests_are_under_way_than_may_be_and_the_process_still_says_that_it_is_alive(client, waiting):
    api = Api(create_app(client, authentication=OPEN, bounds=Bounds(requests=1)))
    async with api.stream("GET", "/v1/conversations/c-1/events"):  # counts among the streams
        polling = asyncio.ensure_future(api("GET", f"/v1/conversations/c-1?wait_s=0.2&after={waiting.state.seq}"))
        await asyncio.sleep(0)
        found = await api.http.get("/v1/pending")
        assert (found.status_code, found.json()["code"]) == (429, "too_many_requests")
        assert int(found.headers["retry-after"]) >= 1
        assert await api("GET", "/health") == {"status": "ok"}
        await polling
    assert len((await api("GET", "/v1/pending"))["items"]) == 2
