"""The socket of the server, the names under which it is reached, and who must be authenticated where."""

import socket

import pytest

from holdfast.client import ConfigurationError
from holdfast.persistence import AccessScope, ApiKey
from holdfast.server import Authentication, Proxy
from holdfast.server.listening import address_of, check_reachable, is_loopback, names_of, open_socket

EVERYWHERE = "0.0.0.0"  # noqa: S104 - no socket is bound to it
NOBODY, ANYONE = Authentication(), Authentication(anyone=True)
BY_PROXY = Authentication(proxy=Proxy(user_header="X-User"))


def key(expires_at=None):
    return ApiKey(key_id="k", name="ana", digest="", scopes=(AccessScope.READ,), created_at=1, expires_at=expires_at)


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1"), ("127.8.8.8", "127.8.8.8")],
)
def test_loopback_is_served_with_and_without_authentication(host, address):
    assert address_of(host) == address
    assert is_loopback(host)
    for authentication in (NOBODY, ANYONE, BY_PROXY):
        check_reachable(host, authentication, [], 5)


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1"])
def test_beyond_loopback_somebody_must_be_able_to_say_who_calls(host):
    for authentication, keys in ((NOBODY, []), (NOBODY, [key(5), key(4)]), (ANYONE, [key()])):
        with pytest.raises(ConfigurationError):
            check_reachable(host, authentication, keys, 5)
    for authentication, keys in ((NOBODY, [key(5), key(6)]), (NOBODY, [key()]), (BY_PROXY, [])):
        check_reachable(host, authentication, keys, 5)


@pytest.mark.parametrize("host", ["0", "example.com", "", "127.0.0.1.evil.example", "127.0.0.1:80"])
def test_what_is_no_address_is_refused(host):
    with pytest.raises(ConfigurationError) as refused:
        open_socket(host, 0)
    assert refused.value.field == "host"


def test_a_server_has_its_public_names_its_address_and_those_of_loopback():
    assert names_of("127.0.0.1", []) == ("127.0.0.1", "localhost", "[::1]")
    assert names_of("10.0.0.1", ["Desk.Example"])[:2] == ("desk.example", "10.0.0.1")
    assert "[fd00::1]" in names_of("fd00::1", [])
    assert EVERYWHERE not in names_of(EVERYWHERE, ["desk.example"])
    assert names_of(EVERYWHERE, []) == names_of("127.0.0.1", [])
    for public in ("*", "http://desk.example", "desk.example:80", ""):
        with pytest.raises(ConfigurationError) as refused:
            names_of("127.0.0.1", [public])
        assert refused.value.field == "public_host"


@pytest.mark.parametrize("port", [-1, 65536])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(ConfigurationError, match="is no port"):
        open_socket("127.0.0.1", port)


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigurationError) as refused:
        open_socket("127.0.0.1", taken.getsockname()[1])
    assert refused.value.field == "port"


def test_small_answers_are_not_held_back_until_the_peer_has_acknowledged():
    """asyncio sets TCP_NODELAY only on sockets that say that they are TCP; without it an answer takes 40 ms."""
    with open_socket("127.0.0.1", 0) as opened:
        assert opened.proto == socket.IPPROTO_TCP
