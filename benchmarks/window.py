"""Model calls of a conversation that grows, in a window.

Measured are processor time, how much of each request its provider knows, and what turns write whose conversation is summarised.
"""

import asyncio
import itertools
import json
import statistics
import time
from typing import Any

from model_caller import LOOKUP, Caller
from writer import Writer, begin, call, finish, reply, send

from benchmarks import stack, store_drive
from benchmarks.result import Part, Row, Table, number
from holdfast.actors.worker.transcripts import Transcripts
from holdfast.conversation import Compact, Context, ModelReplied, compaction
from holdfast.testing import ModelServer

BUDGET = 8000
CPU_AT_MOST, BYTES_AT_MOST, BEGINS_AT_LEAST, WRITTEN_AT_MOST = 2, 1.2, 0.9, 1.3
SHORT, LONG = "x" * 120, "y" * 400
NOTES = "z" * 2000
"""A summary of some 600 tokens."""
COMPACTED = Context(budget=BUDGET, compact=Compact())
EARLY, FULL = 10, 50
"""The turns with which the last one is compared: one of a few messages, and one whose window is full."""
FIRST, SPREAD = 2, 100
"""The turn with which those are compared that summaries are spread over, and how many these are."""


async def windowed(caller: Caller, transcripts: Transcripts) -> list[dict[str, Any]]:
    """The messages for the model call that is outstanding, once the summary that is due before it stands."""
    while True:
        reading = await transcripts.reading(caller.writer.store, caller.request)
        window = reading.window(caller.spec)
        assert window.fits, window
        if window.due is None:
            return window.messages
        answered = ModelReplied(effect_id=caller.request.effect_id, content=NOTES)
        verdict = compaction.verdict(answered, window.due, reading.origins)
        assert verdict.failed is None, verdict
        await caller.writer.do(lambda _, said=verdict: said)  # type: ignore[misc]  # mypy takes the default for a second argument


async def held(turns: int, context: Context | None) -> list[tuple[float, list[list[dict[str, Any]]]]]:
    """Of each turn: the processor time (ms) of its last model call in this thread, and the messages of both its requests."""
    found = []
    with ModelServer(script=["Done."] * turns) as server:
        caller = await Caller.of(server, tools=(LOOKUP,))
        caller.spec = caller.spec.model_copy(update={"context": context}).stored_as(caller.spec.digest)
        caller.writer.spec = caller.spec
        transcripts = Transcripts()
        for turn in range(turns):
            first = await windowed(caller, transcripts)
            await caller.writer.do(call("lookup", content=SHORT))
            await caller.writer.do(finish(content=LONG))
            began = time.thread_time()
            last = await windowed(caller, transcripts)
            outcome = await caller.call(last)
            found.append(((time.thread_time() - began) * 1000, [first, last]))
            assert isinstance(outcome, ModelReplied), outcome
            server.requests.clear()
            await caller.writer.do(reply(SHORT), send(f"{turn} {SHORT}"), begin())
    return found


async def written(turns: int) -> list[int]:
    """Of each turn with its call, result and answer: the bytes it wrote to Redis' file, those of its summaries included."""
    found = []
    with stack.home() as home, ModelServer(script=[]) as server:
        async with store_drive.opened(home) as (_, store):
            await store._redis.config_set("auto-aof-rewrite-percentage", 0)
            spec = store_drive.SPEC.model_copy(update={"context": COMPACTED, "tools": (LOOKUP,)}).stored_as("s-1")
            writer = await Writer.of(store, "c-1")
            writer.spec = spec
            caller, transcripts = Caller(server, spec, writer), Transcripts()
            for turn in range(turns):
                before = await store_drive.written_bytes(store)
                await writer.do(send(SHORT) if turn else store_drive.started(text=SHORT), begin())
                for answer in (call("lookup", content=SHORT), reply(SHORT)):
                    await windowed(caller, transcripts)
                    await writer.do(answer)
                    if writer.state.turn is not None:
                        await writer.do(finish(content=LONG))
                found.append(await store_drive.written_bytes(store) - before)
    return found


def measure(*, quick: bool) -> Part:
    """The last turns against early ones, with a window and without."""
    turns, around = (120, 5) if quick else (1_000, 10)
    terms = {
        "window": Context(budget=BUDGET),
        "whole": None,
        "compacted": COMPACTED,
    }
    found = {name: asyncio.run(held(turns, one)) for name, one in terms.items()}
    wrote = asyncio.run(written(turns))
    spread = statistics.mean(wrote[-SPREAD:])

    def cpu(name: str, turn: int) -> float:
        return statistics.median(took for took, _ in found[name][turn - around : turn + around])

    def size(name: str, turn: int) -> float:
        return statistics.median(len(json.dumps(sent[-1])) for _, sent in found[name][turn - around : turn + around])

    def largest(turn: int) -> float:
        """The bytes of the largest request of fifty turns, with summaries: they grow from one summary to the next."""
        return max(len(json.dumps(sent[-1])) for _, sent in found["compacted"][turn - 50 : turn])

    def begins(name: str) -> Row:
        sent = [request for _, requests in found[name] for request in requests]
        count = sum(after[: len(before) - 2] == before[:-2] for before, after in itertools.pairwise(sent))
        said = "requests that begin with all but the last two messages of the one before, of all"
        said += ", with summaries" if name == "compacted" else ""
        share = count / (len(sent) - 1)
        return Row(said, count, "requests", len(sent) - 1, share, BEGINS_AT_LEAST, len(sent) - 1, at_least=True)

    last = turns - around
    return Part(
        rows=[
            Row(
                f"a model call at turn {turns:,} in a window of {BUDGET:,} tokens, against turn {EARLY} (processor time, p50)",
                cpu("window", last),
                "ms",
                cpu("window", EARLY),
                cpu("window", last) / cpu("window", EARLY),
                CPU_AT_MOST,
                2 * around,
            ),
            Row(
                f"bytes of the messages of a request at turn {turns:,}, against turn {FULL}",
                size("window", last),
                "B",
                size("window", FULL),
                size("window", last) / size("window", FULL),
                BYTES_AT_MOST,
                2 * around,
            ),
            Row(
                f"bytes of the messages of a request at turn {turns:,} with summaries, against turn {FULL} (the largest of 50)",
                largest(turns),
                "B",
                largest(FULL),
                largest(turns) / largest(FULL),
                BYTES_AT_MOST,
                50,
            ),
            Row(
                f"bytes written by a turn, snapshots and summaries included: mean of the {SPREAD} up to turn {turns:,},"
                f" against turn {FIRST}",
                spread,
                "B",
                wrote[FIRST - 1],
                spread / wrote[FIRST - 1],
                WRITTEN_AT_MOST,
                SPREAD,
            ),
            begins("window"),
            begins("compacted"),
        ],
        tables=[
            Table(
                "A model call by its turn (processor time of the worker's thread, p50)",
                ["turn", "in a window", "its messages", "the whole conversation", "its messages"],
                [
                    [
                        f"{turn:,}",
                        f"{number(cpu('window', place))} ms",
                        f"{number(size('window', place) / 1024)} KiB",
                        f"{number(cpu('whole', place))} ms",
                        f"{number(size('whole', place) / 1024)} KiB",
                    ]
                    for turn in (EARLY, FULL, 100, 300, 1_000)
                    if turn <= turns
                    for place in (min(turn, last),)
                ],
            )
        ],
    )
