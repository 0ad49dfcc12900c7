"""What the server adds to a warm resolve, what idle listeners take, when another one sees a decision, how many it carries."""

import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Self

from rich.progress import Progress

from benchmarks import stack
from benchmarks.result import Part, Row, Table
from holdfast.client import Answer, AsyncClient, HoldfastError, PendingCall, ServerUnavailable

ADDED_MS, IDLE_BYTES, SEEN_MS, RESOLVES_S = 2.0, 100 * 2**20, 200.0, 500.0
KEYS = 6
"""How many callers the listeners are of: one may hold a quarter of a process's streams."""
CALLS = 40
AT_ONCE = 32


@contextlib.asynccontextmanager
async def served(
    direct: AsyncClient, scopes: Sequence[str] = ("read", "start", "decide")
) -> AsyncIterator[tuple[str, list[str], int]]:
    """A server in a process of its own: its URL, some keys with these scopes, and its process id."""
    keys = [(await direct.access.create_key(f"bench {number}", list(scopes)))[1] for number in range(KEYS)]
    command = [sys.executable, "-m", "holdfast.cli", "serve", "--port", "0", "--app", stack.APP]
    with subprocess.Popen(  # noqa: ASYNC220 - before anything is measured
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        found = re.search(r"http://[^ ]+", process.stdout.readline())
        try:
            yield found[0], keys, process.pid
        finally:
            process.terminate()
            assert process.wait(60) == 0


class Plain:
    """One connection that sends decisions as bare HTTP, so that what is measured is the server and no client."""

    def __init__(self, url: str, key: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._head = f"Host: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def resolve(self, call: PendingCall[Any], _: Any) -> int:
        """Answer a call; the status of the reply."""
        body = json.dumps({"decision": "answer", "value": "yes", "conversation_id": call.conversation_id})
        key = f"Idempotency-Key: {uuid.uuid4().hex}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(f"POST /v1/pending/{call.suspension_id}/resolve HTTP/1.1\r\n{self._head}{key}\r\n{body}".encode())
        status = int((await self._reader.readline()).split()[1])
        length = 0
        while (line := await self._reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        await self._reader.readexactly(length)
        if status >= 500 or status == 429:
            raise ServerUnavailable(str(status))
        assert status == 200, status
        return status


async def waiting(client: AsyncClient, name: str, calls: int = CALLS) -> list[PendingCall[Any]]:
    """The pending calls of a new conversation."""
    conversation = await client.start("bench", f"turn {calls}", conversation_id=f"{name}-{uuid.uuid4().hex}")
    return (await conversation.wait(timeout_s=120)).pending


async def side_by_side(ways: dict[str, Any], direct: AsyncClient, rounds: int) -> dict[str, list[float]]:
    """How long a warm resolve takes (ms) by each way, in turn."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        names = [*list(ways)[turn % 3 :], *list(ways)[: turn % 3]]
        pending = {name: await waiting(direct, "side", 6) for name in names}
        for place in range(5):
            for name in names:
                call = pending[name][place]
                began = time.perf_counter()
                await ways[name].resolve(call, Answer("yes"))
                if turn and place:
                    took[name].append((time.perf_counter() - began) * 1000)
    return took


def resident(pid: int) -> int:
    """The resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


async def connections(direct: AsyncClient) -> int:
    """How many connections Redis has."""
    store: Any = await direct.gateway.stack.store()
    return int((await store._redis.info("clients"))["connected_clients"])


async def idle(direct: AsyncClient, url: str, keys: list[str], pid: int, count: int) -> dict[str, float]:
    """What idle listeners take: half follow a conversation each, half the lists."""
    port, opened = int(url.rpartition(":")[2]), []
    names = [(await waiting(direct, "idle", 1))[0].conversation_id for _ in range(20)]

    async def listen(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        path = "/v1/events" if number % 2 else f"/v1/conversations/{names[number % len(names)]}/events"
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {keys[number % KEYS]}\r\n\r\n"
        writer.write(head.encode())
        status = await reader.readline()
        assert b" 200 " in status, status
        while b"event: " not in await reader.readline():
            pass
        opened.append((reader, writer))

    async def some(first: int, number: int) -> None:
        for start in range(first, number, 50):
            await asyncio.gather(*(listen(one) for one in range(start, min(start + 50, number))))

    await some(0, 20)  # what the first ones bring along comes once
    await asyncio.sleep(2)
    before = resident(pid), await connections(direct)
    with Progress(console=stack.console, transient=True) as progress:
        progress.add_task("listeners", total=None)
        await some(20, count)
        await asyncio.sleep(20)
    cpu = cpu_s(pid)
    await asyncio.sleep(10)
    found = {
        "bytes": resident(pid) - before[0],
        "connections before": before[1],
        "connections": await connections(direct),
        "cpu": (cpu_s(pid) - cpu) / 10,
    }
    for _, writer in opened:
        writer.close()
    return found


def cpu_s(pid: int) -> float:
    """The processor seconds that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def capacity(direct: AsyncClient, ways: dict[str, Callable[[], Any]], count: int) -> dict[str, tuple[float, int, int]]:
    """Resolves a second of resident conversations by each way; how many were refused, to be tried again; how many are lost."""
    found = {}
    for name, make in ways.items():
        calls = [call for _ in range(count) for call in (await waiting(direct, "rate"))[:-1]]
        queue, refused = list(calls), 0

        async def work(make: Callable[[], Any] = make, queue: list[PendingCall[Any]] = queue) -> None:
            nonlocal refused
            async with make() as client:
                while queue:
                    call = queue.pop()
                    try:
                        await client.resolve(call, Answer("yes"))
                    except HoldfastError:
                        refused += 1

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        took_s = time.perf_counter() - began
        left = [len((await direct.conversation(one).state()).pending) for one in {call.conversation_id for call in calls}]
        found[name] = (len(calls) / took_s, refused, sum(left) - len(left) - refused)
    return found


async def seen(direct: AsyncClient, over: AsyncClient, make: Callable[[], Any], rate: float, seconds: float) -> list[float]:
    """How long after a decision was sent another listener has it (ms), at so many decisions a second."""
    told: dict[str, float] = {}
    listening = over.events()
    await anext(listening)
    calls = [call for _ in range(int(rate * seconds / (CALLS - 1)) + 1) for call in (await waiting(direct, "seen"))[:-1]]
    wanted = {call.suspension_id for call in calls}

    async def listen() -> None:
        async for event in listening:
            if event.kind == "settled" and event.data["suspension_id"] in wanted:
                told[event.data["suspension_id"]] = time.perf_counter()
                if len(told) == len(wanted):
                    return

    async def decide(call: PendingCall[Any]) -> None:
        way = await free.get()
        await way.resolve(call, Answer("yes"))
        free.put_nowait(way)

    hearing, sent, work = asyncio.create_task(listen()), {}, []
    free: asyncio.Queue[Any] = asyncio.Queue()
    opened = contextlib.AsyncExitStack()
    for _ in range(AT_ONCE):  # the server closes one that has no request for long
        free.put_nowait(await opened.enter_async_context(make()))
    begin = time.perf_counter()
    for number, call in enumerate(calls):
        await asyncio.sleep(max(begin + number / rate - time.perf_counter(), 0))
        sent[call.suspension_id] = time.perf_counter()
        work.append(asyncio.create_task(decide(call)))
    await asyncio.gather(*work)
    await opened.aclose()
    await asyncio.wait_for(hearing, 60)
    await listening.aclose()
    return [(told[name] - at) * 1000 for name, at in sent.items()]


async def measured(home: Path, *, quick: bool) -> dict[str, Any]:
    os.environ["HOLDFAST_HOME"] = str(home)
    async with AsyncClient.connect(stack.APP, home=home, timeout_s=120) as direct:
        await waiting(direct, "warm", 1)
        async with served(direct) as (url, keys, pid), AsyncClient.connect(url=url, token=keys[0], timeout_s=120) as over:
            await over.pending()
            async with Plain(url, keys[0]) as plain:
                ways = {"in process": direct, "over HTTP": plain, "over HTTP, with our client": over}
                took = await side_by_side(ways, direct, 6 if quick else 40)
            makes = {
                "in process": lambda: contextlib.nullcontext(direct),
                "over HTTP": lambda: Plain(url, keys[1]),
                "over HTTP, with our client": lambda: contextlib.nullcontext(over),
            }
            rates = await capacity(direct, makes, 6 if quick else 30)
            delays = await seen(direct, over, makes["over HTTP"], rates["over HTTP"][0] / 2, 4 if quick else 15)
            listeners = await idle(direct, url, keys, pid, 200 if quick else 1000)
    return {"took": took, "rates": rates, "seen": delays, "idle": listeners}


def measure(*, quick: bool) -> Part:
    """The rows of the server."""
    with stack.home() as home, stack.model():
        raw = asyncio.run(measured(home, quick=quick))
    took, rates, listeners = raw["took"], raw["rates"], raw["idle"]
    p50 = {name: statistics.median(samples) for name, samples in took.items()}
    p95 = {name: statistics.quantiles(samples, n=20)[18] for name, samples in took.items()}
    added = p50["over HTTP"] - p50["in process"]
    late = statistics.quantiles(raw["seen"], n=20)[18]
    rate, _, _lost = rates["over HTTP"]
    most = min(RESOLVES_S, rates["in process"][0])
    count = 200 if quick else 1000
    idle_bytes = listeners["bytes"] * 1000 / count
    return Part(
        rows=[
            Row(
                "added by the server to a warm resolve (p50)",
                added,
                "ms",
                ADDED_MS,
                added / ADDED_MS,
                1.0,
                len(took["over HTTP"]),
            ),
            Row(
                "1,000 idle event streams, memory of the server",
                idle_bytes / 2**20,
                "MiB",
                100,
                idle_bytes / IDLE_BYTES,
                1.0,
                count,
            ),
            Row(
                "a decision until another listener has it, at half of the capacity (p95)",
                late,
                "ms",
                SEEN_MS,
                late / SEEN_MS,
                1.0,
                len(raw["seen"]),
            ),
            Row(
                "resolves a second through one server, of what the actors take (at most 500)",
                rate,
                "/s",
                most,
                rate / most,
                1.0,
                1,
                at_least=True,
            ),
        ],
        tables=[
            Table(
                "A warm resolve, in process and over HTTP",
                ["way", "p50", "p95", "a second", "refused, to be tried again", "lost"],
                [
                    [
                        name,
                        f"{p50[name]:.2f} ms",
                        f"{p95[name]:.2f} ms",
                        f"{rates[name][0]:.0f}",
                        str(rates[name][1]),
                        str(rates[name][2]),
                    ]
                    for name in took
                ],
            ),
            Table(
                f"{count:,} idle event streams of one server",
                ["what", "value"],
                [
                    ["memory for each", f"{listeners['bytes'] / count / 1024:.0f} KiB"],
                    ["connections to Redis, with 20 streams", f"{listeners['connections before']:.0f}"],
                    [f"connections to Redis, with {count:,}", f"{listeners['connections']:.0f}"],
                    ["CPU of the server", f"{listeners['cpu'] * 100:.1f} % of one core"],
                    ["a decision until another listener has it (p50)", f"{statistics.median(raw['seen']):.0f} ms"],
                ],
            ),
        ],
        charts=[],
        raw={**took, "seen": raw["seen"]},
    )
