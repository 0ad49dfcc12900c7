"""How much a request may bring: each operation takes what it can use, and what is large stops nobody else."""

import asyncio
import json
import threading

import pytest
from writer import Writer, begin, start

from holdfast.agent import Agent, Limits
from holdfast.client import verbs
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.text import jsontext
from holdfast.persistence import AppRecord
from holdfast.server import Bounds, create_app, intake
from holdfast.server.app import OPERATIONS, PAGES
from holdfast.server.intake import AT_ONCE_BYTES, FRESH_S, Intake
from holdfast.server.rates import Rates

from .conftest import OPEN, Api

TAKING = [operation for operation in OPERATIONS if operation.body is not None and operation.scope is not None]
JSON = {"Content-Type": "application/json"}
PLACES = {
    "conversation_id": "c-1",
    "suspension_id": "s-1",
    "grant_id": "g1",
    "message_id": "m-1",
    "outbox_id": "c-1~own:c-2~1.0.end.1",
}


def most_of(room, limits=Limits()):  # noqa: B008 - it is frozen
    return min(16 * 1024 + 3 * room(limits), 4 << 20)


@pytest.fixture
def parsed(monkeypatch):
    """The threads in which bodies are parsed."""
    threads, work = [], intake._parsed

    def noted(*given):
        threads.append(threading.current_thread())
        return work(*given)

    monkeypatch.setattr(intake, "_parsed", noted)
    return threads


@pytest.mark.parametrize("operation", TAKING, ids=lambda operation: operation.name)
async def test_no_operation_parses_more_than_it_can_use(api, waiting, parsed, operation):
    raw = b'{"x": "' + b"x" * most_of(operation.room) + b'"}'
    path = operation.path.format(**PLACES)
    problem = await api(operation.method, path, 413, content=raw, headers=JSON)
    assert problem["code"] == "body_too_large"
    assert parsed == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.method == "POST"], ids=lambda page: page.path)
async def test_no_form_is_read_that_is_larger_than_it_can_be(api, waiting, page):
    form = b"text=" + b"x" * most_of(page.room)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    found = await api.http.post(page.path.format(**PLACES), content=form, headers=headers)
    assert found.status_code == 413


async def test_an_answer_has_the_room_that_the_limits_give_however_it_is_escaped(api, waiting):
    text = "é" * ((Limits().result_bytes - 2) // 2)
    path = f"/v1/pending/{waiting.suspension_ids[1]}/resolve"
    raw = json.dumps({"decision": "answer", "value": text}, ensure_ascii=True).encode()
    assert (await api("POST", path, content=raw, headers=JSON))["settled"]


async def test_an_agent_with_larger_limits_makes_room(client, store):
    wide = Agent(name="wide", limits=Limits(result_bytes=1 << 20)).spec
    await store.put_app(AppRecord(app="wide:app", code="1", agents={"wide": wide.digest}), [wide])
    api = Api(create_app(client, authentication=OPEN))
    raw = json.dumps({"decision": "answer", "value": "x" * (1 << 20)}).encode()
    for _ in range(2):
        assert (await api("POST", "/v1/pending/s-1/resolve", 409, content=raw, headers=JSON))["code"] == "stale_call"


async def test_the_limits_are_looked_up_for_large_bodies_alone_and_seldom():
    looks, now = [], [0.0]

    class Looked:
        async def largest_limits(self):
            looks.append(now[0])
            return Limits()

    class Sent:
        def __init__(self, size):
            self.headers, self.raw = {"content-length": str(size)}, b"x" * size

        async def stream(self):
            yield self.raw

    taking = Intake(Looked(), Bounds(), clock=lambda: now[0])
    room = lambda limits: limits.result_bytes  # noqa: E731 - as operations have it
    await taking.read(Sent(most_of(room)), room)
    assert looks == []
    for at in (0.0, 1.0, FRESH_S, FRESH_S + 1):
        now[0] = at
        with pytest.raises(Exception, match="the body has more than"):
            await taking.read(Sent(most_of(room) + 1), room)
    assert looks == [0.0, FRESH_S]


async def test_large_bodies_are_parsed_and_judged_beside_the_event_loop(api, waiting, parsed, monkeypatch):
    judged = []

    def noted(decision):
        judged.append(threading.current_thread())
        return DecisionRecord.of(decision)

    for row in (verbs.RESOLVE, verbs.RESOLVE_CALL):
        monkeypatch.setitem(row.checks, "decision", noted)
    path = f"/v1/pending/{waiting.suspension_ids[1]}/resolve"
    raw = json.dumps({"decision": "answer", "value": [{"n": n} for n in range(AT_ONCE_BYTES // 8)]}).encode()
    await api("POST", path, 422, content=raw, headers=JSON)
    await api("POST", path, content=b'{"decision": "answer", "value": "blue"}', headers=JSON)
    assert [thread is threading.main_thread() for thread in parsed] == [False, True]
    assert [thread is threading.main_thread() for thread in judged] == [False, True]


async def test_bytes_count_as_requests(client, waiting):
    bounds = Bounds(caller_burst=100, caller_per_s=0.001)
    api = Api(create_app(client, bounds=bounds))
    _, text = await client.access.create_key("ana", ["read", "start"])
    headers = {"Authorization": f"Bearer {text}"} | JSON
    path = "/v1/conversations/c-1/messages"
    raw = json.dumps({"text": "x" * 250_000}).encode()
    await api("POST", path, content=raw, headers=headers)
    problem = await api("POST", path, 429, content=raw, headers=headers)
    assert problem["code"] == "rate_limited"
    await api("POST", path, content=b'{"text": "x"}', headers=headers)


async def test_the_bytes_of_replies_count_too_and_are_owed(client, store):
    api = Api(create_app(client, bounds=Bounds(caller_burst=100, caller_per_s=0.001)))
    _, text = await client.access.create_key("ana", ["read"])
    headers = {"Authorization": f"Bearer {text}"}
    await (await Writer.of(store, "c-1")).do(start("x" * 900_000), begin())
    statuses = [(await api.http.get("/v1/conversations/c-1/messages", headers=headers)).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_what_is_owed_comes_back():
    now = [0.0]
    rates = Rates(2, 10, clock=lambda: now[0])
    rates.spend("ana", 30)
    assert rates.take("ana") == (1 + 20) / 2
    now[0] = 10.5
    assert rates.take("ana") == 0.0


async def test_a_slow_parser_stops_no_small_request(api, waiting, monkeypatch):
    held, begun = threading.Event(), asyncio.Event()
    loop, loads = asyncio.get_running_loop(), jsontext.loads

    def slow(text):
        if len(text) > AT_ONCE_BYTES:
            loop.call_soon_threadsafe(begun.set)
            held.wait(20)
        return loads(text)

    monkeypatch.setattr("holdfast.server.intake.jsontext.loads", slow)
    large = asyncio.create_task(api("POST", "/v1/conversations/c-1/messages", json={"text": "x" * 50_000}))
    async with asyncio.timeout(20):
        await begun.wait()
        await api("POST", "/v1/conversations/c-1/messages", json={"text": "small"})
        held.set()
        await large
