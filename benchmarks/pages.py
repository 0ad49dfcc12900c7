"""A page of `client.pending()` against how many calls are pending, also filtered; and what each suspended one takes."""

import asyncio
import contextlib
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.progress import Progress, track
from writer import DESK

from benchmarks import stack, store_drive
from benchmarks.result import Chart, Part, Row, Series, Table, number
from holdfast.client import AsyncClient, ConversationNotFound, Deny, Principal
from holdfast.conversation import Approvers
from holdfast.errors import StaleCall
from holdfast.persistence import RedisStore

AGENTS = 10
TOOLS = ("ask", "refund")
"""One suspends as an elicitation, the other as an approval."""
KIM, THEIRS = Approvers("id:kim"), Approvers("role:other")
MINE = 60
"""How many calls one approver has, whatever the others are."""
FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "by agent": {"agent": "desk-3"},
    "by kind": {"kind": "approval"},
    "by agent and kind": {"agent": "desk-3", "kind": "approval"},
    f"by approver, who has {MINE}": {"approver": Principal("kim")},
}
ALONE, UNKNOWN = "a decision by its suspension alone", "one about an unknown suspension"
PLACED = {ALONE: "a decision with its conversation", UNKNOWN: "one about an unknown conversation"}
MIDDLE = "all, from the middle on"
WARM_UP = 3


async def measured(home: Path, sizes: list[int], rounds: int) -> dict[str, Any]:
    """For each size, a namespace of its own; then their pages in turns, so that the machine's moods meet all of them."""
    specs = [DESK.model_copy(update={"name": f"desk-{number}"}) for number in range(AGENTS)]
    steps: list[dict[str, Any]] = []
    async with AsyncExitStack() as open_:
        with Progress(console=stack.console, transient=True) as progress:
            task = progress.add_task("suspending conversations", total=sum(sizes))
            for size in sizes:
                client, store = await open_.enter_async_context(store_drive.opened(home, f"pages-{size}"))
                before = await store_drive.used_memory(store)
                work = (
                    # Agents and tools go by different counters, so that every agent has both kinds.
                    store_drive.suspended(
                        store,
                        f"page-{one}",
                        spec=specs[one % AGENTS],
                        tool=TOOLS[one // AGENTS % len(TOOLS)],
                        approvers=KIM if one % (size // MINE) == 0 and one // (size // MINE) < MINE else THEIRS,
                    )
                    for one in range(size)
                )
                await store_drive.side_by_side(work, lambda: progress.advance(task))
                used = await store_drive.used_memory(store) - before
                samples: dict[str, list[float]] = {name: [] for name in [*FILTERS, MIDDLE]}
                cursor = await middle(client, size)
                steps.append({"pending": size, "ms": samples, "memory": used, "client": client, "cursor": cursor})
        for turn in track(range(rounds + WARM_UP), "pages", console=stack.console, transient=True):
            for name in [*FILTERS, MIDDLE]:
                for step in steps:
                    began = time.perf_counter()
                    page = await step["client"].pending(**FILTERS.get(name, {"after": step["cursor"]}))
                    took = (time.perf_counter() - began) * 1000
                    assert len(page.items) == 50, (name, len(page.items))
                    if turn >= WARM_UP:
                        step["ms"][name].append(took)
        found = {"steps": [{name: step[name] for name in ("pending", "ms", "memory")} for step in steps]}
        return found | {"decisions": await decisions(client, store, rounds)}


async def decisions(client: AsyncClient, store: RedisStore, rounds: int) -> dict[str, list[float]]:
    """How long decisions take among what is pending, in milliseconds: with the conversation, and without it."""
    samples: dict[str, list[float]] = {name: [] for name in (*PLACED, *PLACED.values())}
    for turn in track(range(rounds + WARM_UP), "decisions", console=stack.console, transient=True):
        for name, taken in samples.items():
            writer = await store_drive.suspended(store, f"{name.replace(' ', '-')}-{turn}", calls=2)  # one waits on: no model
            known = {"suspension_id": writer.suspension_ids[0], "conversation_id": writer.conversation_id}
            if name in (UNKNOWN, PLACED[UNKNOWN]):
                known = {field: f"{text}x" for field, text in known.items()}
            conversation_id = known["conversation_id"] if name in PLACED.values() else None
            began = time.perf_counter()
            with contextlib.suppress(StaleCall, ConversationNotFound):
                await client.resolve(known["suspension_id"], Deny("no"), conversation_id=conversation_id)
            if turn >= WARM_UP:
                taken.append((time.perf_counter() - began) * 1000)
    return samples


async def middle(client: Any, size: int) -> str:
    """The cursor after about half of what is pending."""
    page = await client.pending(limit=min(500, size // 2))
    for _ in range(max(0, size // 1000 - 1)):
        page = await client.pending(limit=500, after=page.next)
    return page.next


def measure(*, quick: bool) -> Part:
    """One row for each filter: the largest size against the smallest."""
    sizes, rounds = ([1_000, 2_000, 5_000], 20) if quick else ([1_000, 10_000, 100_000], 100)
    with stack.home() as home:
        raw = asyncio.run(measured(home, sizes, rounds))
    steps = raw["steps"]
    p50 = {name: [statistics.median(step["ms"][name]) for step in steps] for name in steps[0]["ms"]}
    decided = {name: statistics.median(each) for name, each in raw["decisions"].items()}
    per_1000 = [step["memory"] / step["pending"] * 1000 / 1024 for step in steps]
    return Part(
        rows=[
            Row(
                f"a page of 50 at {sizes[-1]:,} pending against {sizes[0]:,}: {name} (p50)",
                each[-1],
                "ms",
                each[0],
                each[-1] / each[0],
                2.0,
                rounds,
            )
            for name, each in p50.items()
        ]
        + [
            Row(
                f"{name}, at {sizes[-1]:,} pending, against {placed} (p50)",
                decided[name],
                "ms",
                decided[placed],
                decided[name] / decided[placed],
                1.5,
                rounds,
            )
            for name, placed in PLACED.items()
        ],
        tables=[
            Table(
                "One page of 50 by how much is pending (p50), and Redis' memory",
                ["pending", *p50, "Redis for each 1,000"],
                [
                    [f"{size:,}", *(f"{each[place]:.2f} ms" for each in p50.values()), f"{number(per_1000[place])} KiB"]
                    for place, size in enumerate(sizes)
                ],
            )
        ],
        charts=[
            Chart(
                "pages",
                "One page of 50 pending calls (p50)",
                "calls pending",
                "milliseconds",
                [Series(name, list(zip(sizes, each, strict=True))) for name, each in p50.items()],
                x_log=True,
            )
        ],
        raw=raw,
    )
