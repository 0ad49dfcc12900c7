"""Model calls of a conversation that grows, in a window: processor time, and how much of each request its provider knows."""

import asyncio
import itertools
import json
import statistics
import time
from typing import Any

from model_caller import LOOKUP, Caller
from writer import begin, call, finish, reply, send

from benchmarks.result import Part, Row, Table, number
from holdfast.actors.worker.transcripts import Transcripts
from holdfast.conversation import Compact, Context, ModelReplied, compaction
from holdfast.testing import ModelServer

BUDGET = 8000
CPU_AT_MOST, BYTES_AT_MOST, BEGINS_AT_LEAST = 2, 1.2, 0.9
SHORT, LONG = "x" * 120, "y" * 400
NOTES = "z" * 2000
"""A summary of some 600 tokens."""
EARLY, FULL = 10, 50
"""The turns with which the last one is compared: one of a few messages, and one whose window is full."""


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


def measure(*, quick: bool) -> Part:
    """The last turns against early ones, with a window and without."""
    turns, around = (120, 5) if quick else (1_000, 10)
    terms = {
        "window": Context(budget=BUDGET),
        "whole": None,
        "compacted": Context(budget=BUDGET, compact=Compact()),
    }
    found = {name: asyncio.run(held(turns, one)) for name, one in terms.items()}

    def cpu(name: str, turn: int) -> float:
        return statistics.median(took for took, _ in found[name][turn - around : turn + around])

    def size(name: str, turn: int) -> float:
        return statistics.median(len(json.dumps(sent[-1])) for _, sent in found[name][turn - around : turn + around])

    def largest(turn: int) -> float:
        """The bytes of the largest request of fifty turns, with summaries: they grow from one summary to the next."""
        return max(len(json.dumps(sent[-1])) for _, sent in found["compacted"][turn - 50 : turn])

    sent = [request for _, requests in found["window"] for request in requests]
    begins = sum(after[: len(before) - 2] == before[:-2] for before, after in itertools.pairwise(sent))
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
                "requests that begin with all but the last two messages of the one before, of all",
                begins,
                "requests",
                len(sent) - 1,
                begins / (len(sent) - 1),
                BEGINS_AT_LEAST,
                len(sent) - 1,
                at_least=True,
            ),
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
