"""Sessions of browsers: tickets in the store, which every server of a namespace reads, and which end everywhere."""

import ipaddress
import time
from dataclasses import replace

import httpx
import pytest

from holdfast.client import AsyncClient
from holdfast.client.access import TicketKind
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Principal, Proof
from holdfast.errors import StoreUnavailable
from holdfast.persistence import AccessScope
from holdfast.server import Authentication, Bounds, Proxy, authenticators, callers, create_app, sign_in_link
from holdfast.server.arrived import Arrived
from holdfast.server.caller import LOCAL, Caller
from holdfast.server.refusal import Refusal
from holdfast.server.tickets import ISSUED, digest_of

from .conftest import HERE, Api

SAME = {"Sec-Fetch-Site": "same-origin"}
ANA = Caller(Principal("ana", proof=Proof.KEY), frozenset({AccessScope.READ}))


class Browser(Api):
    """A server of the namespace, and a browser before it that has perhaps a cookie."""

    def __init__(self, stack, cookie=None, *, peer="10.0.0.9", **options):
        super().__init__(create_app(AsyncClient(StackGateway(stack, timeout_s=30)), **options))
        self.serving = self.app.state.serving
        self.now = 100.0
        self.serving.callers._clock = lambda: self.now
        transport = httpx.ASGITransport(self.app, client=(peer, 7))
        self.http = httpx.AsyncClient(transport=transport, base_url=HERE)
        if cookie is not None:
            self.brings(cookie)

    def brings(self, cookie):
        self.http.headers["Cookie"] = f"holdfast-8484={cookie}"

    async def status(self, path="/v1/agents", **options):
        return (await self.http.get(path, **options)).status_code


@pytest.fixture
def server(stack):
    return Browser(stack)


async def key_and_session(server, **options):
    key, text = await server.serving.client.access.create_key("ana", ["read"], **options)
    caller = await server.serving.callers.of_key({"client": ("10.0.0.9", 7), "headers": []}, text)
    return key, await server.serving.tickets.opened(caller)


async def test_a_session_counts_on_every_server_of_the_namespace_and_after_the_end_of_the_one_that_opened_it(stack, server):
    link = sign_in_link(server.app, HERE)
    cookie = (await server.http.post(link)).cookies["holdfast-8484"]
    assert await Browser(stack, cookie).status() == 200


async def test_a_session_that_was_signed_out_ends_here_at_once_and_elsewhere_within_seconds(stack, server):
    cookie = await server.serving.tickets.opened(LOCAL)
    server.brings(cookie)
    other = Browser(stack, cookie)
    assert [await server.status(), await other.status()] == [200, 200]
    await server.serving.callers.sign_out(cookie)
    assert await server.status() == 401
    other.now += callers.FRESH_S
    assert await other.status() == 401


async def test_a_session_ends_with_the_key_that_opened_it(stack, server, monkeypatch):
    key, cookie = await key_and_session(server)
    _, short = await key_and_session(server, expires_s=60)
    one, two = Browser(stack, cookie), Browser(stack, short)
    assert [await one.status(), await two.status()] == [200, 200]
    await server.serving.client.access.revoke_key(key.key_id)
    monkeypatch.setattr(time, "time", lambda at=time.time: at() + 61)
    for browser in (one, two):
        browser.now += callers.FRESH_S
        assert await browser.status() == 401


async def test_a_session_may_do_what_its_caller_might_and_says_how_that_one_was_proven(stack, server):
    caller = replace(ANA, agents=frozenset({"bar"}))
    browser = Browser(stack, await server.serving.tickets.opened(caller))
    assert (await browser("GET", "/v1/agents"))["items"] == []
    await browser("POST", "/v1/pause", 403, json={}, headers=SAME)
    scope = {"headers": [(b"cookie", browser.http.headers["Cookie"].encode())], "client": ("10.0.0.9", 7)}
    scope["state"] = {"arrived": Arrived("http", "127.0.0.1:8484", ambient=True)}
    found = await browser.serving.callers.of(scope)
    assert (found.principal, found.scopes, found.agents) == (caller.principal, caller.scopes, caller.agents)


async def test_a_session_ends_with_the_token_of_its_caller_and_after_half_a_day_at_the_latest(store, server):
    now = await store.now()
    for ends_at, holds_s in ((now + 60_000, 60), (now + 10**9, 12 * 3600), (None, 12 * 3600)):
        cookie = await server.serving.tickets.opened(replace(ANA, ends_at=ends_at))
        ticket = await store.ticket(digest_of(cookie))
        assert abs(ticket.expires_at - now - holds_s * 1000) < 5000
        assert ticket.kind is TicketKind.SESSION


async def test_the_store_has_the_digest_of_a_session_alone_and_each_one_is_fresh(store, server):
    first, second = [await server.serving.tickets.opened(LOCAL) for _ in range(2)]
    assert first != second
    assert first not in repr(vars(store))
    assert first not in repr(vars(server.serving.callers))


async def test_a_ticket_of_another_kind_is_no_session(stack, server):
    page, _ = await server.serving.tickets.issue(TicketKind.PAGE, replace(ANA, conversation_id="c-1"), 60)
    session = await server.serving.tickets.opened(ANA)
    assert await Browser(stack, page).status() == 401
    assert await server.status(headers={"Authorization": f"Bearer hfp_{session}"}) == 401
    assert await server.status(headers={"Authorization": f"Bearer {session}"}) == 401


async def test_a_ticket_of_another_kind_is_no_way_back_from_a_provider_and_stands(stack, server):
    session = await server.serving.tickets.opened(ANA)
    assert await server.serving.tickets.used_up(session) is None
    assert await Browser(stack, session).status() == 200


@pytest.mark.parametrize("cookie", ["", "x", "0" * 63, "0" * 65, "G" * 64, "0" * 64 + "\\n"])
async def test_what_is_no_session_is_not_looked_up(stack, store, monkeypatch, cookie):
    async def unasked(_):
        raise AssertionError("the store was asked")

    monkeypatch.setattr(store, "ticket", unasked)
    assert await Browser(stack, cookie).status() == 401


async def test_a_session_that_has_ended_costs_one_look_and_one_failure_however_often_a_browser_sends_it(
    stack, store, monkeypatch
):
    looked, look = [], store.ticket

    async def counted(digest):
        looked.append(digest)
        return await look(digest)

    monkeypatch.setattr(store, "ticket", counted)
    browser = Browser(stack, "0" * 64, bounds=Bounds(failures_burst=2, failures_per_s=0.001))
    assert {await browser.status() for _ in range(10)} == {401}
    assert len(looked) == 1


async def test_guesses_of_an_address_keep_no_session_out_and_are_looked_at_in_part(stack, store, server, monkeypatch):
    looked, look = [], store.ticket

    async def counted(digest):
        looked.append(digest)
        return await look(digest)

    monkeypatch.setattr(store, "ticket", counted)
    browser = Browser(stack, bounds=Bounds(failures_burst=1, failures_per_s=0.001))
    browser.serving.callers._cookies._pages._looks._clock = lambda: 0.0
    cookie = await server.serving.tickets.opened(LOCAL)
    guesses = [f"holdfast-8484={number:064x}" for number in range(60)]
    assert await browser.status(headers={"Cookie": guesses[0]}) == 401
    assert {await browser.status(headers={"Cookie": guess}) for guess in guesses[1:]} == {429}
    assert len(looked) == 1 + authenticators.TICKET_LOOKS_PER_S
    browser.serving.callers._cookies._pages._looks = callers.Rates(1, 1)
    assert await browser.status(headers={"Cookie": f"holdfast-8484={cookie}"}) == 200
    assert await browser.status(headers={"Cookie": f"holdfast-8484={cookie}"}) == 200, "it is known by now"


async def test_a_session_that_has_ended_does_not_keep_out_whom_a_proxy_names(stack):
    proxy = Proxy(peers=(ipaddress.ip_network("10.0.0.9/32"),), user_header="X-User")
    browser = Browser(stack, "0" * 64, authentication=Authentication(proxy=proxy))
    assert await browser.status(headers={"X-User": "ana"}) == 200


async def test_a_store_that_does_not_answer_is_no_end_of_a_session(stack, store, server, monkeypatch):
    browser = Browser(stack, await server.serving.tickets.opened(LOCAL))

    async def gone(_):
        raise StoreUnavailable("it is gone")

    with monkeypatch.context() as patched:
        patched.setattr(store, "ticket", gone)
        assert await browser.status() == 503
    assert await browser.status() == 200


async def test_a_link_whose_session_could_not_be_stored_may_be_used_again(store, server, monkeypatch):
    link = sign_in_link(server.app, HERE)

    async def gone(_):
        raise StoreUnavailable("it is gone")

    with monkeypatch.context() as patched:
        patched.setattr(store, "put_ticket", gone)
        assert (await server.http.post(link)).status_code == 503
    assert (await server.http.post(link)).status_code == 303


async def test_nobody_opens_more_sessions_than_may_be(server):
    for _ in range(ISSUED[TicketKind.SESSION][1]):
        await server.serving.tickets.opened(ANA)
    with pytest.raises(Refusal, match="too many"):
        await server.serving.tickets.opened(ANA)
    await server.serving.tickets.opened(LOCAL)
