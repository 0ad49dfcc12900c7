"""A server on a Ray of one's own that is killed, and started anew at the same address."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest
from lacking import lacking
from ray_cluster import free_port
from redis_server import RedisServer, binaries
from stack_fixture import FAST
from writer import Writer, begin, call, start

from holdfast.persistence import RedisStore

WITHIN_S = 60
RAYS_OWN = 8
"""How many threads Ray itself may leave behind when it is left."""


@pytest.fixture
def place():
    """A directory for Ray, whose sockets' paths must be short, and the environment that all who join it have."""
    with tempfile.TemporaryDirectory(prefix="hf-", dir="/tmp", ignore_cleanup_errors=True) as made:
        folder, port = Path(made), free_port()
        token = folder / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "HOLDFAST_"))}
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        yield folder, port, env | {"RAY_USAGE_STATS_ENABLED": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@contextlib.contextmanager
def head(place, name):
    """A Ray of one node that listens; at the end all of it is killed."""
    folder, port, env = place
    (folder / name).mkdir()
    options = ["--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1", f"--temp-dir={folder / name}"]
    options += ["--include-dashboard=false", "--num-cpus=4", f"--object-store-memory={100 << 20}"]
    command = [str(Path(sys.executable).with_name("ray")), "start", *options]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: listens(port), "a Ray that listens")
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WITHIN_S)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def until(condition, what):
    give_up = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < give_up, what
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def serving(place, redis):
    """A server process, and a client of HTTP for it."""
    folder, port, env = place
    settings = {"HOLDFAST_REDIS_URL": redis.url, "HOLDFAST_RAY_ADDRESS": f"127.0.0.1:{port}", "HOLDFAST_EMBEDDED": "false"}
    with (folder / "said").open("w") as said:
        command = [sys.executable, "-m", "holdfast.cli", "serve", "--no-auth", "--port", "0"]
        process = subprocess.Popen(
            command, env=env | FAST | settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True
        )
    try:
        line = process.stdout.readline()
        assert "listens on" in line, (folder / "said").read_text()
        with httpx.Client(base_url=line.split()[3], timeout=WITHIN_S, trust_env=False) as http:
            yield process, http
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0, (folder / "said").read_text()
    finally:
        process.kill()
        process.wait(WITHIN_S)
        process.stdout.close()


def threads_of(process):
    return sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir())


@contextlib.asynccontextmanager
async def opened(redis):
    store = RedisStore(redis.url)
    await store.open()
    yield store
    await store.close()


async def waiting(redis):
    """A conversation that waits for a decision, which no actor hosts."""
    async with opened(redis) as store:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("refund"))
        await writer.release()


async def unbound(redis):
    """Take away the binding to a cluster of which nothing lives any more: else the next one waits until it is stale."""
    async with opened(redis) as store:
        await store.unbind((await store.binding()).cluster)


def test_a_server_leaves_a_ray_that_is_gone_says_so_and_joins_the_next_one(place):
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as redis, contextlib.ExitStack() as first:
        asyncio.run(waiting(redis))
        first.enter_context(head(place, "a"))
        with serving(place, redis) as (process, http):
            assert http.post("/v1/conversations/c-1/cancel", json={}).json()["calls"]
            until(lambda: http.get("/ready").status_code == 200, "a server that is ready")
            threads = threads_of(process)

            first.close()
            refused = until(lambda: (said := http.get("/ready")).status_code == 503 and said, "a server that is not ready")
            assert refused.json()["code"] == "cluster_unavailable"
            ended = http.post("/v1/conversations/c-1/end", json={}, headers={"Idempotency-Key": "end-1"})
            assert (ended.status_code, ended.json()["code"]) == (503, "cluster_unavailable"), ended.text
            assert int(ended.headers["Retry-After"]) > 0
            assert http.get("/v1/conversations/c-1").json()["status"] == "idle"

            asyncio.run(unbound(redis))
            with head(place, "b"):
                until(lambda: http.get("/ready").status_code == 200, "a server that is ready again")
                ended = http.post("/v1/conversations/c-1/end", json={}, headers={"Idempotency-Key": "end-1"})
                assert (ended.status_code, ended.json().get("duplicate")) == (200, False), ended.text
                assert threads_of(process) <= threads + RAYS_OWN
