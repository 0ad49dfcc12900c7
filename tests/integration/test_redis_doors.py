"""Whether a real Redis lets in somebody who has no password, and what `holdfast doctor` says of it without telling secrets."""

import asyncio
import json
import socket

import pytest
import redis
from lacking import lacking

from holdfast.cli import app
from holdfast.cli.redis_doors import answers_strangers
from holdfast.testing.redis_server import RedisServer, binaries

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
