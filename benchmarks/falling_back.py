"""What a model that is down costs: a turn whose first model is passed over by its breaker, against its fallback alone."""

import asyncio
import os
import statistics
import time
from pathlib import Path

from benchmarks import stack
from benchmarks.result import Part, Row, Table, number
from holdfast.client import AsyncClient
from holdfast.testing import ModelServer, say

APP = "benchmarks.falling_back_app:app"
AGENTS = "alone", "behind"
WARM = 5


async def measured(home: Path, count: int) -> dict[str, list[float]]:
    """Turns of one model call, of both agents in turns; seconds from the start's call to the reply."""
    found: dict[str, list[float]] = {agent: [] for agent in AGENTS}
    async with AsyncClient.connect(APP, publish=True, home=home, timeout_s=120) as client:
        for turn in range(WARM + count):
            for agent in AGENTS if turn % 2 else reversed(AGENTS):
                began = time.perf_counter()
                conversation = await client.start(agent, "hello")
                state = await conversation.wait(timeout_s=60)
                while state.running:
                    state = await conversation.wait(after=state.seq, timeout_s=60)
                assert state.reply == "Thank you.", state
                if turn >= WARM:
                    found[agent].append(time.perf_counter() - began)
    return found


def measure(*, quick: bool) -> Part:
    """All of it."""
    count = 40 if quick else 300
    with (
        stack.home() as home,
        ModelServer(script=lambda _: say("Thank you.")) as up,
        ModelServer(script=()) as down,
    ):
        down.fail(503, times=None)
        stack.use_model(up.url)
        os.environ.update(BENCH_UP=up.url, BENCH_DOWN=down.url)
        found = asyncio.run(measured(home, count))
        asked = len(down.requests)
    assert 0 < asked < count / 10, f"the model that is down was asked {asked} times"
    ms = {agent: 1000 * statistics.median(seconds) for agent, seconds in found.items()}
    what = "a turn whose first model is down, its breaker open, against its fallback alone"
    row = Row(what, ms["behind"], "ms", ms["alone"], ms["behind"] / ms["alone"], 1.1, count)
    cells = [[what, f"{number(ms['behind'])} ms", f"{number(ms['alone'])} ms"]]
    return Part(rows=[row], tables=[Table("A model that is down", ["what", "measured (p50)", "against"], cells)], raw=found)
