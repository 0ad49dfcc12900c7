"""What the audit chain costs a decision, over a Redis: its processor time, its bytes, and how quickly a chain is checked."""

import asyncio
import statistics
import time
from unittest import mock

from redis_server import RedisServer
from writer import Writer, begin, call, resolve, start

from benchmarks.result import Part, Row, Table
from holdfast.client.audit import report
from holdfast.conversation import Deny, Principal
from holdfast.conversation.log.auditing import linked
from holdfast.persistence import RedisStore, codec

AT_MOST = 1.25
"""What a decision may take with the chain, of what it takes without."""
CALLS = 20
"""How many calls of one answer wait."""


async def decided(store: RedisStore, name: str, rounds: int) -> tuple[dict[str, list[float]], Writer]:
    """Milliseconds of each decision with its append, with the chain and without, in turns; and the writer with the chain."""
    writers = {kind: await Writer.of(store, f"{name}-{kind}") for kind in ("with", "without")}
    samples: dict[str, list[float]] = {"with": [], "without": [], "with_cpu": [], "without_cpu": []}
    for writer in writers.values():
        await writer.do(start(), begin())
    for number in range(rounds):
        for kind, writer in writers.items():
            if not writer.state.calls.any_awaiting:
                await writer.do(call(*["refund"] * CALLS))
            links = linked if kind == "with" else (lambda _, event, __: event)
            with mock.patch("holdfast.conversation.judging.progress.linked", links):
                began, cpu = time.perf_counter(), time.process_time()
                await writer.do(by_ana(resolve(Deny(f"no, for reason {number}"))))
                samples[kind].append((time.perf_counter() - began) * 1000)
                samples[f"{kind}_cpu"].append((time.process_time() - cpu) * 1000)
    return samples, writers["with"]


def by_ana(step):
    """The step as somebody takes it."""
    return lambda state: step(state).model_copy(update={"principal": Principal("ana@shop.example", roles=("finance",))})


async def measured(rounds: int) -> tuple[dict[str, list[float]], float, int, int, int]:
    """The samples, the milliseconds of a check of that chain, its links and events, and the bytes of a decision's link."""
    with RedisServer() as server:
        store = RedisStore(server.url)
        await store.open()
        await decided(store, "warm", 40)
        samples, writer = await decided(store, "c", rounds)
        began = time.perf_counter()
        found = await report(lambda work: work(store), writer.conversation_id, {})
        took_ms = (time.perf_counter() - began) * 1000
        assert found.intact
        await store.close()
    one = next(event for event in writer.events if event.kind == "suspension_settled")
    plain = one.model_copy(update={"salt": "", "head": "", "shown": ""})
    more = len(codec.encode(one)) - len(codec.encode(plain))
    return samples, took_ms, len(found.entries), writer.state.seq, more


def measure(*, quick: bool) -> Part:
    """One row: a decision with the chain against one without."""
    rounds = 200 if quick else 2000
    samples, took_ms, links, events, more = asyncio.run(measured(rounds))
    p50 = {name: statistics.median(each) for name, each in samples.items()}
    return Part(
        rows=[
            Row(
                "a decision that is judged and appended, with the audit chain against without (p50)",
                p50["with"],
                "ms",
                p50["without"],
                p50["with"] / p50["without"],
                AT_MOST,
                rounds,
            )
        ],
        tables=[
            Table(
                "The audit chain",
                ["what", "measured"],
                [
                    ["processor time of a decision with its append, with the chain", f"{p50['with_cpu']:.3f} ms"],
                    ["the same without the chain", f"{p50['without_cpu']:.3f} ms"],
                    ["bytes more in the log for a decision", str(more)],
                    [f"a check of {links} decisions in a log of {events} events", f"{took_ms:.0f} ms"],
                ],
            )
        ],
        charts=[],
        raw=samples,
    )
