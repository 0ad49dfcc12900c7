"""`holdfast doctor` on keys of Redis that hold what Holdfast never wrote: each is named, and hides nothing else."""

import asyncio
import json

import pytest
import redis
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.cli import app, doctor
from holdfast.cli.operated import store_standing
from holdfast.errors import CorruptStore, WrongStore
from holdfast.persistence import RedisStore
from holdfast.persistence.keys import STORE_ID, Keys

KEYS = Keys("holdfast")
LAYOUT, CLUSTER, RELEASE = KEYS.meta("layout"), KEYS.meta("cluster"), KEYS.meta("release")
OTHERS = {
    "redis version",
    "persistence",
    "eviction",
    "redis memory",
    "clock",
    "redis auth",
    "redis tls",
    "stored",
    "ray",
    "app",
}


@pytest.fixture
async def raw():
    """A server with an empty store, as somebody gets at it who is no Holdfast; its URL is `raw.url`."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        store = RedisStore(server.url)
        await store.open()
        await store.close()
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.url = server.url
            yield client


async def examined(capsys, tmp_path, url):
    await asyncio.to_thread(app.run, ["doctor", "--redis-url", url, "--home", str(tmp_path / "home"), "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert not any(check["unreachable"] for check in checks)
    return {check["name"]: check for check in checks if check["status"] == "fail"}, {check["name"] for check in checks}


@pytest.mark.parametrize(
    ("name", "spoil", "key"),
    [
        ("namespace", lambda raw: raw.set(LAYOUT, "x"), LAYOUT),
        ("binding", lambda raw: raw.set(CLUSTER, "x"), CLUSTER),
        ("binding", lambda raw: raw.hset(CLUSTER, mapping={"cluster": b"\xff", "address": "a", "at": "1"}), CLUSTER),
        ("binding", lambda raw: raw.hset(CLUSTER, mapping={"cluster": "a", "address": "a", "at": "9" * 5000}), CLUSTER),
        ("release", lambda raw: raw.set(RELEASE, "x"), RELEASE),
        ("redis", lambda raw: (raw.delete(STORE_ID), raw.hset(STORE_ID, "a", "b")), STORE_ID),
    ],
)
async def test_a_key_that_cannot_be_read_is_named_and_hides_no_other(raw, name, spoil, key, capsys, tmp_path):
    spoil(raw)

    failed, all_ = await examined(capsys, tmp_path, raw.url)

    assert key in failed[name]["said"]
    assert failed[name]["said"].count("not as Holdfast left it") == 1
    assert all_ >= (OTHERS - {"stored"} if key == STORE_ID else OTHERS)


@pytest.mark.parametrize(
    "spoil", [lambda raw: raw.hset(RELEASE, "release", b"0.1\xff"), lambda raw: raw.set(STORE_ID, b"\xff")]
)
async def test_what_is_no_text_ends_no_look(raw, spoil, capsys, tmp_path):
    spoil(raw)
    _, all_ = await examined(capsys, tmp_path, raw.url)
    assert all_ >= OTHERS


async def test_whatever_goes_wrong_with_the_standing_is_a_check(monkeypatch):
    async def break_down(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "store_standing", break_down)
    standing, (check,) = await doctor._standing("redis://127.0.0.1:1/0", "holdfast")
    assert (standing.store_id, check.name, "ZeroDivisionError" in check.said) == (None, "binding", True)


async def test_as_much_of_the_standing_is_read_as_can_be(raw):
    raw.set(CLUSTER, "x")
    raw.hset(RELEASE, "release", b"0.1\xff")
    standing = await store_standing(raw.url, "holdfast")
    assert (standing.store_id, standing.bound, standing.release) == (raw.get(STORE_ID).decode(), None, "0.1\ufffd")
    assert {key: type(error) for key, error in standing.wrong.items()} == {CLUSTER: CorruptStore}


async def test_an_actor_and_a_store_whose_names_are_no_text_are_told_of(raw):
    raw.zadd(KEYS.meta("living"), {b"a\xff": 1, "b": 1})
    raw.hset(KEYS.meta("hosting"), mapping={b"a\xff": "c-1", "b": b"c\xff"})
    store = RedisStore(raw.url)
    found = {name: one.conversation_id for name, one in (await store.live(quiet_ms=1)).items()}
    await store.close()
    assert found == {"a\ufffd": "c-1", "b": "c\ufffd"}

    raw.set(STORE_ID, b"\xff")
    other = RedisStore(raw.url)
    assert await other.open() == "\ufffd"
    assert await other.open() == "\ufffd"
    raw.set(STORE_ID, b"\xfe\xfe")
    with pytest.raises(WrongStore, match="\ufffd\ufffd"):
        await other.open()
    await other.close()
