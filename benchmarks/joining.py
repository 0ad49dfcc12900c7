"""What comes into a turn: a steered message, and a call that an attached client carries out, until the next model request."""

import asyncio
import json
import statistics
import time
from collections.abc import Callable
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

    async def resolved(self, tool: str) -> None:
        """A warm resolve, and from it to the next request; of a client's call, from its claim on."""
        conversation = await self.begin(tool)
        (shown,) = (await conversation.wait(timeout_s=60)).pending
        began, clock = time.time(), time.perf_counter()
        if tool == "locate":
            await conversation.claim(shown, "bench")
            await conversation.resolve(shown, Answer("here"), client_id="bench")
        else:
            await shown.resolve(Answer("here"))
            self._put("receipt", time.perf_counter() - clock)
        came, _ = await self.model.second(conversation.id)
        self._put(tool, came - began)
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
        await bench.resolved("ask")
        await bench.resolved("locate")
        bench.found.clear()
        for _ in range(resolved):
            await bench.resolved("ask")
            await bench.resolved("locate")
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
    row = _rows(found)
    rows = [
        row(
            f"a steered message, from the end of a tool of {SLOW_S:g} s to the request that has it, against a warm resolve",
            "steered",
            "receipt",
            2,
        ),
        row("from a client's claim to the next model request, against a resolve until then", "locate", "ask", 1.5),
    ]
    cells = [[one.what, f"{number(one.value)} ms", f"{number(one.floor)} ms"] for one in rows]
    cells.append(["the same turn, where nobody steers", f"{number(1000 * statistics.median(found['not steered']))} ms", ""])
    return Part(rows=rows, tables=[Table("What comes into a turn", ["what", "measured (p50)", "against"], cells)], raw=found)


def _rows(found: dict[str, list[float]]) -> Callable[[str, str, str, float], Row]:
    def row(what: str, side: str, other: str, goal: float) -> Row:
        value, floor = 1000 * statistics.median(found[side]), 1000 * statistics.median(found[other])
        return Row(what, value, "ms", floor, value / floor, goal, len(found[side]))

    return row
