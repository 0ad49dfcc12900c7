"""A real stack for tests: Redis and Ray of their own in a home of their own, ended with the test session."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from hosts import ensure_started

from holdfast.actors.actor_settings import RAY_NAMESPACE, ActorSettings, StoreAddress
from holdfast.actors.ray_launcher import named
from holdfast.client import AsyncClient
from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import ensure_ray, stop_ray
from holdfast.embedded.local_redis import ensure_redis, stop_redis
from holdfast.registry import cluster
from holdfast.registry.pool import Pool
from holdfast.registry.ray_actors import RayActors
from holdfast.registry.registry import Registry
from holdfast.testing import ModelServer, say

FAST = {
    "HOLDFAST_LEASE_S": "3",
    "HOLDFAST_LINGER_S": "5",
    "HOLDFAST_TICK_S": "0.2",
    "HOLDFAST_STANDBY": "2",
    "HOLDFAST_WORKERS": "1",
}


class Scenarios:
    """Answers by scenario: the first word of the first message names it, its n-th answer is the n-th model call's.

    A summary begins with that word, and behind one the answers begin anew.

    A pure function of the request, so a repeated call gets the same answer.
    """

    def __init__(self) -> None:
        self._scripts: dict[str, list[Any]] = {}

    def add(self, name: str, *answers: Any) -> str:
        """Add a scenario; the text to start it with."""
        self._scripts[name] = [say(answer) if isinstance(answer, str) else answer for answer in answers]
        return name

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        spoken = [message for message in request["messages"] if message["role"] != "system"]
        said = spoken[0]["content"]
        text = said if isinstance(said, str) else said[0]["text"]
        if text.startswith('{"_kind":"holdfast.to_summarize"'):
            return say(f"{json.loads(text)['messages'][0]['content'].split()[0]} notes")
        if text.startswith('{"_kind":"holdfast.summary"'):
            text = json.loads(text)["notes"]
        script = self._scripts[text.split()[0]]
        return script[sum(message["role"] == "assistant" for message in spoken)]


@dataclass
class RunningStack:
    """A home with Redis and Ray running, a model server, and how to start processes against them."""

    home: Home
    redis_url: str
    model: ModelServer
    scenarios: Scenarios
    runs: Path
    env: dict[str, str] = field(default_factory=dict)
    before: dict[str, str | None] = field(default_factory=dict)

    def python(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a Python process of its own, as a user would."""
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )


def start_stack(model: ModelServer, scenarios: Scenarios, **settings: str) -> RunningStack:
    """Start everything; the environment of this process leads to it, with these variables beside."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job ignores it, and so would the commands
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    runs = folder / "runs"
    runs.mkdir()
    env = {
        **FAST,
        "HOLDFAST_HOME": str(folder / "home"),
        "HOLDFAST_TEST_RUNS": str(runs),
        "OPENAI_API_BASE": model.url,
        "OPENAI_API_KEY": "sk-test",
        "ANTHROPIC_API_BASE": model.anthropic_url,
        "ANTHROPIC_API_KEY": "sk-test",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",  # processes that no actor of ours would be put into
        **settings,
    }
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    home = Home.open(folder / "home")
    redis_url = ensure_redis(home)
    ensure_ray(home)
    return RunningStack(home=home, redis_url=redis_url, model=model, scenarios=scenarios, runs=runs, env=env, before=before)


def end_stack(stack: RunningStack) -> None:
    """End everything that `start_stack` started."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
    stop_ray(stack.home)
    stop_redis(stack.home)
    shutil.rmtree(stack.home.runtime, ignore_errors=True)
    shutil.rmtree(stack.home.path.parent, ignore_errors=True)
    for name, value in stack.before.items():  # another stack may be in use by the tests that follow
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def eventually(condition: Callable[[], Any], timeout_s: float = 60, what: str = "the condition") -> Any:
    """Wait until a condition holds; what it returned."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    message = f"{what} did not come true within {timeout_s} s"
    raise AssertionError(message)


def runs_of(stack: RunningStack, conversation_id: str) -> list[dict[str, Any]]:
    """What the tools of a conversation wrote down."""
    log = stack.runs / conversation_id
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def open_gate(stack: RunningStack, conversation_id: str) -> None:
    """Let the slow tools of a conversation finish."""
    (stack.runs / f"{conversation_id}.gate").touch()


def results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The envelopes that the model read, in order."""
    return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


@asynccontextmanager
async def client_of(namespace: str, app: str = "shop_app:app", **options: Any) -> AsyncIterator[AsyncClient]:
    """A client of a namespace that only one test uses; its actors are ended with it, since idle ones slow the others down."""
    async with AsyncClient.connect(app, namespace=namespace, **options) as client:
        try:
            yield client
        finally:
            await end_actors(client)


async def end_actors(client: AsyncClient) -> None:
    """End all actors of a client's namespace."""
    family = (await client.gateway.stack.transport()).settings.family
    await asyncio.to_thread(eventually, lambda: not _ended(family), what=f"the end of {family}")


async def end_other_namespaces() -> None:
    """End the actors of all namespaces of the stack but the default one."""
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as client:
        own = (await client.gateway.stack.transport()).settings.family
        await asyncio.to_thread(eventually, lambda: not _ended("holdfast:", but=own), what="the end of other namespaces")


def _ended(family: str, *, but: str | None = None) -> list[str]:
    """The names of what there was; each is ended, sweepers first, since they make others."""
    found = [name for name in named(family) if but is None or not name.startswith(but)]
    names = sorted(found, key=lambda name: not name.endswith(":sweeper"))
    for name in names:
        with contextlib.suppress(ValueError):  # it has ended by itself
            ray.kill(ray.get_actor(name, namespace=RAY_NAMESPACE))
    return names


async def pid_of(actor: Any) -> int:
    """The process of an actor."""
    return await actor.__ray_call__.remote(lambda _: os.getpid())


def sweeper_of(store: Any) -> str:
    """The name of a store's sweeper in the cluster that this process is in."""
    address = StoreAddress("", store.namespace, store.store_id)
    return ActorSettings(address, cluster=cluster.current().cluster_id).sweeper_name


async def host_of(store: Any, conversation_id: str) -> Any:
    """The handle of the actor that hosts a conversation, which one takes up if none does."""
    address = StoreAddress(store.url, store.namespace, store.store_id)
    settings = ActorSettings(address, cluster=cluster.current().cluster_id)
    actors = RayActors(settings, store)
    pool = Pool(store, actors, timing=settings.timing, process_limits=settings.process_limits)
    registry = Registry(store, actors, pool=pool, timing=settings.timing)
    name, _ = await ensure_started(registry, conversation_id, timeout_s=60)
    await registry.close()
    return ray.get_actor(name, namespace=RAY_NAMESPACE)


async def kill_host(store: Any, conversation_id: str) -> None:
    """Kill the actor that hosts a conversation."""
    await kill(await pid_of(await host_of(store, conversation_id)))


async def kill(pid: int) -> None:
    """End a process that this stack started, at once, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    await gone(pid)


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    await asyncio.to_thread(eventually, lambda: not _runs(pid), what=f"the end of process {pid}")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
