"""A stack on a Ray cluster of several nodes, of which tests may take away all but the head."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import ray
import ray_nodes
from fault_stack import QUICK, WITHIN_S, environment_kept
from lacking import lacking
from redis_server import RedisServer, binaries
from stack_fixture import FAST, RunningStack, Scenarios

from holdfast.registry import cluster
from holdfast.testing import ModelServer


class Nodes:
    """A cluster in a process of its own; `others` are the ids of its nodes but the head, which may be lost."""

    def __init__(self, count, folder, redis_address):
        self.env = ray_nodes.environment(folder, redis_address)
        self._process = subprocess.Popen(
            [sys.executable, ray_nodes.__file__, str(folder), str(count)],
            env={**os.environ, **self.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.address, *self.others = self._process.stdout.readline().split()

    async def have(self, done):
        """Have it do something, and return when that is done."""
        self._process.stdin.write(f"{done}\n")
        self._process.stdin.flush()
        assert await asyncio.to_thread(self._process.stdout.readline) == "done\n"

    def end(self):
        self._process.stdin.close()
        self._process.wait(WITHIN_S)
        self._process.stdout.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@contextlib.contextmanager
def several_nodes(count, **settings):
    """A store, a model server, and a cluster whose GCS keeps its tables in a Redis of its own; this process is to join it."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    port, scenarios = free_port(), Scenarios()
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment_kept())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-", dir="/tmp", ignore_cleanup_errors=True)))
        (folder / "runs").mkdir()
        store = stack.enter_context(RedisServer(appendonly="yes", appendfsync="always"))
        stack.enter_context(RedisServer(port=str(port), bind="127.0.0.1"))
        model = stack.enter_context(ModelServer(script=scenarios))
        os.environ.update(
            FAST
            | QUICK
            | {"HOLDFAST_TEST_RUNS": str(folder / "runs"), "OPENAI_API_BASE": model.url, "OPENAI_API_KEY": "sk-test"}
            | settings
        )
        nodes = Nodes(count, folder, f"127.0.0.1:{port}")
        stack.callback(nodes.end)
        stack.callback(ray.shutdown)
        os.environ.update(nodes.env)
        os.environ.update({"HOLDFAST_REDIS_URL": store.url, "HOLDFAST_RAY_ADDRESS": nodes.address, "HOLDFAST_PUBLISH": "true"})
        cluster._observe_environment(ray)
        yield RunningStack(home=None, redis_url=store.url, model=model, scenarios=scenarios, runs=folder / "runs"), nodes
