"""`holdfast pending` as a process against `python -c "import redis"`; the first paint of `holdfast inbox` against `pending`."""

import asyncio
import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from rich.progress import track

from benchmarks import stack, store_drive
from benchmarks.result import Part, Row, Table

PENDING, MANY = 20, 1000


async def fill(home: Path, numbers: range) -> None:
    """Calls that wait."""
    async with store_drive.opened(home) as (_, store):
        for number in numbers:
            await store_drive.suspended(store, f"waiting-{number}")


def timed(command: list[str], env: dict[str, str]) -> float:
    """How long the process took, in milliseconds."""
    began = time.perf_counter()
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    took = (time.perf_counter() - began) * 1000
    assert "import" in command[-1] or "waiting-0" in printed, printed
    return took


def painted(command: list[str], env: dict[str, str]) -> float:
    """How long the command takes to draw a call on a terminal of 80 columns, in milliseconds."""
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    drawn = b""
    try:
        while b"Question" not in drawn:
            drawn += os.read(terminal, 65536)
        return (time.perf_counter() - began) * 1000
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def measure(*, quick: bool) -> Part:
    """The commands in turns, so that the machine treats them alike."""
    rounds = 7 if quick else 25
    holdfast = str(Path(sys.executable).parent / "holdfast")
    bare: list[float] = []
    ours: list[float] = []
    many: list[float] = []
    inbox: list[float] = []
    with stack.home() as home:
        asyncio.run(fill(home, range(PENDING)))
        env = {**os.environ, "HOLDFAST_HOME": str(home), "TERM": "xterm-256color"}
        for _ in track(range(rounds + 1), "processes", console=stack.console, transient=True):
            bare.append(timed([sys.executable, "-c", "import redis"], env))
            ours.append(timed([holdfast, "pending"], env))
        asyncio.run(fill(home, range(PENDING, MANY)))
        for _ in track(range(rounds + 1), "inboxes", console=stack.console, transient=True):
            many.append(timed([holdfast, "pending"], env))
            inbox.append(painted([holdfast, "inbox"], env))
    p50, floor = statistics.median(ours[1:]), statistics.median(bare[1:])
    paint, listed = statistics.median(inbox[1:]), statistics.median(many[1:])
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
            ),
            Row(
                "first paint of `holdfast inbox` with 1,000 calls, against `holdfast pending` (p50)",
                paint,
                "ms",
                listed,
                paint / listed,
                2.0,
                rounds,
            ),
        ],
        tables=[
            Table(
                "Whole processes (p50)",
                ["command", "p50"],
                [
                    ["python -c 'import redis'", f"{floor:.0f} ms"],
                    [f"holdfast pending ({PENDING} calls wait)", f"{p50:.0f} ms"],
                    [f"holdfast pending ({MANY:,} calls wait)", f"{listed:.0f} ms"],
                    [f"holdfast inbox, to its first paint ({MANY:,} calls wait)", f"{paint:.0f} ms"],
                ],
            )
        ],
        raw={"bare_ms": bare, "pending_ms": ours, "pending_of_many_ms": many, "inbox_ms": inbox},
    )
