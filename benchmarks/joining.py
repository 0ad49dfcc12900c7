"""What comes into a turn: a steered message, from the end of a tool to the request that has it."""

import asyncio
import json
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import stack
from benchmarks.joining_app import SLOW_S
from benchmarks.result import Part, Row, Table, number
from holdfast.client import Answer, AsyncClient
from holdfast.client.conversation import AsyncConversation
from holdfast.testing import ModelServer, call, calls, say

APP = "benchmarks.joining_app:app"
STEERED = "And in Bonn?"


@dataclass
class Model:
    """The model: it asks for the tool that the first message names, and then answers; when each request came, in seconds."""

    came: dict[str, list[tuple[float, list[dict]]]] = field(default_factory=dict)

    def script(self, request: dict) -> dict:
        """See `ModelServer`."""
        messages = request["messages"]
        tool, name = next(one["content"] for one in messages if one["role"] == "user").split()
        self.came.setdefault(name, []).append((time.time(), messages))
        return say("Thank you.") if messages[-1]["role"] != "user" or len(messages) > 2 else calls(call(tool, {}))

    async def second(self, name: str) -> tuple[float, list[dict]]:
        """When the second request of a conversation came, and its messages."""
        while len(self.came.get(name, ())) < 2:
            await asyncio.sleep(0.001)
        return self.came[name][1]


@dataclass
class Bench:
    """One client on one stack, and what was found, in seconds."""

    client: AsyncClient
    model: Model
    found: dict[str, list[float]] = field(default_factory=dict)
    _begun: int = 0

    async def begin(self, tool: str) -> AsyncConversation:
        """A conversation whose model asks for a tool."""
        self._begun += 1
        name = f"{tool}-{self._begun}"
        return await self.client.start("bench", f"{tool} {name}", conversation_id=name)

    async def steered(self, *, steers: bool) -> None:
        """From the end of a tool to the request that has its result, and what was said meanwhile."""
        conversation = await self.begin("slow")
        while not (await conversation.state()).running:
            await asyncio.sleep(0.02)
        if steers:
            await conversation.send(STEERED, when="steer")
        came, messages = await self.model.second(conversation.id)
        assert steers == any(one.get("content") == STEERED for one in messages), messages
        ended = next(json.loads(one["content"])["result"] for one in messages if one["role"] == "tool")
        self._put("steered" if steers else "not steered", came - float(ended))
        await self._over(conversation)

    async def resolved(self) -> None:
        """A warm resolve, until its receipt."""
        conversation = await self.begin("ask")
        (shown,) = (await conversation.wait(timeout_s=60)).pending
        began = time.perf_counter()
        await shown.resolve(Answer("here"))
        self._put("receipt", time.perf_counter() - began)
        await self._over(conversation)

    def _put(self, side: str, seconds: float) -> None:
        self.found.setdefault(side, []).append(seconds)

    async def _over(self, conversation: AsyncConversation) -> None:
        state = await conversation.wait(timeout_s=60)
        while state.reply is None:
            state = await conversation.wait(after=state.seq, timeout_s=60)


async def measured(home: Path, model: Model, *, steered: int, resolved: int) -> dict[str, list[float]]:
    """All sides in turns, so that the machine treats them alike."""
    async with AsyncClient.connect(APP, publish=True, home=home, timeout_s=120) as client:
        bench = Bench(client, model)
        await bench.resolved()
        bench.found.clear()
        for _ in range(resolved):
            await bench.resolved()
        for _ in range(steered):
            await bench.steered(steers=True)
            await bench.steered(steers=False)
        return bench.found


def measure(*, quick: bool) -> Part:
    """All of it."""
    model = Model()
    with stack.home() as home, ModelServer(script=model.script) as server:
        stack.use_model(server.url)
        found = asyncio.run(measured(home, model, steered=3 if quick else 20, resolved=10 if quick else 100))
    ms = {side: 1000 * statistics.median(seconds) for side, seconds in found.items()}
    what = f"a steered message, from the end of a tool of {SLOW_S:g} s to the request that has it, against a warm resolve"
    row = Row(what, ms["steered"], "ms", ms["receipt"], ms["steered"] / ms["receipt"], 2, len(found["steered"]))
    cells = [
        [what, f"{number(ms['steered'])} ms", f"{number(ms['receipt'])} ms"],
        ["the same turn, where nobody steers", f"{number(ms['not steered'])} ms", ""],
    ]
    return Part(rows=[row], tables=[Table("What comes into a turn", ["what", "measured (p50)", "against"], cells)], raw=found)
