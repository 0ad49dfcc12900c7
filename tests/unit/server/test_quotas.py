"""Quotas of an API key: what its messages, and those of its pages, may use in a day."""

import time

import pytest

from holdfast.client.access import quotas_of
from holdfast.conversation.terms.money import NANOS
from holdfast.error_codes import error_of
from holdfast.errors import InvalidInput
from holdfast.persistence.access import WINDOW_MS
from holdfast.server import create_app

from .conftest import Api

SCOPES = ["read", "start"]


@pytest.fixture
async def api(client):
    opened = Api(create_app(client))
    async with opened.http:
        yield opened


@pytest.fixture
def keyed(client):
    async def made(**quotas):
        key, text = await client.access.create_key("shop", SCOPES, quotas=quotas_of(**quotas))
        return key, {"Authorization": f"Bearer {text}"}

    return made


def starting(headers, number, text="Hello"):
    return {"json": {"agent": "desk", "text": text, "conversation_id": f"q-{number}"}, "headers": headers}


async def test_a_key_without_quotas_is_counted_nowhere(api, client, store, keyed):
    _, headers = await keyed()
    for number in range(3):
        await api("POST", "/v1/conversations", 201, **starting(headers, number))
    assert store._quotas_used == {}


async def test_a_message_beyond_the_quota_is_refused_with_what_is_used_and_until_when(api, client, keyed, stack):
    key, headers = await keyed(starts_per_day=3, conversations_per_day=2)
    for number in range(2):
        await api("POST", "/v1/conversations", 201, **starting(headers, number))
    delivered = len(stack.delivered)

    refused = await api.http.post("/v1/conversations", **starting(headers, 2))

    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (429, "quota_used_up")
    assert (problem["quota"], problem["used"], problem["most"]) == ("conversations_per_day", 2, 2)
    assert 0 < problem["until"] / 1000 - time.time() <= WINDOW_MS / 1000
    assert WINDOW_MS / 1000 - 60 < int(refused.headers["retry-after"]) <= WINDOW_MS / 1000 + 1
    assert vars(error_of(problem)) == {name: problem[name] for name in ("quota", "used", "most", "until")}
    assert len(stack.delivered) == delivered
    path = "/v1/conversations/q-0/messages"
    await api("POST", path, json={"text": "and"}, headers=headers)
    assert (await api("POST", path, 429, json={"text": "and"}, headers=headers))["quota"] == "starts_per_day"
    (used,) = await client.access.used([key.key_id])
    assert used.amounts == {"starts_per_day": 3, "conversations_per_day": 2}


async def test_a_repetition_is_answered_also_when_the_quota_is_used_up(api, keyed):
    _, headers = await keyed(starts_per_day=1)
    first = await api("POST", "/v1/conversations", 201, **starting(headers, 0))
    again = await api("POST", "/v1/conversations", 201, **starting(headers, 0))
    assert again == first | {"duplicate": True}
    await api("POST", "/v1/conversations", 429, **starting(headers, 1))


async def test_a_request_that_was_counted_and_refused_opens_no_way_past_the_tokens(api, store, keyed):
    _, headers = await keyed(tokens_per_day=100, conversations_per_day=1)
    await api("POST", "/v1/conversations", 201, **starting(headers, 0))
    sent = {"json": {"text": "more"}, "headers": headers | {"Idempotency-Key": "m-1"}}
    await api("POST", "/v1/conversations/q-1/messages", 404, **sent)  # it was counted, and there is no such conversation
    started = starting(headers | {"Idempotency-Key": "m-1"}, 1)
    assert (await api("POST", "/v1/conversations", 429, **started))["quota"] == "conversations_per_day"
    path = "/v1/conversations/q-0/messages"
    accepted = await api("POST", path, **sent)
    await store.spend("q-0", 100, 0)
    assert (await api("POST", "/v1/conversations/q-1/messages", 429, **sent))["quota"] == "tokens_per_day"
    assert await api("POST", path, **sent) == accepted | {"duplicate": True}


async def test_the_pages_of_a_key_use_its_quota_and_another_key_has_its_own(api, keyed):
    _, headers = await keyed(starts_per_day=2)
    _, other = await keyed(starts_per_day=2)
    await api("POST", "/v1/conversations", 201, **starting(headers, 0))
    body = {"conversation_id": "q-0", "scopes": ["start"], "principal": "guest"}
    token = (await api("POST", "/v1/page-tokens", 201, json=body, headers=headers))["token"]
    page = {"Authorization": f"Bearer {token}"}
    path = "/v1/conversations/q-0/messages"
    await api("POST", path, json={"text": "one"}, headers=page)
    await api("POST", path, 429, json={"text": "two"}, headers=page)
    await api("POST", path, json={"text": "three"}, headers=other)


@pytest.mark.parametrize(
    ("quotas", "spent", "named"),
    [
        ({"tokens_per_day": 100}, (100, 0), ("tokens_per_day", 100, 100)),
        ({"cost_usd_per_day": 0.5}, (7, NANOS // 2), ("cost_usd_per_day", 0.5, 0.5)),
    ],
)
async def test_what_turns_have_used_stops_the_next_message(api, store, keyed, quotas, spent, named):
    _, headers = await keyed(**quotas)
    await api("POST", "/v1/conversations", 201, **starting(headers, 0))
    await store.spend("q-0", *(part - 1 if part else 0 for part in spent))
    path = "/v1/conversations/q-0/messages"
    await api("POST", path, json={"text": "more"}, headers=headers)
    await store.spend("q-0", *(1 if part else 0 for part in spent))
    problem = await api("POST", path, 429, json={"text": "yet more"}, headers=headers)
    assert (problem["quota"], problem["used"], problem["most"]) == named


@pytest.mark.parametrize("field", ["starts_per_day", "conversations_per_day", "tokens_per_day", "cost_usd_per_day"])
@pytest.mark.parametrize("most", [0, -1, 1e18, float("nan"), float("inf")])
def test_what_is_no_quota_is_refused(field, most):
    with pytest.raises(InvalidInput) as refused:
        quotas_of(**{field: most})
    assert refused.value.field == field
