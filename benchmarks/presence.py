"""Attached clients at rest, each with an open stream: the commands that Redis carries out for them, and the server's memory."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.progress import Progress
from writer import Writer, begin, reply

from benchmarks import server, stack, store_drive
from benchmarks.result import Part, Row, Table
from holdfast.client import AsyncClient
from holdfast.persistence import RedisStore

COMMANDS_S, MEMORY_BYTES = 250.0, 100 * 2**20
FIRST = 20
"""How many clients attach before anything is measured: what they bring along comes once."""
SETTLE_S, MEASURE_S = 20.0, 30.0
WAYS = {"keep": "attached", "cancel": "attached, and what waits for them ends with them"}


async def rests(store: RedisStore, name: str) -> None:
    """A conversation that has done a turn, and that nobody hosts."""
    writer = await Writer.of(store, name)
    writer.spec = store_drive.SPEC
    await writer.do(store_drive.started(), begin(), reply())
    await writer.release()


@asynccontextmanager
async def attached(url: str, keys: list[str], names: list[str], on_detach: str) -> AsyncIterator[list[Any]]:
    """A client at each conversation, over a plain connection; `FIRST` of them are there at once, the others when asked for."""
    port, opened = int(url.rpartition(":")[2]), list[Any]()

    async def attach(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append((reader, writer))
        path = f"/v1/conversations/{names[number]}/attach?client_id=tab-{number}&tools=ask&on_detach={on_detach}"
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {keys[number % len(keys)]}\r\n\r\n"
        writer.write(head.encode())
        status = await reader.readline()
        assert b" 200 " in status, status
        while b"event: following" not in await reader.readline():
            pass
        writer.transport.pause_reading()  # what it is told of is not measured

    async def more(first: int, last: int) -> None:
        for start in range(first, last, 50):
            await asyncio.gather(*(attach(one) for one in range(start, min(start + 50, last))))

    try:
        yield [more]
    finally:
        for _, writer in opened:
            writer.close()


async def rate(store: RedisStore, seconds: float = MEASURE_S) -> float:
    """The commands a second that Redis carries out, those in scripts included."""
    began, before = time.perf_counter(), await commands(store)
    await asyncio.sleep(seconds)
    return (await commands(store) - before - 1) / (time.perf_counter() - began)


async def commands(store: RedisStore) -> int:
    """How many commands Redis has carried out."""
    return int((await store._redis.info("stats"))["total_commands_processed"])


async def measured(home: Path, count: int) -> dict[str, dict[str, float]]:
    """What the clients take, by what becomes of their calls."""
    os.environ["HOLDFAST_HOME"] = str(home)
    found: dict[str, dict[str, float]] = {}
    async with AsyncClient.connect(stack.APP, publish=True, home=home, timeout_s=120) as direct:
        store = await direct.gateway.stack.store()
        await server.waiting(direct, "warm", 1)
        names = [f"attached-{number}" for number in range(count)]
        await store_drive.side_by_side((rests(store, name) for name in names), lambda: None)
        for way in WAYS:
            async with server.served(direct, ["read", "client"]) as (url, keys, pid):
                with Progress(console=stack.console, transient=True) as progress:
                    progress.add_task(f"clients ({way})", total=None)
                    await asyncio.sleep(SETTLE_S)
                    idle = await rate(store)
                    async with attached(url, keys, names, way) as (more,):
                        await more(0, FIRST)
                        await asyncio.sleep(2)
                        before = server.resident(pid)
                        await more(FIRST, count)
                        await asyncio.sleep(SETTLE_S)
                        cpu = server.cpu_s(pid)
                        busy = await rate(store)
                        found[way] = {
                            "commands": busy - idle,
                            "idle": idle,
                            "bytes": (server.resident(pid) - before) * count / (count - FIRST),
                            "cpu": (server.cpu_s(pid) - cpu) / MEASURE_S,
                            "present": sum([len(await store.present(name)) for name in names]),
                        }
                        assert found[way]["present"] == count, found
    return found


def measure(*, quick: bool) -> Part:
    """The rows of clients whose calls are kept, as is the default; the others in a table."""
    count = 200 if quick else 1000
    with stack.home() as home, stack.model():
        found = asyncio.run(measured(home, count))
    kept = found["keep"]
    a_second, size = kept["commands"] * 1000 / count, kept["bytes"] * 1000 / count
    return Part(
        rows=[
            Row(
                "1,000 attached clients at rest, Redis commands a second",
                a_second,
                "/s",
                COMMANDS_S,
                a_second / COMMANDS_S,
                1.0,
                count,
            ),
            Row(
                "1,000 attached clients at rest, memory of the server",
                size / 2**20,
                "MiB",
                MEMORY_BYTES / 2**20,
                size / MEMORY_BYTES,
                1.0,
                count,
            ),
        ],
        tables=[
            Table(
                f"{count:,} attached clients of one server, at rest",
                ["clients", "Redis commands a second", "without clients", "memory for each", "CPU of the server"],
                [
                    [
                        what,
                        f"{found[way]['commands']:.0f}",
                        f"{found[way]['idle']:.0f}",
                        f"{found[way]['bytes'] / count / 1024:.0f} KiB",
                        f"{found[way]['cpu'] * 100:.1f} % of one core",
                    ]
                    for way, what in WAYS.items()
                ],
            )
        ],
        raw=found,
    )
