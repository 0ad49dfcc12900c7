"""Requests over HTTP: sent again with the same key where the answer was lost, given up at the deadline, bounded, and alone."""

import asyncio
import json
import logging

import httpx
import pytest
from spans import Spans

from holdfast.client import Approve, AsyncClient, Client, Principal
from holdfast.client import http_exchange as module
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.link import LinkKeys, LinkTerms
from holdfast.errors import (
    AgentNotFound,
    CipherMissing,
    ClusterStopped,
    ConfigurationError,
    ConversationEnded,
    ConversationNotFound,
    CorruptStore,
    HoldfastError,
    InvalidInput,
    InvalidMessage,
    NewerRecord,
    OtherBuild,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    QueueFull,
    ServerRefused,
    ServerUnavailable,
    StaleCall,
    StaleReason,
    StoreUnavailable,
)
from holdfast.server.error_responses import problem_of
from holdfast.traces import begin, during
from holdfast.work_context import traceparent_of

RECEIPT = {"conversation_id": "c-1", "seq": 4, "accepted_at": 5, "duplicate": False, "message_id": "m-1"}
TOKEN = "hunter22-hunter22"  # noqa: S105 - made up


def said(status, body=b"{}", kind="application/json", **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {"content-type": kind} | headers, httpx.ByteStream(content)


def problem(status, code="some_code", **more):
    headers = more.pop("headers", {})
    return said(status, {"code": code, "status": status, "detail": "so it is"} | more, "application/problem+json", **headers)


def raised_there(error):
    return said(503, problem_of(error), "application/problem+json")


class Scripted(httpx.AsyncBaseTransport):
    """Answers each request with the next of its answers; an exception is raised, before or after the request was sent."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    async def handle_async_request(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not isinstance(answer, httpx.ConnectError):
            await request.extensions["trace"]("http11.send_request_headers.started", {})
        if isinstance(answer, Exception):
            raise answer
        status, headers, stream = answer
        return httpx.Response(status, headers=headers, stream=stream)

    @property
    def keys(self):
        return [request.headers.get("idempotency-key") for request in self.requests]


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(module, "FIRST_S", 0.001)
    monkeypatch.setattr(module, "LONGEST_S", 0.01)


def client_of(*answers, timeout_s=5, **address):
    transport = Scripted(*answers)
    return AsyncClient(
        HttpGateway(Address.of("https://desk.example.com/agents", **address), timeout_s=timeout_s, transport=transport)
    ), transport


async def test_a_request_whose_answer_is_lost_is_sent_again_with_its_key():
    lost = httpx.ReadError("gone"), httpx.RemoteProtocolError("Server disconnected without sending a response.")
    client, transport = client_of(*lost, said(502, b"<html>", "text/html"), said(200, RECEIPT))

    receipt = await client.conversation("c-1").send("hello")

    assert (receipt.seq, len(transport.requests)) == (4, 4)
    assert len(set(transport.keys)) == 1
    assert transport.requests[0].url == "https://desk.example.com/agents/v1/conversations/c-1/messages"


@pytest.mark.parametrize("answer", [httpx.ReadError("gone"), said(504, b"", "text/plain")], ids=["cut", "gateway"])
async def test_an_outcome_is_unknown_where_something_was_sent_and_the_deadline_passes(answer):
    client, _ = client_of(answer, timeout_s=0.05)
    with pytest.raises(OutcomeUnknown, match="m-7") as raised:
        await client.conversation("c-1").send("hello", message_id="m-7")
    assert raised.value.retry_id == "m-7"


@pytest.mark.parametrize(
    "answer", [said(200, b"<html>", "text/html"), problem(500, "internal"), said(200, b"[" * 200), said(200, {})]
)
async def test_an_outcome_is_unknown_where_the_answer_to_a_command_says_nothing(answer):
    client, _ = client_of(answer)
    with pytest.raises(OutcomeUnknown):
        await client.conversation("c-1").send("hello")


async def test_nothing_was_done_where_nothing_was_sent(monkeypatch):
    monkeypatch.setattr(module, "REACH_S", 0.05)
    client, transport = client_of(httpx.ConnectError("refused"), timeout_s=30)
    with pytest.raises(ServerUnavailable, match=r"https://desk.example.com/agents: refused"):
        await client.conversation("c-1").send("hello")
    assert len(transport.requests) > 1


async def test_a_server_that_stops_is_asked_again_when_it_says_and_what_it_says_is_raised_in_the_end():
    busy = problem(429, "too_many_requests", headers={"retry-after": "0"})
    stopping = problem(503, "draining", headers={"retry-after": "0"})
    client, transport = client_of(stopping, busy, said(200, RECEIPT))
    assert (await client.conversation("c-1").send("hello")).seq == 4
    assert len(transport.requests) == 3

    client, transport = client_of(problem(429, "too_many_requests", headers={"retry-after": "60"}))
    with pytest.raises(ServerRefused, match="429, too_many_requests"):
        await client.conversation("c-1").send("hello")
    assert len(transport.requests) == 1


async def test_a_refusal_that_does_not_say_when_to_come_back_is_raised_at_once():
    client, transport = client_of(problem(503, "draining"))
    with pytest.raises(ServerRefused, match="503, draining"):
        await client.ready()
    assert len(transport.requests) == 1


async def test_what_users_may_nest_is_not_too_deep_inside_of_a_reply():
    deep = json.loads("[" * 100 + "]" * 100)
    item = {"conversation_id": "c-1", "suspension_id": "s-1", "created_at": 5, "arguments": {"x": deep[0]}}
    client, _ = client_of(said(200, {"items": [item], "next": None}))
    assert (await client.pending()).items[0].arguments == {"x": deep[0]}


async def test_a_typed_error_is_raised_at_once_unless_an_earlier_try_may_have_been_carried_out():
    client, transport = client_of(raised_there(Overloaded("c-1", 700)))
    with pytest.raises(Overloaded) as raised:
        await client.conversation("c-1").send("hello")
    assert (raised.value.retry_after_ms, len(transport.requests)) == (700, 1)

    client, _ = client_of(httpx.ReadError("gone"), raised_there(StoreUnavailable("down")))
    with pytest.raises(OutcomeUnknown):
        await client.conversation("c-1").send("hello")

    client, _ = client_of(httpx.ReadError("gone"), raised_there(ConversationNotFound("c-1")))
    with pytest.raises(ConversationNotFound):
        await client.conversation("c-1").send("hello")


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (QueueFull("c-1", 9), False),
        (Quarantined("c-1", "it took processes down", 5), False),
        (CorruptStore("a key"), False),
        (CipherMissing("c-1"), False),
        (NewerRecord("event", 9, 5), False),
        (ClusterStopped("desk"), False),
        (AgentNotFound("agent", "p", "f"), False),
        (OtherBuild("a", "b"), False),
        (ConversationEnded("c-1"), True),
        (StaleCall("c-1", "call_1", StaleReason.EXPIRED), True),
        (InvalidInput("request_id", "p", "f"), True),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_after_a_doubtful_try_only_the_word_of_the_conversation_itself_is_certain(error, known):
    client, transport = client_of(httpx.ReadError("gone"), raised_there(error))
    with pytest.raises(HoldfastError) as raised:
        await client.conversation("c-1").send("hello", message_id="m-7")
    assert type(raised.value) is (type(error) if known else OutcomeUnknown)
    assert len(transport.requests) == 2
    client, _ = client_of(raised_there(error))
    with pytest.raises(type(error)):
        await client.conversation("c-1").send("hello")


async def test_a_request_that_has_no_key_is_not_sent_twice():
    client, transport = client_of(httpx.ReadError("gone"))
    with pytest.raises(ServerUnavailable, match="whether it did the lifting of the pause is not known"):
        await client.unpause()
    assert len(transport.requests) == 1


async def test_a_read_is_sent_again_until_the_deadline():
    client, _ = client_of(httpx.ReadError("gone"), said(503, b"", "text/plain"), said(200, {"items": [], "next": None}))
    assert (await client.pending()).items == []

    client, _ = client_of(httpx.ReadError("gone"), timeout_s=0.05)
    with pytest.raises(ServerUnavailable, match="gone"):
        await client.pending()


async def test_a_slow_answer_ends_with_the_call():
    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self):
            while True:
                yield b" "
                await module.asyncio.sleep(0.01)

    client, _ = client_of((200, {"content-type": "application/json"}, Slow()), timeout_s=0.1)
    with pytest.raises(ServerUnavailable, match=r"no answer within 0\.1 s"):
        await client.pending()


async def test_redirects_are_not_followed_and_a_token_is_shown_to_one_server_alone(caplog):
    caplog.set_level(logging.DEBUG)
    answer = said(307, b"", "text/plain", location="https://elsewhere.example.com/")
    client, transport = client_of(answer, token=TOKEN)
    with pytest.raises(ServerRefused, match="redirected") as raised:
        await client.pending()

    assert [request.url.host for request in transport.requests] == ["desk.example.com"]
    assert transport.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    shown = (
        f"{client!r} {client.__dict__!r} {client.gateway.exchange.address!r} {raised.value!r} {raised.getrepr()} {caplog.text}"
    )
    assert TOKEN not in shown


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (problem(418, "teapot"), ServerRefused, "418, teapot.*so it is"),
        (problem(401, "unauthenticated"), ServerRefused, "401, unauthenticated"),
        (said(404, b"<html>nothing here</html>", "text/html"), ServerRefused, "404, unreadable"),
        (said(200, b"[" * 200 + b"]" * 200), ServerRefused, "nested"),
        (said(200, b'{"items": 7}'), ServerRefused, "items"),
        (said(200, {"items": [{"conversation_id": "c"}], "next": None}), ServerRefused, "cannot read its reply"),
        (said(200, b"\xff"), ServerRefused, "unreadable"),
        (said(200, b"x", **{"content-encoding": "gzip"}), ServerRefused, "compressed"),
        (
            problem(422, "invalid_request", errors=[{"field": "limit", "problem": "too small"}]),
            InvalidInput,
            "limit: too small",
        ),
        (problem(413, "body_too_large"), InvalidInput, "so it is"),
        (problem(404, "conversation_not_found", conversation_id="c-9"), ConversationNotFound, "c-9"),
        (problem(422, "invalid_message", field="text", problem="p", fix="f"), InvalidMessage, "text: p; f"),
        (problem(404, "conversation_not_found", conversation_id=["c-9"]), ServerRefused, "404, conversation_not_found"),
    ],
)
async def test_an_answer_becomes_the_error_that_it_stands_for(answer, error, text):
    client, _ = client_of(answer)
    with pytest.raises(HoldfastError, match=text) as raised:
        await client.pending()
    assert type(raised.value) is error


async def test_an_answer_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "ANSWER_BYTES", 1000)
    client, _ = client_of(said(200, b" " * 1001))
    with pytest.raises(ServerRefused, match="more than 1000 bytes"):
        await client.pending()


async def test_an_outcome_is_unknown_where_the_answer_to_a_command_is_too_large(monkeypatch):
    monkeypatch.setattr(module, "ANSWER_BYTES", 1000)
    client, _ = client_of(said(200, b" " * 1001))
    with pytest.raises(OutcomeUnknown):
        await client.conversation("c-1").send("hello")


async def test_a_list_whose_page_is_too_large_is_read_in_smaller_ones(monkeypatch):
    monkeypatch.setattr(module, "ANSWER_BYTES", 1000)
    small = said(200, {"items": [{"role": "user"}], "next": None})
    client, transport = client_of(said(200, b" " * 1001), small)
    assert await client.conversation("c-1").messages() == [{"role": "user"}]
    assert [dict(request.url.params) for request in transport.requests] == [{"limit": "1000"}, {"limit": "125"}]


@pytest.mark.parametrize(("name", "value"), [("SSL_CERT_FILE", "/no/such/file"), ("HTTPS_PROXY", "ftp://me:hunter22@proxy")])
async def test_an_environment_that_cannot_be_used_is_said_to_be(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    client = AsyncClient.connect(url="https://desk.example.com")
    with pytest.raises(ConfigurationError, match=r"SSL_CERT_FILE.*HTTPS_PROXY") as raised:
        await client.pending()
    assert "hunter22" not in str(raised.value)


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "answer",
    [
        problem(409, "stale_call", conversation_id=LONG, tool_call_id=LONG, reason="unknown", settled_by=None, settled_at=None),
        problem(404, "conversation_not_found", conversation_id=LONG),
        problem(503, "cluster_unavailable", why=LONG),
        problem(422, "invalid_request", errors=[{"field": LONG, "problem": LONG}] * 3),
        problem(422, "invalid_input", field=LONG, problem=LONG, fix=LONG),
        problem(400, LONG, detail=LONG),
        said(400, LONG.encode(), LONG),
    ],
)
async def test_of_what_a_server_says_an_error_takes_over_no_more_than_a_person_would_read(answer):
    client, _ = client_of(answer)
    with pytest.raises(HoldfastError) as raised:
        await client.pending()
    assert len(str(raised.value)) < 10_000
    assert all(len(repr(value)) < 10_000 for value in vars(raised.value).values())


def test_a_client_that_is_used_in_a_second_loop_says_so_and_sends_nothing():
    transport = Scripted(said(200, {"items": [], "next": None}))
    client = AsyncClient(HttpGateway(Address("http://127.0.0.1:1"), timeout_s=10, transport=transport))
    asyncio.run(client.conversations())
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="belongs to one event loop"):
            asyncio.run(client.conversations())
    assert len(transport.requests) == 1

    async def anew():
        await client.aclose()
        return await client.conversations()

    assert asyncio.run(anew()).items == []


async def test_a_forked_process_leaves_its_parents_connections_alone(monkeypatch):
    client, _ = client_of(said(200, {"items": []}))
    await client.pending()
    of_parent = client.gateway.exchange._http
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    await client.pending()
    await client.aclose()
    assert client.gateway.exchange._inherited == [of_parent]
    assert not of_parent.is_closed


async def test_over_http_nobody_acts_as_somebody_else():
    client, _ = client_of(said(200, RECEIPT))
    with pytest.raises(ConfigurationError, match="the server knows the caller"):
        client.acting_as(Principal("ana"))
    with pytest.raises(InvalidInput, match="principal"):
        client.acting_as("ana")


async def test_a_long_wait_for_bodies_is_several_requests_with_one_key(monkeypatch):
    going_on = {"conversation_id": "c-1", "turn_id": "t1", "calls": ["a"], "running": ["a"], "duplicate": False}
    over = said(200, going_on | {"running": [], "duplicate": True})
    client, transport = client_of(said(200, going_on), said(200, going_on | {"duplicate": True}), over)
    cancelled = await client.conversation("c-1").cancel("t1", wait_s=500)
    assert (cancelled.calls, cancelled.running, cancelled.duplicate) == (("a",), (), False)
    assert len(transport.requests) == 3
    assert len(set(transport.keys)) == 1
    assert all(json.loads(request.content)["wait_s"] <= 60 for request in transport.requests)


def test_connect_is_over_http_where_a_url_is_given(monkeypatch):
    client = AsyncClient.connect(url="https://desk.example.com/", token=TOKEN)
    assert (type(client), client.gateway.exchange.address.url) == (AsyncClient, "https://desk.example.com")
    assert isinstance(Client.connect(url="http://localhost:8484")._async().gateway, HttpGateway)
    monkeypatch.setenv("HOLDFAST_URL", "https://desk.example.com")
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
    found = AsyncClient.connect().gateway.exchange.address
    assert (found.url, found.token) == ("https://desk.example.com", TOKEN)
    assert isinstance(AsyncClient.connect(redis_url="redis://localhost").gateway, StackGateway)


async def test_a_request_says_which_trace_it_is_of(monkeypatch):
    client, transport = client_of(said(200, RECEIPT))
    with Spans().collected(monkeypatch), during(begin("mine", {}, parent=None)) as span:
        await client.conversation("c-1").send("hello")
    await client.conversation("c-1").send("hello")

    assert [request.headers.get("traceparent") for request in transport.requests] == [traceparent_of(span), None]


async def test_no_log_line_has_the_link_that_is_redeemed(caplog):
    terms = LinkTerms("c-1", "s-1", "0" * 32, Principal("ana"), (DecisionKind.APPROVE,), 1_900_000_000_000, "n" * 22)
    token = LinkKeys({"k1": b"1" * 32}, "store-1", "shop").signed(terms)
    client, transport = client_of(said(502), said(200, RECEIPT | {"tool_call_id": "one"}))
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="httpx"):
        await client.redeem(token, Approve())
    assert token in str(transport.requests[0].url)
    assert "HTTP Request: POST https://desk.example.com/agents/r/***" in caplog.text
    assert token not in caplog.text
