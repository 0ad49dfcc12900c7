"""Who calls: API keys, sessions, a proxy's headers; what they may do, which agents they may touch, how often they may ask."""

import asyncio
import ipaddress
import json
import logging
import time

import httpx
import pytest
from writer import Writer, begin, end, start

from holdfast.client.access import API_KEY
from holdfast.conversation import Principal, Proof
from holdfast.conversation.ids import conversation_id_from
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.persistence import AccessScope
from holdfast.server import (
    Authentication,
    Bounds,
    Caller,
    Credential,
    InvalidToken,
    Proxy,
    authenticators,
    callers,
    create_app,
    sign_in_link,
    streams,
)
from holdfast.server.app import OPERATIONS

from .conftest import HERE, Api

BODY = {"agent": "desk", "text": "x"}
EVERY = [scope.value for scope in AccessScope]
SAME = {"Sec-Fetch-Site": "same-origin"}


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def opened(client, peer="10.0.0.9", **options):
    """The application as somebody at that address calls it, who says nothing of who they are."""
    api = Api(create_app(client, **options))
    api.http = httpx.AsyncClient(transport=httpx.ASGITransport(api.app, client=(peer, 7)), base_url=HERE)
    return api


@pytest.fixture
async def api(client):
    asked = opened(client)
    async with asked.http:
        yield asked


async def key_of(client, *scopes, **options):
    key, text = await client.access.create_key("ana", scopes or EVERY, **options)
    return key, bearer(text)


def path_of(operation):
    names = {"conversation_id": "c-1", "suspension_id": "s-1", "message_id": "m-1", "turn_id": "t1", "grant_id": "g1"}
    return operation.path.format(**names, token="k1", request_id="x-1", outbox_id="c-1~notice:ops:shop:app~1.0.ended.1")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_each_operation_takes_its_scope_and_is_refused_before_the_body_is_read(api, client, waiting, operation):
    async def body():
        raise AssertionError("the body was read")
        yield b""

    sent = {"content": body()} if operation.method != "GET" else {}
    if operation.scope is None:
        assert (await api.http.request(operation.method, path_of(operation))).status_code in (
            200,
            503,
            403 if operation.name == "redeem" else 200,
        )
        return
    nobody = await api.http.request(operation.method, path_of(operation), **sent)
    assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, 'Bearer realm="holdfast"')
    for scope in operation.scopes:
        _, others = await key_of(client, *(other for other in EVERY if other not in (scope, operation.instead)))
        refused = await api.http.request(operation.method, path_of(operation), headers=others, **sent)
        assert (refused.status_code, refused.json()["code"], refused.json()["scope"]) == (403, "not_permitted", scope.value)
        assert f'scope="{scope.value}"' in refused.headers["www-authenticate"]
    if not operation.streams:
        _, own = await key_of(client, *operation.scopes)
        assert (await api.http.request(operation.method, path_of(operation), headers=own)).status_code not in (401, 403)


async def test_metrics_are_for_those_who_administer_the_whole(api, client):
    for options, status in (((["read"], None), 403), ((["admin"], ["desk"]), 403), ((["admin"], None), 200)):
        _, text = await client.access.create_key("prometheus", options[0], agents=options[1])
        assert (await api.http.get("/metrics", headers=bearer(text))).status_code == status
    assert (await api.http.get("/metrics")).status_code == 401


async def test_what_is_done_is_done_as_the_verified_principal(api, client, stack):
    _, text = await client.access.create_key("ana", ["start"], roles=["lead"])
    await api("POST", "/v1/conversations", 201, json=BODY | {"conversation_id": "c-9"}, headers=bearer(text))
    (command,) = stack.delivered
    assert (command.principal.id, command.principal.roles, command.principal.proof) == ("ana", ("lead",), Proof.KEY)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer hf_0123456789ab_" + "0" * 64,
        "Bearer hf_0123456789ab_" + "0" * 63,
        "Bearer hf_*_" + "0" * 64,
        "Bearer " + "x" * 30_000,
        "Bearer a.b.c",
        "Bearer \xe9",
    ],
)
async def test_what_is_no_credential_lets_nobody_in_and_is_not_repeated(api, waiting, value):
    found = await api.http.get("/v1/pending", headers={"Authorization": value.encode("latin-1")})
    assert (found.status_code, found.json()["code"]) == (401, "unauthenticated")
    assert found.headers["www-authenticate"].startswith("Bearer")
    assert "0000000000" not in found.text


async def test_two_headers_with_credentials_are_refused(api, client):
    _, good = await key_of(client)
    value = good["Authorization"]
    found = await api.http.get("/v1/pending", headers=[("Authorization", value), ("Authorization", value)])
    assert found.status_code == 401


async def test_the_secret_of_a_key_is_not_kept_and_counts_whole(api, client, store, caplog):
    caplog.set_level(logging.DEBUG)
    key, good = await key_of(client, "read")
    secret = API_KEY.fullmatch(good["Authorization"].removeprefix("Bearer "))[2]
    wrong = good["Authorization"][:-1] + ("0" if secret[-1] != "0" else "1")

    assert (await api.http.get("/v1/pending", headers=good)).status_code == 200
    assert (await api.http.get("/v1/pending", headers={"Authorization": wrong})).status_code == 401
    for told in (repr(vars(store)), repr(key), repr(vars(api.app.state.serving.callers)), caplog.text):
        assert secret not in told
    assert key.digest not in repr(key)


async def test_a_key_is_refused_seconds_after_it_was_revoked_and_when_it_expires(client, waiting, monkeypatch):
    api = opened(client)
    now = [100.0]
    monkeypatch.setattr(api.app.state.serving.callers, "_clock", lambda: now[0])
    key, revoked = await key_of(client)
    _, expiring = await key_of(client, expires_s=60)
    for headers in (revoked, expiring):
        assert (await api.http.get("/v1/pending", headers=headers)).status_code == 200
    assert await client.access.revoke_key(key.key_id)
    assert not await client.access.revoke_key(key.key_id)
    monkeypatch.setattr(time, "time", lambda at=time.time: at() + 61)
    now[0] += callers.FRESH_S
    for headers, why in ((revoked, "no such key"), (expiring, "expired")):
        found = await api.http.get("/v1/pending", headers=headers)
        assert found.status_code == 401
        assert why in found.json()["detail"]
        assert 'error="invalid_token"' in found.headers["www-authenticate"]


async def test_a_stream_ends_once_its_key_was_revoked(client, waiting, monkeypatch):
    monkeypatch.setattr(streams, "RECHECK_S", 0.01)
    monkeypatch.setattr(callers, "FRESH_S", 0)
    api = opened(client)
    key, headers = await key_of(client, "read")
    async with api.stream("GET", "/v1/conversations/c-1/events", authorization=headers["Authorization"]) as stream:
        await stream.until(lambda: stream.events)
        await asyncio.sleep(0.05)
        assert not stream.task.done()
        await client.access.revoke_key(key.key_id)
        async with asyncio.timeout(20):
            await stream.task
    assert b"stream_closed" not in stream.raw


async def test_a_stream_of_a_revoked_key_ends_although_its_address_has_failed_too_often(client, waiting, monkeypatch):
    monkeypatch.setattr(streams, "RECHECK_S", 0.05)
    monkeypatch.setattr(callers, "FRESH_S", 0)
    api = opened(client, bounds=Bounds(failures_burst=1, failures_per_s=0.001))
    key, headers = await key_of(client, "read")
    async with api.stream("GET", "/v1/conversations/c-1/events", authorization=headers["Authorization"]) as stream:
        await stream.until(lambda: stream.events)
        await client.access.revoke_key(key.key_id)
        statuses = [(await api.http.get("/v1/agents", headers=headers)).status_code for _ in range(2)]
        assert statuses == [401, 429]
        async with asyncio.timeout(20):
            await stream.task


async def test_who_may_start_and_not_read_gets_no_stream_of_the_turn(api, client):
    _, starting = await key_of(client, "start")
    found = await api.http.post("/v1/conversations", json=BODY, headers=starting | {"Accept": "text/event-stream"})
    assert (found.status_code, found.json()["scope"]) == (403, "read")
    assert (await api.http.post("/v1/conversations", json=BODY, headers=starting)).status_code == 201


async def test_one_caller_holds_a_share_of_the_places_and_leaves_the_others_theirs(client, waiting):
    api = opened(client, bounds=Bounds(requests=4, streams=4))
    _, greedy = await key_of(client, "read")
    _, text = await client.access.create_key("bob", ["read"])
    polling = asyncio.create_task(api.http.get("/v1/conversations/c-1?wait_s=60&after=1000", headers=greedy))
    async with asyncio.timeout(20):
        while not api.app.state.serving.requests._held:
            await asyncio.sleep(0.01)
    assert (await api.http.get("/v1/agents", headers=greedy)).status_code == 429
    assert (await api.http.get("/v1/agents", headers=bearer(text))).status_code == 200
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    async with api.stream("GET", "/v1/conversations/c-1/events", authorization=greedy["Authorization"]) as stream:
        await stream.until(lambda: stream.events)
        assert (await api.http.get("/v1/conversations/c-1/events", headers=greedy)).status_code == 429
        async with api.stream("GET", "/v1/conversations/c-1/events", authorization=f"Bearer {text}") as other:
            await other.until(lambda: other.events)


async def test_a_burst_of_guesses_is_looked_at_in_part(client, store, monkeypatch):
    monkeypatch.setattr(callers, "MOST_LOOKING", 3)
    looked, answered = [], asyncio.Event()

    async def slow(key_id):
        looked.append(key_id)
        await answered.wait()

    monkeypatch.setattr(store, "api_key", slow)
    api = opened(client)
    guesses = [bearer(f"hf_{number:012x}_{number:064x}") for number in range(20)]
    asked = [asyncio.create_task(api.http.get("/v1/agents", headers=guess)) for guess in guesses]
    async with asyncio.timeout(20):
        while sum(task.done() for task in asked) < 17:
            await asyncio.sleep(0.01)
    answered.set()
    found = await asyncio.gather(*asked)
    assert len(looked) == 3
    assert sorted(one.status_code for one in found) == [401] * 3 + [429] * 17
    assert callers_of(api)._looking == {}


def callers_of(api):
    return api.app.state.serving.callers


@pytest.mark.parametrize("more", [{"origins": ("https://desk.example",)}, {"proxy": Proxy(peers=("10.0.0.0/8",))}])
def test_who_asks_nobody_lets_nobody_else_in(more):
    with pytest.raises(ConfigurationError, match="no_auth"):
        Authentication(anyone=True, **more)


async def test_the_use_of_a_key_is_noted_now_and_then(api, client, store):
    key, headers = await key_of(client, "read")
    for _ in range(3):
        await api.http.get("/v1/agents", headers=headers)
    async with asyncio.timeout(20):
        while (await store.api_key(key.key_id)).used_at is None:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(api.app.state.serving.callers._keys._noting) == 0


async def test_a_verified_key_is_looked_up_once_in_a_while(api, client, store, monkeypatch):
    _, headers = await key_of(client, "read")
    looks, found = [], store.api_key

    async def counted(key_id):
        looks.append(key_id)
        return await found(key_id)

    monkeypatch.setattr(store, "api_key", counted)
    for _ in range(5):
        assert (await api.http.get("/v1/agents", headers=headers)).status_code == 200
    assert len(looks) == 1


async def test_many_requests_at_once_with_a_new_key_are_one_look_and_no_failure(client, store, monkeypatch):
    api = opened(client, bounds=Bounds(failures_burst=1, failures_per_s=0.001))
    _, headers = await key_of(client, "read")
    looks, found = [], store.api_key

    async def slow(key_id):
        looks.append(key_id)
        await asyncio.sleep(0.01)
        return await found(key_id)

    monkeypatch.setattr(store, "api_key", slow)
    answers = await asyncio.gather(*(api.http.get("/v1/agents", headers=headers) for _ in range(50)))
    assert {one.status_code for one in answers} == {200}
    assert len(looks) == 1
    await asyncio.sleep(0)
    assert api.app.state.serving.callers._verifying == {}


async def test_a_store_that_does_not_answer_is_no_failure_of_the_caller(client, store, monkeypatch):
    api = opened(client, bounds=Bounds(failures_burst=1, failures_per_s=0.001))
    _, headers = await key_of(client, "read")

    async def gone(_):
        raise StoreUnavailable("it is gone")

    with monkeypatch.context() as patched:
        patched.setattr(store, "api_key", gone)
        for _ in range(3):
            assert (await api.http.get("/v1/agents", headers=headers)).status_code == 503
    assert (await api.http.get("/v1/agents", headers=headers)).status_code == 200


async def test_failures_of_an_address_are_bounded_and_keep_out_nobody_who_was_let_in_before(client, store, monkeypatch):
    api = opened(client, bounds=Bounds(failures_burst=3, failures_per_s=0.001))
    _, good = await key_of(client, "read")
    assert (await api.http.get("/v1/agents", headers=good)).status_code == 200
    guesses = [bearer(f"hf_0123456789ab_{number:064x}") for number in range(6)]
    statuses = [(await api.http.get("/v1/agents", headers=guess)).status_code for guess in guesses]
    assert statuses == [401] * 3 + [429] * 3
    refused = await api.http.get("/v1/agents", headers=guesses[0])
    assert (refused.json()["code"], int(refused.headers["retry-after"]) > 1) == ("too_many_failures", True)
    monkeypatch.setattr(callers, "FRESH_S", 0)
    for _ in range(3):
        assert (await api.http.get("/v1/agents", headers=good)).status_code == 200
    elsewhere = httpx.AsyncClient(transport=httpx.ASGITransport(api.app, client=("10.0.0.8", 7)), base_url=HERE)
    assert (await elsewhere.get("/v1/agents", headers=guesses[0])).status_code == 401


async def test_a_good_key_gets_in_from_an_address_that_has_failed_too_often_and_guesses_cost_no_look_of_their_own(
    client, store, monkeypatch
):
    now, looks, lists, list_all, look = [100.0], [], [], store.api_keys, store.api_key

    async def looked(key_id):
        looks.append(key_id)
        return await look(key_id)

    async def listed():
        lists.append(now[0])
        return await list_all()

    monkeypatch.setattr(store, "api_key", looked)
    monkeypatch.setattr(store, "api_keys", listed)
    api = opened(client, bounds=Bounds(failures_burst=1, failures_per_s=0.001))
    monkeypatch.setattr(callers_of(api), "_clock", lambda: now[0])
    monkeypatch.setattr(callers_of(api)._keys, "_clock", lambda: now[0])
    (key, good), (_, expired), (gone, revoked) = [
        await key_of(client, "read", expires_s=expires) for expires in (None, 0.001, None)
    ]
    assert await client.access.revoke_key(gone.key_id)
    await asyncio.sleep(0.01)
    guesses = [bearer(f"hf_{number:012x}_{number:064x}") for number in range(50)]
    assert (await api.http.get("/v1/agents", headers=guesses[0])).status_code == 401
    assert {(await api.http.get("/v1/agents", headers=guess)).status_code for guess in (*guesses[1:], revoked)} == {429}
    right_id = {"Authorization": good["Authorization"][:-64] + "0" * 64}
    assert (await api.http.get("/v1/agents", headers=right_id)).status_code == 429
    assert (len(looks), len(lists)) == (1, 1)
    assert (await api.http.get("/v1/agents", headers=good)).status_code == 200
    assert looks[1:] == [key.key_id]
    assert (await api.http.get("/v1/agents", headers=expired)).status_code == 401

    _, younger = await key_of(client, "read")
    assert (await api.http.get("/v1/agents", headers=younger)).status_code == 429
    now[0] += authenticators.TABLE_S
    assert (await api.http.get("/v1/agents", headers=younger)).status_code == 200
    assert len(lists) == 2


async def test_a_good_key_gets_in_while_many_guesses_are_looked_at(client, store, monkeypatch):
    monkeypatch.setattr(callers, "MOST_LOOKING", 2)
    api, answered, look = opened(client), asyncio.Event(), store.api_key
    key, good = await key_of(client, "read")

    async def slow(key_id):
        if key_id != key.key_id:
            await answered.wait()
        return await look(key_id)

    monkeypatch.setattr(store, "api_key", slow)
    guesses = [bearer(f"hf_{number:012x}_{number:064x}") for number in range(2)]
    asked = [asyncio.create_task(api.http.get("/v1/agents", headers=guess)) for guess in guesses]
    async with asyncio.timeout(20):
        while callers_of(api)._looking.total() < 2:
            await asyncio.sleep(0)
        assert (await api.http.get("/v1/agents", headers=good)).status_code == 200
    answered.set()
    assert [one.status_code for one in await asyncio.gather(*asked)] == [401, 401]


async def test_a_caller_who_asks_too_often_is_told_when_to_come_back(client):
    api = opened(client, bounds=Bounds(caller_burst=2, caller_per_s=0.5))
    _, headers = await key_of(client, "read")
    _, other = await client.access.create_key("bob", ["read"])
    found = [await api.http.get("/v1/agents", headers=headers) for _ in range(3)]
    assert [one.status_code for one in found] == [200, 200, 429]
    assert (found[2].json()["code"], found[2].headers["retry-after"]) == ("rate_limited", "2")
    assert (await api.http.get("/v1/agents", headers=bearer(other))).status_code == 200


async def test_the_link_signs_one_person_in_once(client, waiting):
    api = opened(client, peer="127.0.0.1")
    older, link = sign_in_link(api.app, HERE), sign_in_link(api.app, HERE)
    assert (await api.http.post(older)).status_code == 410
    for look in (api.http.head, api.http.get, api.http.get):
        page = await look(link, headers={"Sec-Purpose": "prefetch", "Sec-Fetch-Site": "none"})
        assert (page.status_code, "set-cookie" in page.headers) == (200, False)
    assert page.headers["content-type"].startswith("text/html")
    assert '<form method="post">' in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    assert (await api.http.get(older)).status_code == 410
    assert (await api.http.post(link, headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    found = await api.http.post(link, headers=SAME | {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})
    assert (found.status_code, found.headers["location"]) == (303, "/inbox")
    assert all(part in found.headers["set-cookie"] for part in ("HttpOnly", "SameSite=lax", "Path=/", "holdfast-8484="))
    assert "Secure" not in found.headers["set-cookie"]
    assert (await api.http.get("/")).status_code == 200
    assert (await api.http.get("/v1/pending")).status_code == 200
    assert (await api.http.post("/v1/conversations", json=BODY, headers=SAME)).status_code == 201
    assert (await api.http.post("/v1/conversations", json=BODY, headers={"Origin": HERE})).status_code == 201
    assert (await api.http.post("/v1/conversations", json=BODY)).status_code == 401, "no page of ours has sent it"
    again = httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url=HERE)
    assert (await again.post(link)).status_code == 410
    assert (await again.get("/v1/pending")).status_code == 401
    assert (await again.get("/v1/pending", headers={"Cookie": "holdfast-8484=x"})).status_code == 401


async def test_over_tls_the_cookie_is_bound_to_the_host(client):
    app = create_app(client, hosts=["desk.example"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://desk.example") as http:
        cookie = (await http.post(sign_in_link(app, "https://desk.example"))).headers["set-cookie"]
    assert cookie.startswith("__Host-holdfast=")
    assert "Secure" in cookie


async def test_a_bad_bearer_is_not_made_good_by_a_cookie(client):
    api = opened(client)
    await api.http.post(sign_in_link(api.app, HERE))
    assert (await api.http.get("/v1/pending", headers=bearer("x"))).status_code == 401


ORIGIN = "https://desk.example"
ELSEWHERE = {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


async def test_a_page_of_an_allowed_origin_sends_with_a_bearer_and_never_with_the_cookie(client):
    api = opened(client, authentication=Authentication(origins=(ORIGIN,)))
    await api.http.post(sign_in_link(api.app, HERE))
    _, good = await key_of(client, "read")
    asked = await api.http.options("/v1/agents", headers=ELSEWHERE | {"Access-Control-Request-Method": "GET"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, ORIGIN)
    assert {"Authorization", "traceparent"} <= set(asked.headers["access-control-allow-headers"].split(", "))
    assert (await api.http.get("/v1/agents", headers=ELSEWHERE)).status_code == 401
    found = await api.http.get("/v1/agents", headers=ELSEWHERE | good)
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "origin" in found.headers["vary"].lower()
    for one in (asked, found):
        assert "access-control-allow-credentials" not in one.headers
    other = await api.http.get("/v1/agents", headers=ELSEWHERE | good | {"Origin": "https://desk.example.evil"})
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)
    same = await api.http.get("/v1/agents", headers=SAME)
    assert (same.status_code, "access-control-allow-origin" in same.headers) == (200, False)


PROXY = Proxy(
    peers=(ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("fd00::/64")),
    user_header="X-User",
    roles_header="X-Groups",
    scopes=(AccessScope.READ,),
)


@pytest.mark.parametrize(
    ("peer", "status"),
    [("10.0.0.1", 200), ("::ffff:10.0.0.1", 200), ("fd00::9", 200), ("10.0.1.1", 401), ("127.0.0.1", 401), ("fd01::9", 401)],
)
async def test_plain_headers_count_from_listed_peers_alone(client, peer, status):
    api = opened(client, peer=peer, authentication=Authentication(proxy=PROXY))
    found = await api.http.get("/v1/agents", headers={"X-User": "ana@shop.example"})
    assert found.status_code == status


async def test_a_plain_header_is_read_once_and_gives_the_scopes_that_are_configured(client):
    api = opened(client, authentication=Authentication(proxy=PROXY))
    caller = []

    async def seen(scope, **options):
        caller.append(await found(scope, **options))
        return caller[0]

    found = api.app.state.serving.callers.of
    object.__setattr__(api.app.state.serving.callers, "of", seen)
    given = {"X-User": "ana@shop.example", "X-Groups": "finance, desk,,finance"}
    assert (await api.http.get("/v1/agents", headers=given)).status_code == 200
    assert (caller[0].principal.id, caller[0].principal.roles) == ("ana@shop.example", ("finance", "desk"))
    assert caller[0].principal.proof == Proof.PROXY
    assert (await api.http.post("/v1/pause", json={}, headers=given | SAME)).status_code == 403
    assert (await api.http.post("/v1/pause", json={}, headers=given)).status_code == 401, "a page might have sent it"
    twice = [("X-User", "ana"), ("X-User", "bob")]
    assert (await api.http.get("/v1/agents", headers=twice)).status_code == 401
    for bad in ("", " ", "\x07", "x" * 300, "an\xada"):
        assert (await api.http.get("/v1/agents", headers={"X-User": bad.encode("latin-1")})).status_code == 401


async def test_failures_behind_a_proxy_are_counted_for_whom_it_speaks_for(client):
    bounds = Bounds(failures_burst=1, failures_per_s=0.001)
    api = opened(client, authentication=Authentication(proxy=PROXY), bounds=bounds)
    guess = bearer("hf_0123456789ab_" + "0" * 64)
    for address, status in (("1.1.1.1", 401), ("1.1.1.1", 429), ("6.6.6.6, 2.2.2.2", 401), ("2.2.2.2", 429), ("junk", 401)):
        found = await api.http.get("/v1/agents", headers=guess | {"X-Forwarded-For": address})
        assert found.status_code == status
    lines = [("X-Forwarded-For", "5.5.5.5"), ("X-Forwarded-For", "2.2.2.2:4711"), *guess.items()]
    assert (await api.http.get("/v1/agents", headers=lines)).status_code == 429  # the last line is the proxy's
    direct = opened(client, peer="10.9.9.9", authentication=Authentication(proxy=PROXY), bounds=bounds)
    for address, status in (("1.1.1.1", 401), ("3.3.3.3", 429)):
        found = await direct.http.get("/v1/agents", headers=guess | {"X-Forwarded-For": address})
        assert found.status_code == status


@pytest.fixture
async def others(store, stack, waiting):
    """Beside the waiting conversation of the desk, some of other agents."""
    for number in range(3):
        for agent in ("bar", "cellar"):
            writer = await Writer.of(store, f"{agent}-{number}")
            await writer.do(start(agent=agent), begin())
            stack.writers[writer.conversation_id] = writer


async def test_of_other_agents_nothing_is_seen(api, client, stack, others):
    _, whole = await key_of(client)
    _, bar = await key_of(client, agents=["bar"])
    (call, *_) = (await api("GET", "/v1/pending", headers=whole))["items"]
    missing = {"bar": "c-1", "none": "c-404"}
    for path in ("", "/messages", "/turns", "/turns/t1", "/messages/m-1", "/events"):
        told = [await api("GET", f"/v1/conversations/{name}{path}", 404, headers=bar) for name in missing.values()]
        assert [one["code"] for one in told] == ["conversation_not_found"] * 2
        assert json.dumps(told[0]).replace("c-1", "c-404") == json.dumps(told[1])
    for action in ("messages", "cancel", "end", "retry"):
        body = {"text": "x"} if action == "messages" else {}
        await api("POST", f"/v1/conversations/c-1/{action}", 404, json=body, headers=bar)
    place, decision = f"/v1/pending/{call['suspension_id']}", {"decision": "deny"}
    assert (await api("GET", place, 409, headers=bar))["reason"] == (await api("GET", "/v1/pending/s-404", 409, headers=bar))[
        "reason"
    ]
    await api("GET", f"{place}?conversation_id=c-1", 404, headers=bar)
    await api("POST", f"{place}/resolve", 409, json=decision, headers=bar)
    for named in ({"conversation_id": "c-1"}, {"conversation_id": "c-1", "tool_call_id": call["tool_call_id"]}):
        await api("POST", f"{place}/resolve", 404, json=decision | named, headers=bar)
    refused = await api("POST", "/v1/conversations", 422, json=BODY, headers=bar)
    assert (refused["code"], "bar" in refused["detail"]) == ("agent_not_found", False)
    assert (await api("GET", "/v1/agents", headers=bar))["items"] == []
    assert (await api("POST", "/v1/pause", 403, json={}, headers=bar))["code"] == "not_permitted"
    await api("POST", "/v1/unpause", 403, json={"agent": "desk"}, headers=bar)
    for agent in ("desk", "nobody"):
        body = {"agent": agent, "tool": "refund", "arguments": {}}
        assert (await api("POST", "/v1/rules/check", 403, json=body, headers=bar))["code"] == "not_permitted"
    assert stack.delivered == []
    assert (await api("GET", "/v1/pending", headers=bar))["items"] == []
    assert (await api("GET", "/v1/conversations?agent=desk", headers=bar))["items"] == []
    assert (await api("GET", "/v1/conversations/bar-0", headers=bar))["conversation_id"] == "bar-0"


async def test_of_an_id_that_another_agent_has_a_start_tells_that_it_is_taken_and_nothing_else(api, client, store, stack):
    _, desk = await key_of(client, agents=["desk"])
    told = []
    for name, state in (("bar-1", "rests"), ("bar-2", "has ended"), (conversation_id_from("mail-1"), "rests")):
        writer = stack.writers[name] = await Writer.of(store, name)
        await writer.do(start(agent="bar", message_id="m-1"), begin())
        if state == "has ended":
            await writer.do(end("e-1"))
    for given in ({"conversation_id": "bar-1"}, {"conversation_id": "bar-2"}, {}):
        headers = desk | {"Idempotency-Key": "m-1" if given else "mail-1"}
        told.append(await api("POST", "/v1/conversations", 409, json=BODY | given, headers=headers))
    assert {one["code"] for one in told} == {"conversation_exists"}
    assert [one["conversation_id"] for one in told] == ["bar-1", "bar-2", conversation_id_from("mail-1")]
    assert stack.delivered == [], "nothing of the other agent is woken up"
    await api("POST", "/v1/conversations", 201, json=BODY | {"conversation_id": "c-9"}, headers=desk)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7])
async def test_lists_of_several_agents_come_whole_and_in_pages(api, client, others, limit):
    _, some = await key_of(client, agents=["desk", "bar"])
    seen, after = [], ""
    while after is not None:
        page = await api("GET", f"/v1/conversations?limit={limit}{after and f'&after={after}'}", headers=some)
        seen += [row["conversation_id"] for row in page["items"]]
        assert len(page["items"]) <= limit
        after = page["next"]
    assert seen == ["bar-0", "bar-1", "bar-2", "c-1"]
    assert len((await api("GET", "/v1/pending?kind=approval", headers=some))["items"]) == 1
    for bad in ("x", "cellar~", "~", "1.c-1", "bar~x"):
        await api("GET", f"/v1/conversations?after={bad}", 422, headers=some)


async def test_a_key_for_an_agent_decides_about_it(api, client, waiting):
    _, desk = await key_of(client, agents=["desk"])
    for call in (await api("GET", "/v1/pending", headers=desk))["items"]:
        place = f"/v1/pending/{call['suspension_id']}/resolve"
        await api("POST", place, json={"decision": "deny", "reason": "no"}, headers=desk)


async def test_a_key_whose_name_does_not_show_whole_lets_nobody_in(client, store, caplog):
    caplog.set_level(logging.INFO)
    key, headers = await key_of(client, "read")
    await store.put_api_key(key.model_copy(update={"name": "ana\u202e\u200b"}))  # as whoever writes to Redis may
    refused = await opened(client).http.get("/v1/agents", headers=headers)
    assert (refused.status_code, "does not show whole" in refused.json()["detail"]) == (401, True)
    assert "\u202e" not in caplog.text


def test_a_line_of_the_log_shows_every_character_of_a_name():
    assert Caller(Principal("ana\u202e\u200b", proof=Proof.KEY), frozenset()).name == "key:ana\\u202e\\u200b"


async def test_what_nobody_attends_is_started_with_a_scope_of_its_own(api, client, stack):
    _, starting = await key_of(client, "start")
    _, alone = await key_of(client, "start", "unattended")
    _, other = await key_of(client, "unattended")
    body = {"agent": "desk", "text": "hi", "attended": False}
    refused = await api("POST", "/v1/conversations", 403, json=body, headers=starting)
    assert (refused["code"], refused["scope"]) == ("not_permitted", "unattended")
    assert stack.delivered == []
    assert (await api("POST", "/v1/conversations", 403, json=body, headers=other))["scope"] == "start"
    made = await api("POST", "/v1/conversations", 201, json=body, headers=alone)
    assert stack.delivered[-1].attended is False
    await api("POST", "/v1/conversations", 201, json=body | {"attended": True}, headers=starting)

    place = {"conversation_id": made["conversation_id"], "scopes": ["start", "unattended"]}
    assert (await api("POST", "/v1/page-tokens", 422, json=place, headers=alone))["code"] == "invalid_request"


class Badges:
    """An authenticator of an application's own: a badge in a header, looked up in a table."""

    def __init__(self, people):
        self.people, self.looked = people, []

    def found(self, request):
        badge = request.only("x-badge")
        return None if badge is None else Credential("badge", badge, lambda: self.verified(badge), self.is_good)

    async def verified(self, badge):
        self.looked.append(badge)
        if badge not in self.people:
            raise InvalidToken("nobody has that badge")
        return Caller(Principal(self.people[badge], proof=Proof.PROXY), frozenset({AccessScope.READ})), 60.0

    async def is_good(self):
        return False


async def test_an_application_says_in_a_way_of_its_own_who_calls(client, waiting):
    badges = Badges({"b-7": "ana"})
    api = opened(client, authenticators=[badges])
    async with api.http:
        assert (await api.http.get("/v1/pending", headers={"X-Badge": "b-7"})).status_code == 200
        assert (await api.http.get("/v1/pending", headers={"X-Badge": "b-7"})).status_code == 200
        assert badges.looked == ["b-7"], "what was verified a moment ago is taken as it is"
        unknown = await api.http.get("/v1/pending", headers={"X-Badge": "b-8"})
        assert (unknown.status_code, unknown.json()["detail"]) == (401, "the credential is not accepted: nobody has that badge")
        twice = await api.http.get("/v1/pending", headers=[("X-Badge", "b-7"), ("X-Badge", "b-8")])
        assert twice.status_code == 401
        _, key = await key_of(client, "start")
        assert (await api.http.get("/v1/pending", headers=key | {"X-Badge": "b-7"})).status_code == 403, (
            "its own ways come last"
        )


async def test_guesses_in_a_way_of_ones_own_are_bounded_as_all_are(client, waiting):
    badges = Badges({})
    api = opened(client, authenticators=[badges], bounds=Bounds(failures_per_s=0.001, failures_burst=3))
    async with api.http:
        said = [(await api.http.get("/v1/pending", headers={"X-Badge": f"b-{number}"})).status_code for number in range(6)]
    assert said == [401, 401, 401, 429, 429, 429]
    assert len(badges.looked) == 3
