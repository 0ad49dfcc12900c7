"""A stack that cannot be used: settings, Redis, Ray, app or home. A typed error that names the field and the fix."""

import asyncio
import os
import shutil
import signal
import socket
from pathlib import Path

import pytest
import redis
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.client import (
    AppNotFound,
    AsyncClient,
    Client,
    ClusterUnavailable,
    ConfigurationError,
    HoldfastError,
    InvalidInput,
    StoreUnavailable,
    WrongStore,
)
from holdfast.errors import HomeUnusable, UnsupportedServer

SETTINGS = (
    "APP",
    "REDIS_URL",
    "RAY_ADDRESS",
    "NAMESPACE",
    "HOME",
    "EMBEDDED",
    "LEASE_S",
    "LINGER_S",
    "TICK_S",
    "STANDBY",
    "WORKERS",
)
NOWHERE = "unix:///tmp/nobody-listens-here.sock"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    """No setting of the machine's, and a home that is not there."""
    for name in SETTINGS:
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))


@pytest.fixture
def server():
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture
def raw(server):
    with redis.Redis(unix_socket_path=str(server.socket)) as opened:
        yield opened


async def reads(client):
    """The error of each way to read."""
    conversation = client.conversation("c-1")
    ways = [
        client.pending(),
        client.conversations(),
        conversation.pending(),
        conversation.state(),
        conversation.wait(),
        conversation.messages(),
        anext(conversation.events()),
        anext(conversation.events(live=False)),
    ]
    return await asyncio.gather(*ways, return_exceptions=True)


async def commands(client):
    """The error of each command."""
    conversation = client.conversation("c-1")
    return await asyncio.gather(conversation.send("x"), conversation.cancel(), conversation.end(), return_exceptions=True)


def all_are(errors, kind, *words):
    assert errors
    for error in errors:
        assert isinstance(error, kind), repr(error)
        for word in words:
            assert word in str(error)


def refusal(use):
    """The error that names a field, a problem and a fix."""
    with pytest.raises(InvalidInput) as caught:
        use()
    assert str(caught.value) == f"{caught.value.field}: {caught.value.problem}; {caught.value.fix}"
    assert caught.value.fix
    return caught.value


# -- settings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAMESPACE", "Upper Case"),
        ("NAMESPACE", "x" * 64),
        ("EMBEDDED", "perhaps"),
        ("LEASE_S", "ten"),
        ("LEASE_S", "0"),
        ("LINGER_S", "-1"),
        ("LINGER_S", "inf"),
        ("TICK_S", "nan"),
        ("TICK_S", "1e-9"),
        ("STANDBY", "several"),
        ("STANDBY", "1.5"),
        ("STANDBY", "-1"),
        ("STANDBY", "65"),
        ("WORKERS", "0"),
        ("WORKERS", ""),
        ("RAY_ADDRESS", "ray://10.0.0.1:10001"),
    ],
)
def test_a_variable_of_the_wrong_type_or_range_is_refused_by_name(monkeypatch, name, value):
    monkeypatch.setenv("HOLDFAST_REDIS_URL", NOWHERE)
    monkeypatch.setenv(f"HOLDFAST_{name}", value)

    if not value:
        assert AsyncClient.connect()  # empty counts as not set
        return
    for connect in (AsyncClient.connect, Client.connect):
        error = refusal(connect)
        assert isinstance(error, ConfigurationError)
        assert error.field == name.lower()
        assert f"HOLDFAST_{name}" in error.fix or name in ("NAMESPACE", "RAY_ADDRESS")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"redis_url": 7}, "redis_url"),
        ({"ray_address": 7, "redis_url": NOWHERE}, "ray_address"),
        ({"namespace": 7}, "namespace"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "a/b"}, "namespace"),
        ({"embedded": "perhaps"}, "embedded"),
        ({"home": 7}, "home"),
        ({"app": 7}, "app"),
        ({"app": ...}, "app"),
        *(({"timeout_s": value}, "timeout_s") for value in ("30", 0, -1, True, None, float("nan"), float("inf"), [30])),
    ],
    ids=ascii,
)
def test_an_argument_of_the_wrong_type_is_refused_by_name(given, field):
    for connect in (AsyncClient.connect, Client.connect):
        assert refusal(lambda connect=connect: connect(**given)).field == field


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ({"ray_address": "10.0.0.1:6379"}, "redis_url", "a Ray address is given without a Redis URL"),
        ({"ray_address": "auto"}, "redis_url", "a Ray address is given without a Redis URL"),
        ({"ray_address": "ray://10.0.0.1:10001", "redis_url": NOWHERE}, "ray_address", "ray:// is the Ray Client protocol"),
        ({"embedded": False}, "redis_url", "embedded=False"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_are_refused_at_once(tmp_path, given, field, problem):
    error = refusal(lambda: AsyncClient.connect(**given))

    assert (error.field, problem in error.problem) == (field, True)
    assert not (tmp_path / "home").exists()


async def test_without_a_ray_address_what_is_not_embedded_can_read_but_commands_nothing(server, tmp_path):
    async with AsyncClient.connect(redis_url=server.url, embedded=False) as client:
        assert (await client.pending()).items == []
        all_are(await commands(client), ConfigurationError, "ray_address", "embedded=False", "HOLDFAST_RAY_ADDRESS")

    assert not (tmp_path / "home").exists()


# -- the app ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("no_such_package.module:app", "there is no module 'no_such_package'"),
        ("bad_app:nothing", "module 'bad_app' has no attribute 'nothing'; use 'bad_app:app'"),
        ("bad_app:number", "'bad_app:number' is int, not an App; use 'bad_app:app'"),
        ("bad_app.py:app", "is a file, not an import path; write 'bad_app:app'"),
        ("bad app", "is no import path"),
        ("", "is no import path"),
        ("broken_app:app", "module 'broken_app' does not import (ZeroDivisionError: division by zero)"),
    ],
)
async def test_an_app_path_that_leads_to_no_app_is_refused_and_nothing_is_started(monkeypatch, tmp_path, path, problem):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bad_app.py").write_text(
        "from holdfast.agent import Agent, App\nnumber = 7\napp = App(agents=[Agent(name='a')])\n"
    )
    (tmp_path / "broken_app.py").write_text("1 / 0\n")

    async with AsyncClient.connect(path) as client:
        with pytest.raises(AppNotFound) as refused:
            await client.start("a", "hello")

    assert refused.value.field == "app"
    assert problem in str(refused.value)
    assert not (tmp_path / "home").exists()


async def test_a_start_without_an_app_says_where_to_name_one(tmp_path):
    async with AsyncClient.connect() as client:
        with pytest.raises(ConfigurationError, match=r"app: start needs an app.*HOLDFAST_APP"):
            await client.start("a", "hello")

    assert not (tmp_path / "home").exists()


# -- Redis --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [NOWHERE, "redis://127.0.0.1:1/0"])
async def test_a_redis_that_is_away_at_the_start_is_unavailable(url):
    async with AsyncClient.connect(redis_url=url, ray_address="127.0.0.1:1", timeout_s=20) as client:
        with pytest.raises(StoreUnavailable):
            await client.pending()
        with pytest.raises(StoreUnavailable):
            await client.conversation("c-1").cancel()


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost", "redis://localhost:port", "redis://localhost?db=x"])
async def test_a_redis_url_that_is_none_is_refused(url):
    async with AsyncClient.connect(redis_url=url) as client:
        all_are(await reads(client), ConfigurationError, "redis_url", "use redis://host:port/0")


async def test_a_redis_that_goes_away_in_the_middle_is_unavailable_until_it_is_back(server):
    async with AsyncClient.connect(redis_url=server.url) as client:
        assert (await client.pending()).items == []
        server.kill()
        all_are(await reads(client), StoreUnavailable)
        server.start()
        assert (await client.pending()).items == []


async def test_a_redis_that_hangs_is_unavailable_at_the_calls_deadline(server):
    async with AsyncClient.connect(redis_url=server.url, timeout_s=0.5) as client:
        assert (await client.pending()).items == []
        os.kill(server._process.pid, signal.SIGSTOP)
        try:
            all_are(await reads(client), StoreUnavailable, "no answer within 0.5 s")
            async with AsyncClient.connect(redis_url=server.url, timeout_s=0.5) as newcomer:
                all_are(await reads(newcomer), StoreUnavailable, "no answer within 0.5 s")
        finally:
            os.kill(server._process.pid, signal.SIGCONT)
    async with AsyncClient.connect(redis_url=server.url) as client:
        assert (await client.pending()).items == []


async def test_a_redis_that_is_full_or_read_only_before_it_is_a_store_says_so(server, raw):
    raw.config_set("maxmemory", 1)
    async with AsyncClient.connect(redis_url=server.url) as client:
        all_are(await reads(client), StoreUnavailable, "Redis is full: raise maxmemory")
    raw.config_set("maxmemory", 0)
    raw.replicaof("127.0.0.1", "1")
    async with AsyncClient.connect(redis_url=server.url) as client:
        all_are(await reads(client), StoreUnavailable, "read-only replica: connect to the primary")
        assert raw.dbsize() == 0
        raw.replicaof("NO", "ONE")
        assert (await client.pending()).items == []


async def test_a_redis_that_is_too_old_is_refused_and_nothing_is_written(tmp_path):
    """A server that says 5.0, and takes down what it is asked."""
    asked = []

    async def serve(reader, writer):
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2].decode())
            asked.append(words[0].upper())
            info = b"# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n"
            answers = {"INFO": b"$%d\r\n%s\r\n" % (len(info), info), "GET": b"$-1\r\n", "HGETALL": b"*0\r\n"}
            writer.write(answers.get(words[0].upper(), b"+OK\r\n"))
        writer.close()

    path = f"/tmp/hf-old-{os.getpid()}.sock"
    listening = await asyncio.start_unix_server(serve, path)
    async with listening, AsyncClient.connect(redis_url=f"unix://{path}") as client:
        all_are(await reads(client), UnsupportedServer, "redis_url", "5.0.14", "use Redis 6.2 or later, or Valkey")
    Path(path).unlink()  # noqa: ASYNC240 - a socket
    assert set(asked) <= {"CLIENT", "SELECT", "INFO", "GET", "HGETALL"}


async def test_another_store_than_before_at_the_same_address_is_refused(server, raw):
    other = server.directory.with_name(server.directory.name + "-other")
    async with AsyncClient.connect(redis_url=server.url) as client:
        assert (await client.pending()).items == []
        server.kill()
        shutil.move(server.directory, other)
        server.directory.mkdir()
        server.start()  # on nothing
        for _ in range(2):
            all_are(await reads(client), WrongStore, "point HOLDFAST_REDIS_URL to the store that holds the conversations")
        assert raw.dbsize() == 0
        server.kill()
        shutil.rmtree(server.directory)
        shutil.move(other, server.directory)
        server.start()
        assert (await client.pending()).items == []


# -- Ray ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["nonsense", "10.0.0.1", "localhost:", ":6379", "localhost:0", "localhost:99999", "h:²"])
async def test_a_ray_address_that_is_none_is_refused(server, address):
    async with AsyncClient.connect(redis_url=server.url, ray_address=address) as client:
        all_are(await commands(client), ConfigurationError, "ray_address", "use host:port, or 'auto'")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:6379", "a..b:6379"])
async def test_a_ray_address_that_does_not_answer_is_unavailable(server, address):
    async with AsyncClient.connect(redis_url=server.url, ray_address=address) as client:
        all_are(await commands(client), ClusterUnavailable, f"nothing answers at {address}")
        assert (await client.pending()).items == []  # reading needs none


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_what_listens_at_a_ray_address_and_is_no_ray_is_refused_soon(server, says):
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        address = "{}:{}".format(*listening.sockets[0].getsockname())
        async with AsyncClient.connect(redis_url=server.url, ray_address=address) as client:
            all_are(await commands(client), ClusterUnavailable, address, "Ray")


async def test_what_listens_at_a_ray_address_and_never_answers_is_refused(server, monkeypatch):
    monkeypatch.setattr("holdfast.registry.cluster.CONNECT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        async with AsyncClient.connect(redis_url=server.url, ray_address=address) as client:
            all_are(await commands(client), ClusterUnavailable, f"the server at {address} does not answer as Ray does")


# -- the home -----------------------------------------------------------------------------------------------------------


async def test_a_home_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "home", "/proc/home", tmp_path / ("x" * 300)):
        async with AsyncClient.connect(home=home) as client:
            all_are(await reads(client), HomeUnusable, str(home), "HOLDFAST_HOME")
            all_are(await commands(client), HomeUnusable, str(home), "HOLDFAST_HOME")


def test_the_blocking_client_raises_the_same_errors(server):
    with Client.connect(redis_url=NOWHERE) as client, pytest.raises(StoreUnavailable):
        client.pending()
    with Client.connect(redis_url=server.url, ray_address="nonsense") as client:
        with pytest.raises(ConfigurationError, match="ray_address"):
            client.conversation("c-1").cancel()
        with pytest.raises(HoldfastError):
            next(client.conversation("c-1").events())
