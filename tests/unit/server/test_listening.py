"""The socket of the server: loopback alone."""

import socket

import pytest

from holdfast.client import ConfigurationError
from holdfast.server.listening import loopback, open_socket


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1"), ("127.8.8.8", "127.8.8.8")],
)
def test_loopback_is_served(host, address):
    assert loopback(host) == address


@pytest.mark.parametrize("host", ["0", "::", "10.0.0.1", "example.com", "", "127.0.0.1.evil.example", "::ffff:10.0.0.1"])
def test_another_address_is_refused_with_the_reason(host):
    with pytest.raises(ConfigurationError) as refused:
        open_socket(host, 0)
    assert refused.value.field == "host"
    assert "does not ask who calls" in refused.value.problem


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
