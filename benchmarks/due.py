"""Many due in one second: delayed messages against starts in a burst, deadlines against resolves, and a resolve beside them."""

import asyncio
import contextlib
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from writer import NextCommand, Writer, begin, call, reply, send

from benchmarks import stack, store_drive
from benchmarks.result import Part, Row, Table, number, percentile
from holdfast.client import Answer, AsyncClient
from holdfast.persistence import RedisStore

CLIENTS = 16
CALLS = 100
"""How many calls there are to resolve beside a burst."""
EVERY_S, SELDOM_S = 0.03, 0.5
AHEAD_MS = 2_000
EACH_MS = 12
"""How long one conversation takes to be written, at most: they are due once all are."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: conversations at once, and rounds."""

    count: int = 1000
    rounds: int = 5


@dataclass
class Bench:
    """One client on one stack, and what was found, in seconds."""

    client: AsyncClient
    store: RedisStore
    count: int
    found: dict[str, list[float]] = field(default_factory=dict)
    rounds: itertools.count = field(default_factory=itertools.count)

    def names(self, side: str) -> list[str]:
        """The ids of new conversations."""
        return [f"{side}-{next(self.rounds)}-{one}" for one in range(self.count)]

    async def beside(self, side: str, burst: Callable[[asyncio.Event], Awaitable[float]]) -> None:
        """Measure a burst, with warm resolves beside it; it sets the event as it begins."""
        conversation = await self.client.start("bench", f"turn {CALLS}", conversation_id=f"warm-{side}-{next(self.rounds)}")
        calls = (await conversation.wait(timeout_s=120)).pending
        begins = asyncio.Event()
        resolving = asyncio.create_task(self._resolving(side, calls[:-1], begins))
        self.found.setdefault(side, []).append(await burst(begins))
        resolving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await resolving
        await conversation.end()

    async def _resolving(self, side: str, calls: list, begins: asyncio.Event) -> None:
        """Resolve calls one after the other: seldom, so that their actor stays, and often once the burst has begun."""
        for shown in calls:
            counts, began = begins.is_set(), time.perf_counter()
            await shown.resolve(Answer("yes"))
            if counts:
                self.found.setdefault(f"resolve beside {side}", []).append(time.perf_counter() - began)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SELDOM_S):
                    await begins.wait()
            await asyncio.sleep(EVERY_S)

    async def starts(self, begins: asyncio.Event) -> float:
        """Conversations that are started at once, until all are answered."""
        names, began = self.names("starts"), time.perf_counter()
        begins.set()

        async def one(name: str) -> None:
            await self._answered(await self.client.start("bench", "answer", conversation_id=name), 0)

        await asyncio.gather(*map(one, names))
        return time.perf_counter() - began

    async def delayed(self, begins: asyncio.Event) -> float:
        """Conversations whose messages are due at the same moment, until all are answered."""
        due = await self._due()

        async def written(name: str) -> None:
            writer = await Writer.of(self.store, name)
            writer.spec = store_drive.SPEC
            await writer.do(store_drive.started(), begin(), reply(), send("answer", due=due))
            await writer.release()
            seqs[name] = writer.state.seq

        seqs: dict[str, int] = {}
        await store_drive.side_by_side((written(name) for name in self.names("delayed")), lambda: None)
        began = await self._until(due)
        begins.set()
        await asyncio.gather(*(self._answered(self.client.conversation(name), seq) for name, seq in seqs.items()))
        return time.perf_counter() - began

    async def expired(self) -> float:
        """Calls whose deadlines pass at the same moment, until all are settled."""
        due = await self._due()
        seqs = await self._asked("expired", due - round(store_drive.SPEC.limits.answer_timeout_s * 1000))
        began = await self._until(due)
        while (await self.store.census(since=0)).pending:
            await asyncio.sleep(0.02)
        took_s = time.perf_counter() - began
        await asyncio.gather(*(self._answered(self.client.conversation(name), seq) for name, seq in seqs.items()))
        return took_s

    async def resolves(self, clients: list[AsyncClient]) -> float:
        """As many calls that clients resolve, each one after the other, until the last receipt."""
        seqs = await self._asked("resolves", await self.store.now())
        states = [await self.client.conversation(name).state() for name in seqs]
        waiting = iter([state.pending[0] for state in states])

        async def one(client: AsyncClient) -> None:
            for shown in waiting:
                await client.resolve(shown, Answer("yes"))

        began = time.perf_counter()
        await asyncio.gather(*map(one, clients))
        took_s = time.perf_counter() - began
        await asyncio.gather(*(self._answered(self.client.conversation(name), seq) for name, seq in seqs.items()))
        return took_s

    async def _asked(self, side: str, now: int) -> dict[str, int]:
        """Conversations that wait for a call each since then, and that nobody hosts; their `seq`."""

        async def written(name: str) -> None:
            writer = await Writer.of(self.store, name)
            writer.spec = store_drive.SPEC
            steps: tuple[NextCommand, ...] = store_drive.started(), begin(), call(("ask", store_drive.QUESTION))
            await writer.do(*steps, now=now)
            await writer.release()
            seqs[name] = writer.state.seq

        seqs: dict[str, int] = {}
        await store_drive.side_by_side((written(name) for name in self.names(side)), lambda: None)
        return seqs

    async def _due(self) -> int:
        return await self.store.now() + AHEAD_MS + EACH_MS * self.count

    async def _until(self, due: int) -> float:
        left_s = (due - await self.store.now()) / 1000
        assert left_s > 0, "the conversations were not written in time"
        await asyncio.sleep(left_s)
        return time.perf_counter()

    async def _answered(self, conversation, seq: int) -> None:
        state = await conversation.wait(after=seq, timeout_s=120)
        while state.running or state.reply != "Thank you.":
            state = await conversation.wait(after=state.seq, timeout_s=120)


async def measured(home: Path, size: Size) -> dict[str, list[float]]:
    """All sides in turns, so that the machine treats them alike."""
    async with contextlib.AsyncExitStack() as opened:
        connect = {"home": home, "timeout_s": 240}
        client = await opened.enter_async_context(AsyncClient.connect(stack.APP, publish=True, **connect))
        clients = [await opened.enter_async_context(AsyncClient.connect(stack.APP, **connect)) for _ in range(CLIENTS)]
        bench = Bench(client, await client.gateway.stack.store(), size.count)
        await bench.starts(asyncio.Event())  # the actors and workers that many at once have
        for _ in range(size.rounds):
            await bench.beside("starts", bench.starts)
            await bench.beside("delayed", bench.delayed)
            bench.found.setdefault("resolves", []).append(await bench.resolves(clients))
            bench.found.setdefault("expired", []).append(await bench.expired())
        return bench.found


def measure(*, quick: bool) -> Part:
    """All of it."""
    size = Size(count=200, rounds=2) if quick else Size()
    with stack.home() as home, stack.model():
        found = asyncio.run(measured(home, size))
    p95 = {side: percentile(found[f"resolve beside {side}"], 95) for side in ("starts", "delayed")}
    rows = [
        _row(
            f"{size.count} delayed messages due at once, until all are answered, against as many starts",
            "delayed",
            "starts",
            1.2,
            found,
        ),
        Row(
            "a warm resolve beside those delayed messages, against one beside those starts (p95)",
            p95["delayed"] * 1000,
            "ms",
            p95["starts"] * 1000,
            p95["delayed"] / p95["starts"],
            1.2,
            len(found["resolve beside delayed"]),
        ),
        _row(
            f"{size.count} deadlines at once, until all are settled, against as many resolves by {CLIENTS} clients",
            "expired",
            "resolves",
            1.5,
            found,
        ),
    ]
    cells = [[row.what, f"{number(row.value)} {row.unit}", f"{number(row.floor)} {row.unit}"] for row in rows]
    return Part(rows=rows, tables=[Table("Many due at once", ["what", "measured", "against"], cells)], raw=found)


def _row(what: str, side: str, other: str, goal: float, found: dict[str, list[float]]) -> Row:
    value, floor = statistics.median(found[side]), statistics.median(found[other])
    return Row(what, value, "s", floor, value / floor, goal, len(found[side]))
