"""How a client over HTTP sends many decisions: together as far as a server takes them so, and singly else."""

import json

import httpx
import pytest

from holdfast.client import AsyncClient, http_gateway
from holdfast.client.batches import key_of
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.results import PendingCall
from holdfast.conversation import Answer, Deny, Receipt, Review, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.errors import InvalidDecision, OutcomeUnknown, ServerRefused, StoreUnavailable

RECEIPT = {"conversation_id": "c-1", "seq": 7, "accepted_at": 5, "duplicate": False}
TOGETHER = "/v1/pending/resolve-each"


def answered(status, value, kind="application/json"):
    """An answer that comes as a stream, as over a network."""

    async def body():
        yield json.dumps(value).encode()

    return httpx.Response(status, content=body(), headers={"content-type": kind})


class Server:
    """A server of which a test says what it answers; `asked` has the path, the key and the body of each request."""

    def __init__(self):
        self.asked = []
        self.together = self.each
        self.client = AsyncClient(
            HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=5, transport=httpx.MockTransport(self._answer))
        )

    def _answer(self, request):
        body = json.loads(request.content)
        self.asked.append((request.url.path, request.headers["idempotency-key"], body))
        return self.together(body) if request.url.path == TOGETHER else answered(200, RECEIPT)

    def each(self, body):
        """What a server answers that takes all of them."""
        items = [{"suspension_id": one["suspension_id"], "status": 200, "receipt": RECEIPT} for one in body["decisions"]]
        return answered(207, {"items": items})

    def calls(self, count):
        """So many calls that wait."""
        views = [
            PendingView(
                conversation_id="c-1",
                tool_call_id=f"call_{number}",
                suspension_id=f"s-{number}",
                kind=SuspensionKind.APPROVAL,
                created_at=1,
            )
            for number in range(count)
        ]
        return [PendingCall.of(view, self.client.resolve) for view in views]


@pytest.fixture
def server():
    return Server()


def problem(status, code, **more):
    said = {"type": code, "code": code, "title": code, "status": status, "detail": "it said so", **more}
    return answered(status, said, "application/problem+json")


async def test_as_many_go_in_one_request_as_a_server_takes_under_one_key(server):
    found = await server.client.resolve_each([(call, Deny("no")) for call in server.calls(230)], decision_id="d-1")

    assert [len(body["decisions"]) for _, _, body in server.asked] == [100, 100, 30]
    assert {(path, key) for path, key, _ in server.asked} == {(TOGETHER, "d-1")}
    first = {"decision": "deny", "reason": "no", "suspension_id": "s-0", "tool_call_id": "call_0", "conversation_id": "c-1"}
    assert server.asked[0][2]["decisions"][0] == first
    assert found == [Receipt(**RECEIPT)] * 230


async def test_large_ones_go_by_themselves(server, monkeypatch):
    monkeypatch.setattr(http_gateway, "TOGETHER_BYTES", 1000)
    values = ["x", "y" * 5000, "x", "x"]
    pairs = [(call, Answer(value)) for call, value in zip(server.calls(4), values, strict=True)]
    assert await server.client.resolve_each(pairs) == [Receipt(**RECEIPT)] * 4
    assert [len(body["decisions"]) for _, _, body in server.asked] == [1, 1, 2]


@pytest.mark.parametrize(
    "refusal",
    [
        (413, "body_too_large"),
        (400, "not_json"),
        (422, "invalid_request"),
        (404, "not_found"),
        (405, "method_not_allowed"),
    ],
)
async def test_those_that_a_server_does_not_take_together_are_sent_singly_with_keys_of_their_own(server, refusal):
    server.together = lambda _: problem(*refusal)
    calls = server.calls(2)

    found = await server.client.resolve_each([(call, Review("allow")) for call in calls], decision_id="d-1")

    assert found == [Receipt(**RECEIPT)] * 2
    assert [(path, key) for path, key, _ in server.asked[1:]] == [
        ("/v1/conversations/c-1/resolve", key_of("d-1", call.suspension_id)) for call in calls
    ]


async def test_the_problem_of_one_is_its_error_and_one_that_is_not_known_is_named(server):
    refused = {"code": "invalid_decision", "field": "decision", "problem": "no", "fix": "decide otherwise", "status": 422}
    outcomes = [{"problem": refused, "status": 422}, {"problem": {"code": "teapot", "detail": "short"}, "status": 418}]
    server.together = lambda _: answered(207, {"items": [*outcomes, {"status": 200, "receipt": RECEIPT}]})

    invalid, unknown, taken = await server.client.resolve_each([(call, Deny()) for call in server.calls(3)])

    assert (type(invalid), invalid.field) == (InvalidDecision, "decision")
    assert (type(unknown), unknown.http_status, unknown.reason) == (ServerRefused, 418, "teapot")
    assert taken == Receipt(**RECEIPT)


async def test_a_refusal_of_all_is_the_error_of_each(server):
    server.client.gateway.exchange.timeout_s = 0.2
    server.together = lambda _: problem(503, "store_unavailable", why="it is away")
    found = await server.client.resolve_each([(call, Deny()) for call in server.calls(2)])
    assert [type(one) for one in found] == [StoreUnavailable] * 2


@pytest.mark.parametrize("reply", [{}, {"items": []}, {"items": [{"status": 200}, {"status": 200}]}, {"items": [7, 7]}])
async def test_a_reply_that_cannot_be_read_leaves_the_outcome_of_each_unknown(server, reply):
    server.together = lambda _: answered(207, reply)
    found = await server.client.resolve_each([(call, Deny()) for call in server.calls(2)], decision_id="d-1")
    assert [(type(one), one.retry_id) for one in found] == [(OutcomeUnknown, key_of("d-1", f"s-{n}")) for n in range(2)]


async def test_receipts_of_another_number_than_decisions_leave_the_outcome_unknown():
    def answer(_):
        return answered(200, {"items": [RECEIPT]})

    client = AsyncClient(HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=5, transport=httpx.MockTransport(answer)))
    with pytest.raises(OutcomeUnknown) as unknown:
        await client.conversation("c-1").resolve_many({"s-1": Deny(), "s-2": Deny()}, decision_id="d-1")
    assert unknown.value.retry_id == "d-1"
