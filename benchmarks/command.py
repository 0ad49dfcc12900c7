"""`holdfast pending` as a whole process against `python -c "import redis"`."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.progress import track

from benchmarks import stack, store_drive
from benchmarks.result import Part, Row, Table

PENDING = 20


async def fill(home: Path) -> None:
    """A few calls that wait."""
    async with store_drive.opened(home) as (_, store):
        for number in range(PENDING):
            await store_drive.suspended(store, f"waiting-{number}")


def timed(command: list[str], env: dict[str, str]) -> float:
    """How long the process took, in milliseconds."""
    began = time.perf_counter()
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    took = (time.perf_counter() - began) * 1000
    assert "import" in command[-1] or "waiting-0" in printed, printed
    return took


def measure(*, quick: bool) -> Part:
    """The two in turns, so that the machine treats them alike."""
    rounds = 7 if quick else 25
    holdfast = str(Path(sys.executable).parent / "holdfast")
    bare: list[float] = []
    ours: list[float] = []
    with stack.home() as home:
        asyncio.run(fill(home))
        env = {**os.environ, "HOLDFAST_HOME": str(home)}
        for _ in track(range(rounds + 1), "processes", console=stack.console, transient=True):
            bare.append(timed([sys.executable, "-c", "import redis"], env))
            ours.append(timed([holdfast, "pending"], env))
    p50, floor = statistics.median(ours[1:]), statistics.median(bare[1:])
    return Part(
        rows=[
            Row(
                "`holdfast pending`, whole process, against `python -c 'import redis'` (p50)",
                p50,
                "ms",
                floor,
                p50 / floor,
                2.5,
                rounds,
            )
        ],
        tables=[
            Table(
                "Whole processes (p50)",
                ["command", "p50"],
                [
                    ["python -c 'import redis'", f"{floor:.0f} ms"],
                    [f"holdfast pending ({PENDING} calls wait)", f"{p50:.0f} ms"],
                ],
            )
        ],
        raw={"bare_ms": bare, "pending_ms": ours},
    )
