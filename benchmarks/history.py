"""Bytes and revival against the length of a conversation's history."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

from rich.progress import track
from writer import Writer

from benchmarks import stack, store_drive
from benchmarks.core import kill_host, timed
from benchmarks.result import Chart, Part, Row, Series, Table, number
from benchmarks.stub import script
from holdfast.client import Answer, AsyncClient
from holdfast.testing import ModelServer

EARLY, LATE = 2, 200
FEW_TURNS = 10
REVIVAL_AT_MOST = 3


async def turns(home: Path, lengths: list[int]) -> list[dict[str, int]]:
    """One conversation, turn by turn: what each turn wrote, and what all take; nothing else writes meanwhile."""
    steps = []
    async with store_drive.opened(home, "turns") as (_, store):
        writer = await Writer.of(store, "turns")
        writer.spec = store_drive.SPEC
        await store._redis.config_set("auto-aof-rewrite-percentage", 0)
        for turn in track(range(1, lengths[-1] + 1), "turns", console=stack.console, transient=True):
            before = await store_drive.written_bytes(store)
            await store_drive.whole_turn(writer, first=turn == 1)
            written = await store_drive.written_bytes(store) - before
            writer.events.clear()
            steps.append({"turn": turn, "written": written, "kept": await store_drive.bytes_of(store, "turns")})
    return steps


async def revivals(home: Path, server: ModelServer, lengths: list[int], rounds: int) -> list[dict[str, Any]]:
    """For each length: kill -9 of the host, then the resolve's receipt and the next model request, in milliseconds."""
    steps = []
    async with AsyncClient.connect(stack.APP, home=home, timeout_s=120) as client:
        warming = await client.start("bench", "turn 1")
        await warming.wait(timeout_s=120)
        store = await client.gateway.stack.store()
        for length in track(lengths, "revivals", console=stack.console, transient=True):
            name = f"long-{length}"
            writer = await Writer.of(store, name)
            writer.spec = store_drive.SPEC
            for turn in range(length):
                await store_drive.whole_turn(writer, first=turn == 0)
            await writer.release()
            conversation = client.conversation(name)
            receipts: list[float] = []
            requests: list[float] = []
            for _ in range(rounds):
                sent = await conversation.send("turn 1")
                (shown,) = (await conversation.wait(after=sent.seq, timeout_s=60)).pending
                await kill_host(client, name)
                before, began = len(server.requests), time.time()
                receipt = await timed(receipts, shown.resolve(Answer("yes")))
                await conversation.wait(after=receipt.seq, timeout_s=60)
                requests.append((server.requests[before].arrived_at_s - began) * 1000)
            bare = await bare_calls(server, await conversation.messages(), rounds)
            steps.append({"turns": length, "receipt_ms": receipts, "request_ms": requests, "bare_ms": bare})
    return steps


async def bare_calls(server: ModelServer, messages: list[dict], rounds: int) -> list[float]:
    """What litellm alone needs to get as long a history to the server, in milliseconds."""
    import litellm

    samples = []
    for _ in range(rounds + 1):
        began = time.time()
        stream = await litellm.acompletion(
            model="openai/gpt-4o-mini", messages=[dict(one) for one in messages[:-1]], stream=True, max_retries=0
        )
        async for _chunk in stream:
            pass
        samples.append((server.requests[-1].arrived_at_s - began) * 1000)
    return samples[1:]


def measure(*, quick: bool) -> Part:
    """Turn 200 against turn 2, and the curves."""
    lengths, rounds = ([1, FEW_TURNS, 200], 3) if quick else ([1, 10, 100, 300, 1000], 8)
    with stack.home() as home, ModelServer(script=script) as server:
        stack.use_model(server.url)
        written = asyncio.run(turns(home, lengths))
        revived = asyncio.run(revivals(home, server, lengths, rounds))
    late, early = (next(one["written"] for one in written if one["turn"] == turn) for turn in (LATE, EARLY))
    receipt = [statistics.median(step["receipt_ms"]) for step in revived]
    request = [statistics.median(step["request_ms"]) for step in revived]
    bare = [statistics.median(step["bare_ms"]) for step in revived]
    at = {one["turn"]: one for one in written}
    many, few = request[-1], request[lengths.index(FEW_TURNS)]
    return Part(
        rows=[
            Row(
                f"bytes written by turn {LATE}, snapshot included, against turn {EARLY}", late, "B", early, late / early, 1.1, 1
            ),
            Row(
                f"revival to model request after {lengths[-1]:,} turns, against after {FEW_TURNS} (p50)",
                many,
                "ms",
                few,
                many / few,
                REVIVAL_AT_MOST,
                rounds,
            ),
        ],
        tables=[
            Table(
                "By the length of the history",
                [
                    "turns",
                    "written by that turn",
                    "kept in Redis",
                    "revival to receipt (p50)",
                    "revival to model request (p50)",
                    "litellm alone (p50)",
                ],
                [
                    [
                        f"{length:,}",
                        f"{at[length]['written']:,} B",
                        f"{at[length]['kept'] / 1024:,.1f} KiB",
                        f"{number(receipt[place])} ms",
                        f"{number(request[place])} ms",
                        f"{number(bare[place])} ms",
                    ]
                    for place, length in enumerate(lengths)
                ],
            )
        ],
        charts=[
            Chart(
                "turns",
                "Bytes that one turn writes, by the turn's number",
                "turn",
                "bytes written",
                [Series("log, snapshot and indexes", [(one["turn"], one["written"]) for one in _thinned(written)])],
            ),
            Chart(
                "kept",
                "What a conversation keeps in Redis, by its turns",
                "turns",
                "KiB",
                [Series("log, snapshot, receipts", [(one["turn"], one["kept"] / 1024) for one in _thinned(written)])],
            ),
            Chart(
                "history",
                "Revival after kill -9 by the length of the history (p50)",
                "turns before",
                "milliseconds",
                [
                    Series("to the receipt", list(zip(lengths, receipt, strict=True))),
                    Series("to the model request", list(zip(lengths, request, strict=True))),
                    Series("litellm alone, as many messages", list(zip(lengths, bare, strict=True))),
                ],
                x_log=True,
                y_log=True,
            ),
        ],
        raw={"turns": written, "revivals": revived},
    )


def _thinned(steps: list[dict[str, int]]) -> list[dict[str, int]]:
    every = max(1, len(steps) // 60)
    return [step for place, step in enumerate(steps) if place % every == 0 and place]
