"""A call's deadline covers all that it needs: opening the store, joining Ray, loading the app."""

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis_server import RedisServer

from holdfast.client import AppNotFound, AsyncClient, HoldfastError, StoreUnavailable
from holdfast.embedded import local_ray as ray_embedded
from holdfast.embedded.home import Home
from holdfast.settings import Settings

FAR_S = 8.0
"""Longer than two deadlines of a second; less than the ten seconds that a socket of the driver waits."""


@contextmanager
def hanging(path):
    """A server that accepts and never answers."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(100)
        yield f"unix://{path}"


async def in_time(work):
    """The error of a call that must end long before the driver's own bound."""
    with pytest.raises(HoldfastError) as caught:
        async with asyncio.timeout(FAR_S):
            await work
    return caught.value


WAYS = {
    "pending": lambda client: client.pending(),
    "conversations": lambda client: client.conversations(),
    "state": lambda client: client.conversation("c-1").state(),
    "wait": lambda client: client.conversation("c-1").wait(),
    "messages": lambda client: client.conversation("c-1").messages(),
    "events": lambda client: anext(client.conversation("c-1").events()),
    "send": lambda client: client.conversation("c-1").send("hello"),
    "cancel": lambda client: client.conversation("c-1").cancel(),
    "retry": lambda client: client.conversation("c-1").retry(),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_store_that_accepts_and_never_answers_is_given_up_at_the_deadline(way, tmp_path):
    with hanging(tmp_path / "r.sock") as url:
        async with asyncio.timeout(FAR_S):  # closing included
            async with AsyncClient.connect(redis_url=url, timeout_s=1) as client:
                assert isinstance(await in_time(WAYS[way](client)), StoreUnavailable)


async def test_an_embedded_redis_that_hangs_is_given_up_at_the_deadline(tmp_path):
    home = Home.open(tmp_path / "home")
    try:
        with hanging(home.socket("redis.sock")), home.lock("redis.lock"):
            async with asyncio.timeout(FAR_S), AsyncClient.connect(home=home.path, timeout_s=1) as client:
                assert isinstance(await in_time(client.pending()), StoreUnavailable)
                assert isinstance(await in_time(client.conversation("c-1").send("hello")), StoreUnavailable)
    finally:
        home.socket("redis.sock").unlink()
        home.runtime.rmdir()


async def test_a_ray_that_takes_long_to_start_is_given_up_at_the_deadline(tmp_path, monkeypatch):
    started, go_on = threading.Event(), threading.Event()

    def slow(*_args, **_kwargs):
        started.set()
        go_on.wait(60)
        raise AssertionError

    monkeypatch.setattr(ray_embedded, "ensure_ray", slow)
    try:
        with RedisServer(appendonly="yes", appendfsync="always") as server:
            async with asyncio.timeout(FAR_S), AsyncClient.connect(redis_url=server.url, timeout_s=1) as client:
                error = await in_time(client.conversation("c-1").send("hello"))
        assert started.is_set()
        assert "call again" in str(error)
    finally:
        go_on.set()


async def test_an_app_that_takes_long_to_import_is_given_up_at_the_deadline(tmp_path, monkeypatch):
    (tmp_path / "endless_app.py").write_text("import threading\nthreading.Event().wait(30)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    async with AsyncClient.connect("endless_app:app", redis_url="unix:///nowhere.sock", timeout_s=1) as client:
        error = await in_time(client.start("desk", "hello"))

    assert isinstance(error, AppNotFound)


def test_work_that_hangs_holds_neither_the_loops_end_nor_the_interpreters():
    script = """
        import asyncio, threading
        from holdfast.daemon import in_daemon

        async def main():
            try:
                async with asyncio.timeout(0.1):
                    await in_daemon(threading.Event().wait)
            except TimeoutError:
                print("given up")

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "given up\n"


def test_only_a_client_with_the_default_deadline_may_take_longer_to_start_the_embedded_stack(tmp_path):
    async def longest(**settings):
        client = AsyncClient.connect(home=tmp_path / "home", **settings)
        return client.gateway.allowed_s

    assert asyncio.run(longest(timeout_s=2)) == 2
    assert asyncio.run(longest()) == 90
    assert asyncio.run(longest(redis_url="redis://localhost", embedded=False)) == 30
    assert Settings.of(home=tmp_path).redis_url is None or "HOLDFAST_REDIS_URL" in os.environ
    assert not Path(tmp_path / "home").exists()
