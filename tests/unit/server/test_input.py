"""Messages that wait, over HTTP: withdrawn and moved by ids of any form, bad requests, page tokens, and quotas."""

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from writer import Writer, begin, call, reply, start

from holdfast.client.access import quotas_of
from holdfast.server import create_app

from .conftest import Api

PLACE = "/v1/conversations/c-1"
ODD = ["a/b", "/a//b/", "100%", "a%2Fb", "%2f", "..", "../m-1", "a?b#c", "a+b&c=d", "%", "m-1/../m-2", "%00"]
HOUR_MS = 3_600_000


def in_hours(hours):
    return int((datetime.now(UTC) + timedelta(hours=hours)).timestamp() * 1000)


@pytest.fixture
async def queued(api, waiting):
    """A conversation with a turn, and one message in each place where messages wait."""
    await api("POST", f"{PLACE}/messages", json={"text": "next", "message_id": "m-2"})
    await api("POST", f"{PLACE}/messages", json={"text": "at once", "message_id": "m-3", "when": "steer"})
    await api("POST", f"{PLACE}/messages", json={"text": "later", "message_id": "m-4", "at": in_hours(1)})
    return waiting


@pytest.mark.parametrize("message_id", ODD)
async def test_a_message_of_any_id_is_moved_and_withdrawn_and_no_other(api, waiting, message_id):
    for one in (message_id, "other"):
        await api("POST", f"{PLACE}/messages", json={"text": "x", "message_id": one})
    place = f"{PLACE}/queue/{quote(message_id, safe='').replace('.', '%2E')}"

    moved = await api("PATCH", place, json={"priority": 3}, headers={"Idempotency-Key": "r-1"})
    assert [(one["message_id"], one["priority"]) for one in (await api("GET", f"{PLACE}/queue"))["items"]] == [
        (message_id, 3),
        ("other", 128),
    ]
    again = await api("PATCH", place, json={"priority": 3}, headers={"Idempotency-Key": "r-1"})
    assert again == moved | {"duplicate": True}
    withdrawn = await api("DELETE", place, headers={"Idempotency-Key": "w-1"})
    assert await api("DELETE", place, headers={"Idempotency-Key": "w-1"}) == withdrawn | {"duplicate": True}
    assert (await api("DELETE", place, 409))["code"] == "not_queued"
    assert [one["message_id"] for one in (await api("GET", f"{PLACE}/queue"))["items"]] == ["other"]


TIMES = {
    "without a zone": "2027-01-31T09:00:00",
    "in the past": "2020-01-31T09:00:00Z",
    "now": 1,
    "in ten years": in_hours(24 * 3650),
    "a word": "tomorrow",
    "a date": "2027-01-31",
    "a fraction": 1.5,
    "yes": True,
    "negative": -1,
    "without end": 1 << 63,
    "an object": {"hours": 1},
}
PRIORITIES = {"256": 256, "-1": -1, "yes": True, "a text": "1", "a fraction": 1.5}
BAD_MESSAGES = {
    **{f"at {name}": {"at": at} for name, at in TIMES.items()},
    **{f"priority {name}": {"priority": priority} for name, priority in PRIORITIES.items()},
    "no priority": {"priority": None},
    "when unknown": {"when": "soon"},
    "when a number": {"when": 1},
    "no when": {"when": None},
    "steer at": {"when": "steer", "at": in_hours(1)},
    "reject at": {"when": "reject", "at": in_hours(1)},
    "interrupt at": {"when": "interrupt", "at": in_hours(1)},
    "interrupt with a priority": {"when": "interrupt", "priority": 1},
    "origin unknown": {"origin": "me"},
    "overrides that the agent does not allow": {"overrides": {"temperature": 0.5}},
    "overrides out of all bounds": {"overrides": {"top_p": 7}},
    "overrides of something else": {"overrides": {"seed": 7}},
    "overrides that are a text": {"overrides": "temperature"},
    "overrides of another type": {"overrides": {"max_tokens": [7]}},
    "overrides to steer": {"overrides": {"temperature": 0.5}, "when": "steer"},
    "overrides to interrupt": {"overrides": {"temperature": 0.5}, "when": "interrupt"},
    "no text": {"text": None},
    "no parts": {"text": []},
    "an unknown field": {"in": "1h"},
}


async def refused(api, writer, method, path, body, codes=("invalid_request", "invalid_message")):
    """Check that a request is refused with a typed problem that names a field and the fix, and that nothing was changed."""
    before, seq = await api("GET", f"{PLACE}/queue"), writer.state.seq
    problem = await api(method, path, 422, json=body)
    assert problem["code"] in codes
    assert problem["detail"]
    assert problem.get("field") or all(one["field"] for one in problem["errors"])
    assert "Traceback" not in json.dumps(problem)
    assert (await api("GET", f"{PLACE}/queue"), writer.state.seq) == (before, seq)


@pytest.mark.parametrize("what", BAD_MESSAGES)
async def test_a_message_that_asks_for_what_is_none_is_refused_and_changes_nothing(api, queued, what):
    await refused(api, queued, "POST", f"{PLACE}/messages", {"text": "x", "message_id": "m-9"} | BAD_MESSAGES[what])
    await api("GET", f"{PLACE}/messages/m-9", 404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"priority": None},
        {"at": None, "priority": None},
        *({"at": at} for at in TIMES.values()),
        *({"priority": one} for one in PRIORITIES.values()),
        {"priority": 1, "text": "another"},
    ],
)
@pytest.mark.parametrize("message_id", ["m-2", "m-4"])
async def test_a_message_is_moved_to_no_place_that_is_none(api, queued, body, message_id):
    codes = ("invalid_request", "invalid_message", "invalid_input")
    await refused(api, queued, "PATCH", f"{PLACE}/queue/{message_id}", body, codes)


@pytest.mark.parametrize("body", [{"text": 7}, {"text": []}, {"text": "x", "at": in_hours(1)}, {"text": "x", "origin": "me"}])
async def test_an_interruption_that_cannot_be_said_interrupts_nothing(api, queued, body):
    await refused(api, queued, "POST", f"{PLACE}/interrupt", body, ("invalid_request", "invalid_message", "not_json"))
    assert len((await api("GET", f"{PLACE}/queue"))["items"]) == 3


async def test_what_joins_the_turn_is_not_moved_and_what_does_not_wait_is_neither_moved_nor_withdrawn(api, queued):
    assert (await api("PATCH", f"{PLACE}/queue/m-3", 422, json={"priority": 1}))["field"] == "message_id"
    for method, sent in (("PATCH", {"json": {"priority": 1}}), ("DELETE", {})):
        assert (await api(method, f"{PLACE}/queue/m-1", 409, **sent))["code"] == "not_queued"
        assert (await api(method, f"{PLACE}/queue/m-404", 404, **sent))["code"] == "message_not_found"
        assert (await api(method, f"{PLACE}/queue/%20", 422, **sent))["code"] == "invalid_message"
        await api(method, "/v1/conversations/c-404/queue/m-1", 404, **sent)
    assert [one["message_id"] for one in (await api("GET", f"{PLACE}/queue"))["items"]] == ["m-3", "m-2", "m-4"]


# -- page tokens, and quotas ----------------------------------------------------------------------------------------------


@pytest.fixture
async def guarded(client):
    opened = Api(create_app(client))
    async with opened.http:
        yield opened


@pytest.fixture
async def keyed(client):
    async def made(**quotas):
        _, text = await client.access.create_key("shop", ["read", "start", "decide"], quotas=quotas_of(**quotas))
        return {"Authorization": f"Bearer {text}"}

    return made


async def test_a_page_interrupts_and_withdraws_in_its_own_conversation_alone(guarded, keyed, store, stack, waiting):
    headers = await keyed()
    writer = stack.writers["c-2"] = await Writer.of(store, "c-2")
    await writer.do(start(message_id="m-1"), begin(), call(("refund", '{"order": 8}')))
    for name in ("c-1", "c-2"):
        await guarded("POST", f"/v1/conversations/{name}/messages", json={"text": "x", "message_id": "m-2"}, headers=headers)
    lent = {"conversation_id": "c-1", "scopes": ["start"]}
    page, reading = [
        {"Authorization": f"Bearer {(await guarded('POST', '/v1/page-tokens', 201, json=body, headers=headers))['token']}"}
        for body in (lent, lent | {"scopes": ["read"]})
    ]
    before = writer.state.seq
    asked = [
        ("DELETE", "/queue/m-2", {}),
        ("PATCH", "/queue/m-2", {"priority": 1}),
        ("POST", "/interrupt", {}),
        ("POST", "/interrupt", {"text": "stop"}),
        ("POST", "/messages", {"text": "stop", "when": "interrupt"}),
    ]
    for method, rest, body in asked:
        for name in ("c-2", "c-404"):
            await guarded(method, f"/v1/conversations/{name}{rest}", 404, json=body, headers=page)
        assert (await guarded(method, f"{PLACE}{rest}", 403, json=body, headers=reading))["scope"] == "start"
    assert writer.state.seq == before

    await guarded("PATCH", f"{PLACE}/queue/m-2", json={"priority": 1}, headers=page)
    await guarded("DELETE", f"{PLACE}/queue/m-2", json={}, headers=page)
    done = await guarded("POST", f"{PLACE}/interrupt", json={"text": "stop"}, headers=page)
    assert (done["turn_id"], done["superseded"], done["epoch"]) == ("t1", [], 1)
    assert waiting.state.turn is None
    assert writer.state.seq == before


@pytest.mark.parametrize("way", ["interrupt", "messages"])
async def test_the_message_of_an_interruption_uses_the_quota_once(guarded, keyed, waiting, way):
    headers = await keyed(starts_per_day=1)
    place = f"{PLACE}/{way}"
    body = {"text": "stop"} | ({"when": "interrupt"} if way == "messages" else {})
    first = await guarded("POST", place, json=body, headers=headers | {"Idempotency-Key": "i-1"})
    again = await guarded("POST", place, json=body, headers=headers | {"Idempotency-Key": "i-1"})
    assert again == first | {"duplicate": True}
    seq = waiting.state.seq
    for key in ({}, {"Idempotency-Key": "i-2"}):
        problem = await guarded("POST", place, 429, json=body, headers=headers | key)
        assert (problem["code"], problem["quota"]) == ("quota_used_up", "starts_per_day")
    assert waiting.state.seq == seq
    await guarded("POST", f"{PLACE}/interrupt", json={}, headers=headers)  # it sends nothing


async def test_a_summary_by_hand_uses_the_quota_of_a_message_once(guarded, keyed, store, stack):
    headers = await keyed(starts_per_day=1)
    writer = stack.writers["c-2"] = await Writer.of(store, "c-2")
    await writer.do(start(message_id="m-1"), begin(), reply("Hi."))
    place, first = "/v1/conversations/c-2/compact", {**headers, "Idempotency-Key": "x-1"}
    done = await guarded("POST", place, headers=first)
    assert await guarded("POST", place, headers=first) == done | {"duplicate": True}
    problem = await guarded("POST", place, 429, headers={**headers, "Idempotency-Key": "x-2"})
    assert (problem["code"], problem["quota"]) == ("quota_used_up", "starts_per_day")
    assert [event.kind for event in writer.events].count("compaction_requested") == 1
