"""A conversation without a stack, as an agent's unit test runs it: three turns, one with a plain tool, one with a gated one."""

import asyncio
import gc
import statistics
import time

from rich.progress import track

from benchmarks import stack
from benchmarks.result import Part, Row, Table
from holdfast import Agent, Approve, tool
from holdfast.testing import call, run

MUST_BE_MS = 50.0


@tool
async def look_up(order: str) -> str:
    return f"{order} is paid"


@tool(approval="required")
async def refund(order: str, amount: float) -> str:
    return f"refunded {amount} of {order}"


AGENT = Agent(name="bench", instructions="Be kind.", tools=[look_up, refund])
SCRIPT = [
    *(call("look_up", {"order": "A-1"}), "It is paid."),
    *(call("refund", {"order": "A-1", "amount": 40}), "Done."),
    "You are welcome.",
]


async def three_turns() -> float:
    """How long they take, in milliseconds, from nothing to the result."""
    began = time.perf_counter()
    result = await run(AGENT, "Where is A-1?", "Refund it", "Thanks", model=SCRIPT, decide={"refund": Approve()})
    took_ms = (time.perf_counter() - began) * 1000
    assert (result.reply, result.replies_left, len(result.runs)) == ("You are welcome.", 0, 2)
    return took_ms


async def measured(rounds: int) -> list[float]:
    await three_turns()  # the first one imports
    gc.collect()
    return [await three_turns() for _ in track(range(rounds), "three turns", console=stack.console, transient=True)]


def measure(*, quick: bool) -> Part:
    samples = asyncio.run(measured(50 if quick else 500))
    p50 = statistics.median(samples)
    p99 = statistics.quantiles(samples, n=100)[98]
    what = "three turns without a stack (p50)"
    return Part(
        rows=[Row(what, p50, "ms", MUST_BE_MS, p50 / MUST_BE_MS, 1.0, len(samples))],
        tables=[
            Table(
                "Three turns without a stack",
                ["p50", "p99", "least", "samples"],
                [[f"{p50:.1f} ms", f"{p99:.1f} ms", f"{min(samples):.1f} ms", str(len(samples))]],
            )
        ],
        charts=[],
        raw={"three_turns": samples},
    )
