"""Callers over real connections: an identity provider that is asked for its keys, and rotates them; keys; a proxy's peers."""

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from identity_provider import identity_provider

from holdfast.persistence import AccessScope
from holdfast.server import Authentication, Proxy, discovery

from .conftest import served


@pytest.fixture
def provider():
    with identity_provider() as running:
        yield running


def configured(provider, **more):
    given = {"HOLDFAST_OIDC_ISSUER": provider.url, "HOLDFAST_OIDC_AUDIENCE": "holdfast"}
    return Authentication.of(given | more)


def asked(server, token, path="/v1/pending"):
    return httpx.get(f"{server.url}{path}", headers={"Authorization": f"Bearer {token}"}).status_code


def test_tokens_are_verified_with_the_providers_keys_which_it_may_rotate(provider, monkeypatch):
    with served(authentication=configured(provider)) as server:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: asked(server, provider.token()), range(16))) == {200}
        assert provider.asked == 1
        older = provider.token()
        provider.rotate()
        assert asked(server, provider.token()) == 401, "the keys were fetched a moment ago"
        monkeypatch.setattr(discovery, "AGAIN_S", 0)
        assert asked(server, provider.token(sub="bob")) == 200
        assert asked(server, older) == 401
        assert asked(server, provider.token(aud="shop")) == 401


def test_a_provider_that_does_not_answer_lets_nobody_in_and_holders_of_keys_still_come_in(provider):
    token, authentication = provider.token(), configured(provider)
    provider.shutdown()
    provider.server_close()
    with served(authentication=authentication) as server:
        found = httpx.get(f"{server.url}/v1/pending", headers={"Authorization": f"Bearer {token}"})
        assert (found.status_code, found.json()["code"]) == (503, "identity_provider_unavailable")
        assert int(found.headers["retry-after"]) > 0
        _, text = server.run(server.client.access.create_key("ana", [AccessScope.READ]))
        assert asked(server, text) == 200


def test_the_peer_of_a_connection_says_whether_its_headers_count():
    for network, status in (("127.0.0.0/8", 200), ("10.0.0.0/8", 401)):
        proxy = Proxy(peers=(ipaddress.ip_network(network),), user_header="X-User")
        with served(authentication=Authentication(proxy=proxy)) as server:
            found = httpx.get(f"{server.url}/v1/pending", headers={"X-User": "ana", "X-Forwarded-For": "127.0.0.1"})
            assert found.status_code == status


def test_a_body_of_nobody_known_is_not_waited_for():
    head = b"POST /v1/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    nobody = served(authentication=Authentication(), body_s=60)
    with nobody as server, socket.create_connection(("127.0.0.1", server.port), timeout=20) as opened:
        opened.sendall(head)
        assert opened.recv(1 << 16).split()[1] == b"401"
