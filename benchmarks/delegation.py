"""Delegation: a parent and its children against conversations of one model call, by models that answer at once."""

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import stack, store_drive
from benchmarks.outbox import due, receiver
from benchmarks.result import Part, Row, Table, number
from holdfast.client import AsyncClient

APP = "benchmarks.delegation_app:app"
CHILDREN = 10
WARM = 5
HANG_S = 2.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: parents at once, turns one at a time, rounds, and conversations that owe the one that hangs."""

    parents: int = 100
    turns: int = 60
    rounds: int = 5
    hanging: int = 1000


class Stub:
    """The stub model's process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def requests(self) -> int:
        """How many requests came so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def model() -> Iterator[Stub]:
    """A stub model that counts; this process's environment names it."""
    command = [sys.executable, "-m", "benchmarks.stub"]
    with subprocess.Popen(command, cwd=stack.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stack.use_model(process.stdout.readline().strip())
        try:
            yield Stub(process)
        finally:
            process.terminate()


class Side:
    """One kind of conversation; counts those that it starts."""

    def __init__(self, client: AsyncClient, agent: str, text: str) -> None:
        self._client, self._agent, self._text = client, agent, text
        self._started = 0

    async def one(self) -> None:
        """A conversation from its start to its answer."""
        self._started += 1
        conversation = await self._client.start(
            self._agent, self._text, conversation_id=f"{self._agent}-{len(self._text)}-{id(self)}-{self._started}"
        )
        state = await conversation.wait(timeout_s=120)
        while state.running or state.reply is None:
            state = await conversation.wait(after=state.seq, timeout_s=120)
        assert state.reply == "Thank you.", state

    async def in_turn(self, count: int) -> float:
        """So many one after the other; seconds."""
        began = time.perf_counter()
        for _ in range(count):
            await self.one()
        return time.perf_counter() - began

    async def at_once(self, count: int) -> float:
        """So many at once; seconds."""
        began = time.perf_counter()
        await asyncio.gather(*(self.one() for _ in range(count)))
        return time.perf_counter() - began


async def timed(home: Path, stub: Stub, size: Size) -> dict[str, list[float]]:
    """Parents and conversations of one call in turns: one at a time, at once, and at once beside a webhook that hangs."""
    found: dict[str, list[float]] = {name: [] for name in ("two", "parent", "plain", "family", "beside")}
    with receiver():
        async with AsyncClient.connect(APP, home=home, publish=True, timeout_s=240) as client:
            single, parent = Side(client, "clerk", "answer it"), Side(client, "boss", "delegate 1")
            family = Side(client, "boss", f"delegate {CHILDREN}")
            for side in (single, parent):
                await side.in_turn(WARM)
            for _ in range(size.turns):
                found["two"].append(await single.in_turn(2))
                found["parent"].append(await parent.in_turn(1))
            await single.at_once(size.parents * (CHILDREN + 1))  # the actors and workers that many at once have
            for _ in range(size.rounds):
                for name, took_s in (await _at_once(stub, single, family, size.parents)).items():
                    found[name].append(took_s)
            store = await client.gateway.stack.store()
            names = [f"owing-{one}" for one in range(size.hanging)]
            await store_drive.side_by_side((store_drive.suspended(store, name) for name in names), lambda: None)
            seqs = {name: (await store.load(name)).seq for name in names}
            await due(store, "hangs", seqs, await store.now(), app=APP)
            await asyncio.sleep(HANG_S)
            for _ in range(size.rounds):
                found["beside"].append((await _at_once(stub, single, family, size.parents))["family"])
    return found


async def _at_once(stub: Stub, single: Side, family: Side, parents: int) -> dict[str, float]:
    """As many conversations alone as there are in these families, and the families: each model request is made once."""
    plain_s, before = await single.at_once(parents * (CHILDREN + 1)), stub.requests()
    family_s = await family.at_once(parents)
    asked = stub.requests() - before
    assert asked == parents * (CHILDREN + 2), asked
    return {"plain": plain_s, "family": family_s}


def measure(*, quick: bool) -> Part:
    """All of it."""
    size = Size(parents=20, turns=15, rounds=2, hanging=100) if quick else Size()
    with stack.home() as home, model() as stub:
        found = asyncio.run(timed(home, stub, size))
    middle = {name: statistics.median(one) for name, one in found.items()}
    whole = f"{size.parents} parents with {CHILDREN} children each at once"
    compared = [
        ("parent, child, parent, against two conversations of one call", "parent", "two", 2),
        (f"{whole}, against {size.parents * (CHILDREN + 1)} of one call", "family", "plain", 1.5),
        (f"{whole}, beside a webhook that hangs", "beside", "family", 1.1),
    ]
    rows = [
        Row(what, middle[one], "s", middle[other], middle[one] / middle[other], goal, len(found[one]))
        for what, one, other, goal in compared
    ]
    cells = [[row.what, f"{number(row.value)} {row.unit}", f"{number(row.floor)} {row.unit}"] for row in rows]
    return Part(rows=rows, tables=[Table("Delegation", ["what", "measured", "against"], cells)], charts=[])
