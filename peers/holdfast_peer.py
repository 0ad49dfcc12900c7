"""Holdfast, driven like its peers: a client in a process of its own, over the Redis and Ray of a home of the benchmark."""

import asyncio
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import contender
from contender import Contender

from holdfast.client import Answer, AsyncClient


class Holdfast(Contender):
    """One client."""

    packages = ("holdfast", "ray", "redis", "litellm")
    settings = "embedded Redis (appendonly, appendfsync always) and Ray, HOLDFAST_WORKERS=2 (default 1)"

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.home = Path(options.store)
        self.mark = options.store
        self.shown: dict[str, Any] = {}

    async def open(self) -> None:
        """Join the stack, and have the worker there."""
        os.environ["HOLDFAST_WORKERS"] = "2"  # as docs/settings.md says: as many as there are cores to use
        self.client = AsyncClient.connect("benchmarks.bench_app:app", home=self.home, timeout_s=120)
        await self.client.gateway.stack.transport()

    async def close(self) -> None:
        """Leave it."""
        await self.client.aclose()

    async def suspend(self, name: str) -> None:
        """Start it, and wait until it waits."""
        started = await self.client.start("bench", contender.TEXT, conversation_id=name)
        state = await started.wait(timeout_s=120)
        (self.shown[name],) = state.pending

    async def resume(self, name: str, answer: str = contender.ANSWER) -> str:
        """Resolve the call that is shown, and wait for the reply."""
        held = self.client.conversation(name)
        shown = self.shown.get(name) or (await held.pending())[0]
        receipt = await shown.resolve(Answer(answer))
        return (await held.wait(after=receipt.seq, timeout_s=120)).reply

    async def messages(self, name: str) -> list[dict[str, Any]]:
        """The log, as messages."""
        return await self.client.conversation(name).messages()

    async def bytes_at_rest(self) -> dict[str, int]:
        """What Redis holds in memory, and its append-only file, rewritten."""
        redis = (await self.client.gateway.stack.store())._redis
        await redis.bgrewriteaof()
        while True:
            info = await redis.info("persistence")
            if not info["aof_rewrite_in_progress"] and not info["aof_rewrite_scheduled"]:
                break
            await asyncio.sleep(0.05)
        keys = [key async for key in redis.scan_iter(count=1000)]
        memory = sum([await redis.memory_usage(key, samples=0) or 0 for key in keys])
        return {"memory": memory, "disk": info["aof_current_size"]}

    async def pids(self) -> list[int]:
        """The actors that host something, all of which go with a machine."""
        transport = await self.client.gateway.stack.transport()
        found = {await transport.pid(name) for name in self.shown}
        return sorted(pid for pid in found if pid is not None)

    async def pending(self) -> dict[str, Any]:
        """Page through the index."""
        found, after = 0, None
        while True:
            page = await self.client.pending(limit=500, after=after)
            found, after = found + len(page.items), page.next
            if after is None:
                return {"found": found, "how": "client.pending(): an index, in pages of 500"}


if __name__ == "__main__":
    contender.main(Holdfast)
