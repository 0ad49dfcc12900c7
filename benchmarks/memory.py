"""What a live actor takes, and what a suspended conversation takes at rest: no process, and its bytes in Redis."""

import asyncio
import contextlib
import os
import statistics
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks import stack, store_drive
from benchmarks.result import Chart, Part, Row, Series, Table
from holdfast.client import AsyncClient

GOAL_BYTES = 6 * 1024
LINGER_S = 3
STANDBY = 2
ROLES = {"ray::ConversationActor": "actor", "ray::Worker": "worker", "ray::Sweeper": "sweeper"}


def resident(home: Path) -> dict[str, list[tuple[int, int]]]:
    """Resident and proportional bytes of this stack's processes, by role; told from others by their log folder."""
    found: dict[str, list[tuple[int, int]]] = {}
    for process in Path("/proc").iterdir():
        try:
            title = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            role = next((name for start, name in ROLES.items() if title.startswith(start)), None)
            if role is None or str(home).encode() not in (process / "environ").read_bytes():
                continue
            rollup = (process / "smaps_rollup").read_text()
        except (OSError, ValueError):
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
        found.setdefault(role, []).append((sizes["Rss"], sizes["Pss"]))
    return found


async def measured(home: Path, live: int, count: int) -> dict[str, Any]:
    """Actors that host something, then conversations that nobody hosts."""
    os.environ["HOLDFAST_LINGER_S"] = str(LINGER_S)
    async with AsyncClient.connect(stack.APP, home=home, timeout_s=120) as client:
        warming = await client.start("bench", "turn 1", conversation_id="warming")
        await warming.wait(timeout_s=120)
        store, transport = await client.gateway.stack.store(), await client.gateway.stack.transport()

        async def suspend(name: str) -> None:
            conversation = await client.start("bench", "turn 1", conversation_id=name)
            assert (await conversation.wait(timeout_s=120)).pending

        await asyncio.gather(*(suspend(f"live-{number}") for number in range(live)))
        alive = resident(home)
        await rested(transport, ["warming", *(f"live-{number}" for number in range(live))])
        names = [f"rest-{number}" for number in range(count)]
        with Progress(console=stack.console, transient=True) as progress:
            task = progress.add_task("suspending conversations", total=count)
            for start in range(0, count, 4):
                await asyncio.gather(*(suspend(name) for name in names[start : start + 4]))
                progress.advance(task, 4)
        await rested(transport, names)
        own = [await store_drive.bytes_of(store, name) for name in names]
        hosted = sum([await transport.pid(name) is not None for name in names])
        return {"alive": alive, "left": await left(home), "hosted": hosted, "own": statistics.median(own)}


async def left(home: Path) -> int:
    """How many actors stay, once the spare ones have ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            while len(resident(home).get("actor", [])) > STANDBY:
                await asyncio.sleep(0.5)
    return len(resident(home).get("actor", []))


async def at_rest(home: Path, many: int) -> dict[str, float]:
    """What each of many takes in a Redis that nothing else uses, made through the store."""
    async with store_drive.opened(home, "rest") as (_, store):
        names = [f"rest-{number}" for number in range(many)]
        with Progress(console=stack.console, transient=True) as progress:
            task = progress.add_task("at rest", total=2 * many)

            async def make(made: list[str]) -> None:
                work = (store_drive.suspended(store, name) for name in made)
                await store_drive.side_by_side(work, lambda: progress.advance(task))

            await make([f"before-{number}" for number in range(many)])  # connections and empty indexes come once
            before = await store_drive.used_memory(store)
            await make(names)
        each = (await store_drive.used_memory(store) - before) / many
        return {"each": each, "own": statistics.median([await store_drive.bytes_of(store, name) for name in names])}


async def rested(transport: Any, names: list[str]) -> None:
    """Wait until no process hosts any of them."""
    async with asyncio.timeout(180):
        for name in names:
            while await transport.pid(name) is not None:
                await asyncio.sleep(0.2)


def measure(*, quick: bool) -> Part:
    """The row of a conversation at rest, and the processes' memory."""
    live, count, many = (2, 12, 200) if quick else (6, 60, 2_000)
    lingered = os.environ.get("HOLDFAST_LINGER_S")
    try:
        with stack.home() as home, stack.model():
            rest = asyncio.run(at_rest(home, many))
            raw = {"rest": rest, **asyncio.run(measured(home, live, count))}
    finally:
        os.environ.pop("HOLDFAST_LINGER_S", None)
        if lingered is not None:
            os.environ["HOLDFAST_LINGER_S"] = lingered
    sizes = [
        [role, str(len(each)), *(f"{statistics.median(one[place] for one in each) / 2**20:.0f} MiB" for place in (0, 1))]
        for role, each in sorted(raw["alive"].items())
    ]
    hosted = raw["hosted"]
    actor = [statistics.median(one[place] for one in raw["alive"]["actor"]) / 2**20 for place in (0, 1)]
    bars = [
        Series("a live actor, resident", [(0, actor[0])]),
        Series("a live actor, proportional", [(0, actor[1])]),
        Series("1,000 suspended, in Redis", [(0, rest["each"] * 1000 / 2**20)]),
    ]
    return Part(
        rows=[
            Row(
                "a suspended conversation at rest, in Redis",
                rest["each"],
                "B",
                GOAL_BYTES,
                rest["each"] / GOAL_BYTES,
                1.0,
                many,
            ),
            Row(
                "processes that hold suspended conversations at rest, of those looked at",
                hosted,
                "",
                count,
                hosted / count,
                0.0,
                count,
            ),
        ],
        tables=[
            Table("Processes of the stack (median)", ["process", "count", "resident", "proportional"], sizes),
            Table(
                "A suspended conversation at rest",
                ["what", "value"],
                [
                    [f"Redis' memory for one, indexes included ({many:,} of them)", f"{rest['each']:,.0f} B"],
                    ["the keys of its own, made through the store", f"{rest['own']:,.0f} B"],
                    ["the keys of its own, made through the client and an actor", f"{raw['own']:,.0f} B"],
                    ["Redis' memory for each 1,000", f"{rest['each'] * 1000 / 2**20:.1f} MiB"],
                    [f"processes that hold one of {count}", str(hosted)],
                    [f"actors left after {LINGER_S} s of rest, blank, whatever the number", str(raw["left"])],
                ],
            ),
        ],
        charts=[Chart("memory", "Memory of a live actor and of 1,000 suspended conversations", "", "MiB", bars, bars=True)],
        raw=raw,
    )
