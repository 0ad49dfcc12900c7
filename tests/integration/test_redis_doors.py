"""Whether a real Redis lets in somebody who has no password, and what `holdfast doctor` says of it without telling secrets."""

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
import redis
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.cli import app, redis_doors
from holdfast.cli.check import Outcome
from holdfast.cli.redis_checks import redis_checks
from holdfast.cli.redis_doors import answers_strangers, door_checks

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that it listens there is what is to be found
PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives as long as this test


@pytest.fixture
def server():
    """Starts a server that listens on a port of this machine too; its URL there."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    running = []

    def start(**settings):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = RedisServer(port=str(port), appendonly="yes", appendfsync="always", **settings)
        server.start()
        running.append(server)
        return port

    yield start
    for one in running:
        one.close()


async def doctor(capsys, tmp_path, url):
    code = await asyncio.to_thread(app.run, ["doctor", "--redis-url", url, "--home", str(tmp_path / "home"), "--json"])
    said = capsys.readouterr()
    return code, said.out + said.err, {check["name"]: check for check in json.loads(said.out)["checks"]}


async def test_a_redis_that_asks_for_no_password_is_found_open_even_by_who_gives_one(server, capsys, tmp_path):
    port = server()
    # the default user takes any password that comes with its name, when it needs none
    for url in (f"redis://127.0.0.1:{port}/0", f"redis://default:{PASSWORD}@127.0.0.1:{port}/0"):
        assert await answers_strangers(url) is True

    code, _, checks = await doctor(capsys, tmp_path, f"redis://127.0.0.1:{port}/0")

    assert (code, checks["redis auth"]["status"]) == (0, "warn")
    assert "asks for no password" in checks["redis auth"]["said"]


async def test_a_redis_that_asks_for_a_password_lets_no_stranger_in_and_the_password_is_not_told(server, capsys, tmp_path):
    port = server(requirepass=PASSWORD)
    url = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    assert await answers_strangers(url) is False

    code, said, checks = await doctor(capsys, tmp_path, url)

    assert (code, checks["redis auth"]["status"], checks["redis tls"]["status"]) == (0, "ok", "ok")
    assert PASSWORD not in said
    assert {"redis", "redis version", "redis memory", "redis disk", "clock"} <= checks.keys()
    code, said, checks = await doctor(capsys, tmp_path, url.replace(PASSWORD, "another-word"))
    assert (code, checks["redis"]["status"], "another-word" in said) == (4, "fail", False)


async def test_a_stranger_who_may_read_nothing_gets_in_nowhere(server):
    port = server()
    with redis.Redis(port=port) as raw:
        raw.acl_setuser("default", enabled=True, nopass=True, categories=["-@all"])
    assert await answers_strangers(f"redis://127.0.0.1:{port}/0") is False


async def test_a_stranger_who_may_read_only_this_namespace_is_let_in(server):
    port = server()
    with redis.Redis(port=port) as raw:
        raw.execute_command("ACL", "SETUSER", "default", "on", "nopass", "resetkeys", "~{shop:*", "+@all")
    assert await answers_strangers(f"redis://127.0.0.1:{port}/0", "shop") is True
    assert await answers_strangers(f"redis://127.0.0.1:{port}/0", "other") is False


async def test_a_stranger_who_is_told_that_a_key_is_of_another_type_was_let_in(server):
    port = server()
    with redis.Redis(port=port) as raw:
        raw.hset("holdfast:store-id", "a", "b")
    assert await answers_strangers(f"redis://127.0.0.1:{port}/0") is True


@pytest.fixture
def behind_tls(tmp_path):
    """Starts a server with a certificate that nobody signed; its port, and the path of the certificate and of its key."""
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", "1", "-keyout", str(key), "-out", str(pem)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run(command, check=True, capture_output=True)

    opened = []

    def start(**settings):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem))
        context.load_cert_chain(pem, key)
        for name, value in settings.items():
            setattr(context, name, value)
        listening = socket.create_server(("127.0.0.1", 0))
        opened.append(listening)

        def serve():  # asyncio would let go of who has no certificate without the alert that says so
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with contextlib.suppress(OSError), connection.dup() as under:
                        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                            while secure.recv(4096):
                                secure.sendall(b"-ERR nothing that you would understand\r\n")
                        under.shutdown(socket.SHUT_WR)
                        while under.recv(4096):  # closing before all is read would be a reset, which may overtake the alert
                            pass

        threading.Thread(target=serve, daemon=True).start()
        return f"rediss://127.0.0.1:{listening.getsockname()[1]}/0?ssl_cert_reqs=none&ssl_check_hostname=no"

    yield start, f"&ssl_certfile={pem}&ssl_keyfile={key}"
    for listening in opened:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
async def test_only_a_server_that_asks_for_a_certificate_is_closed_for_want_of_one(behind_tls, newest):
    start, mine = behind_tls
    assert await answers_strangers(start(verify_mode=ssl.CERT_REQUIRED, maximum_version=newest) + mine) is False
    assert await answers_strangers(start(maximum_version=newest) + mine) is None
    assert await answers_strangers(f"rediss://127.0.0.1:1/0?{mine[1:]}") is None


@pytest.fixture
def private():
    """A folder that only this user gets to."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hf-") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        ({}, Outcome.OK, "nowhere else"),
        ({"bind": "127.0.0.1"}, Outcome.WARN, "everybody on this machine"),
        ({"bind": EVERYWHERE, "protected_mode": "yes"}, Outcome.WARN, "everybody on this machine"),
        ({"bind": EVERYWHERE, "protected_mode": "no"}, Outcome.FAIL, "whoever reaches it"),
        ({"bind": EVERYWHERE, "requirepass": PASSWORD}, Outcome.OK, "nobody in without credentials"),
    ],
)
async def test_a_private_socket_is_all_that_leads_there_or_the_ports_are_tried_too(private, settings, status, said):
    if not binaries():
        lacking("there is no Redis server on this machine")
    if status is Outcome.FAIL and redis_doors._outer_address() is None:
        pytest.skip("this machine has no address that others reach")
    if settings:
        with socket.create_server(("127.0.0.1", 0)) as free:
            settings = settings | {"port": str(free.getsockname()[1])}
    with RedisServer(directory=private, unixsocketperm="777", **settings) as one:
        url = f"{one.url}?password={PASSWORD}" if "requirepass" in settings else one.url
        found = {check.name: check for check in [*await door_checks(url), *await redis_checks(url, "holdfast")]}

    assert (found["redis auth"].status, said in found["redis auth"].said) == (status, True), found["redis auth"]
    assert ("only this user reaches it" in found["redis version"].said) <= (not settings)


async def test_a_server_that_tells_nothing_of_its_ports_is_not_said_to_be_closed(private):
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(directory=private) as one, redis.Redis(unix_socket_path=str(one.socket)) as raw:
        raw.execute_command("ACL", "SETUSER", "me", "on", f">{PASSWORD}", "~*", "+@all", "-info")
        auth, tls = await door_checks(f"{one.url}?username=me&password={PASSWORD}")

    assert (auth.status, "does not tell" in auth.said, tls.status) == (Outcome.WARN, True, Outcome.OK)
