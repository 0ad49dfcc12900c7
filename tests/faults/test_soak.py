"""Recorded conversations while processes of every kind are killed at random: each ends with its own transcript."""

import asyncio
import contextlib
import json
import os
import random

import pytest
import ray
import recorded_app
from fault_stack import QUICK, environment_kept, named
from oracle import Oracle
from ray.exceptions import RayError
from recorded_play import play, shown, unique_ids
from stack_fixture import Scenarios, end_stack, kill, pid_of, start_stack, sweeper_of

from holdfast.actors.actor_settings import RAY_NAMESPACE
from holdfast.client import AsyncClient, Status
from holdfast.embedded.local_ray import ensure_ray
from holdfast.embedded.local_redis import ensure_redis
from holdfast.persistence import RedisStore
from holdfast.registry import cluster
from holdfast.testing import ModelServer

AT_ONCE = 10
PATIENCE_S = 240
MODEL_S = 0.5
PARKED = {"HOLDFAST_MAX_ACTORS": "3"}
BETWEEN = (6, 24)
"""How many model calls arrive between two kills, at least and at most: the worse the machine, the slower the killer."""

pytestmark = pytest.mark.skipif(
    not recorded_app.DATA.is_dir() and not os.environ.get("CI"), reason="the recordings are not beside the checkout"
)


@pytest.fixture(params=["hosted", "parked"])
def replaying(request):
    """A stack whose model replays the recordings; conversations keep their actors, or are left as soon as the model works."""
    recordings = recorded_app.recordings()
    parked = request.param == "parked"
    with environment_kept(), ModelServer(replay=[recording["messages"] for recording in recordings.values()]) as model:
        if parked:
            model.slow(first_token_s=MODEL_S)
        stack = start_stack(model, Scenarios(), **(QUICK | PARKED if parked else QUICK))
        recorded_app.RUNS = stack.runs
        address = ensure_ray(stack.home)
        os.environ.update(address.env)
        joined = cluster.join(address.address, embedded=True)
        yield stack, recordings, parked
        cluster.leave(joined)
        end_stack(stack)


class Killer:
    """Kills one process after the other, with no mercy and no system, until it is stopped."""

    def __init__(self, stack, store, dice):
        self.stack = stack
        self.store = store
        self.dice = dice
        self.killed = []

    async def rage(self):
        each = [self.host, self.worker, self.sweeper, self.redis]
        self.dice.shuffle(each)  # everybody once, and then as it comes
        seen = 0
        while True:
            seen = max(seen, len(self.stack.model.requests)) + self.dice.randint(*BETWEEN)
            while len(self.stack.model.requests) < seen:
                await asyncio.sleep(0.05)
            victim = each.pop() if each else self.dice.choice([self.host] * 5 + [self.worker] * 2 + [self.sweeper, self.redis])
            with contextlib.suppress(RayError, ValueError, ProcessLookupError, TimeoutError):  # it has died already
                async with asyncio.timeout(20):
                    await victim()
                    self.killed.append(victim.__name__)

    async def host(self):
        """The actor of a conversation, as soon as one has an actor."""
        holders = set()
        while not holders:
            rows = (await self.store.conversations(limit=500)).items
            holders = {(await self.store.owner(row.conversation_id)).actor for row in rows} - {""}
        await kill(await pid_of(named(self.dice.choice(sorted(holders)))))

    async def worker(self):
        """One of those that run models and tools."""
        actors = ray.util.list_named_actors(all_namespaces=True)
        names = sorted(actor["name"] for actor in actors if actor["namespace"] == RAY_NAMESPACE)
        await kill(await pid_of(named(self.dice.choice([name for name in names if ":worker:" in name] or [""]))))

    async def sweeper(self):
        await kill(await pid_of(named(sweeper_of(self.store))))

    async def redis(self):
        """Redis, which is started again at once."""
        await kill(int((self.stack.home.path / "redis.pid").read_text()))
        await asyncio.to_thread(ensure_redis, self.stack.home)


# a connection whose process is killed while its killer is cancelled is left to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("count", "seed"), [(24, 7), (200, 8)])
async def test_whoever_dies_every_conversation_ends_with_its_own_transcript(replaying, count, seed):
    stack, recordings, parked = replaying
    dice = random.Random(seed)  # noqa: S311 - the same kills for the same seed, as far as timing allows
    names = sorted(dice.sample(sorted(recordings), count))
    slots = asyncio.Semaphore(AT_ONCE)
    store = RedisStore(stack.redis_url, retry_s=60)
    await store.open()
    oracle = Oracle(store, stack.runs)
    killer = Killer(stack, store, dice)

    async with AsyncClient.connect("recorded_app:app", timeout_s=PATIENCE_S) as client:

        async def one(name):
            async with slots:
                return await play(client, name, recordings[name], patience_s=PATIENCE_S)

        raging = asyncio.create_task(killer.rage())
        try:
            transcripts = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
        finally:
            raging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await raging

    for name, messages in transcripts.items():
        recording = recordings[name]["messages"]
        unique = unique_ids(recording)
        assert shown(messages, unique, recorded=False) == shown(recording, unique, recorded=True), name
        ends_early = recording[-1]["role"] == "tool"
        await oracle.at_rest(name, status=Status.FAILED if ends_early else Status.IDLE)
        tools = recordings[name].get("tools") or json.loads((recorded_app.DATA / "airline.agent.json").read_text())["tools"]
        server = {tool["name"] for tool in tools if tool["executor"] == "server"}
        asked = [call for message in messages for call in message.get("tool_calls") or []]
        ran = {call["id"] for call in asked if call["function"]["name"] in server}
        assert {body["key"] for body in oracle.bodies(name)} == ran, name
    if parked:  # for most model calls the conversation was left and taken up again
        asked = sum(message["role"] == "assistant" for name in names for message in recordings[name]["messages"])
        assert sum([(await store.owner(name)).epoch for name in names]) > asked
    await store.close()
    assert set(killer.killed) == {"host", "worker", "sweeper", "redis"}, killer.killed
