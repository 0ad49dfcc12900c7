"""What is owed: webhooks delivered against plain requests, what owing costs an append, what an idle courier costs."""

import asyncio
import base64
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from writer import Writer, begin, call, finish, reply, resolve, send

from benchmarks import stack, store_drive
from benchmarks.result import Part, Row, Table, number
from holdfast.client import Approve, AsyncClient, Level, Scope
from holdfast.conversation import AgentSpec, Approval, Limits, ToolSpec
from holdfast.conversation.log.owed import notice_target, owed_by
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.grants import CallTarget
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec
from holdfast.counting import Counts
from holdfast.persistence import Append, RedisStore, redis_scripts
from holdfast.registry.courier import Courier
from holdfast.registry.sweep import Sweep
from holdfast.settings import ProcessLimits, Timing

APP = "benchmarks.outbox_app:app"
CLIENTS = 8
GRANTS = 64
HANGING = 200
"""How many conversations owe something to the webhook that never answers."""
SOON_S = 5.0
OWE = """
for i = 4, #ARGV, 2 do
  put(queue_of(ARGV[1], ARGV[i], ARGV[2]), ARGV[i + 1] .. '|suspended|' .. ARGV[3])
  try_at(ARGV[1], ARGV[i], ARGV[2], tonumber(ARGV[3]))
end
return {'ok'}
"""


@contextlib.contextmanager
def receiver() -> Iterator[str]:
    """The URL of the receiver of webhooks, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.receiver"]
    with subprocess.Popen(command, cwd=stack.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
        os.environ.update(BENCH_RECEIVER=url, BENCH_SECRET=secret)
        try:
            yield url
        finally:
            process.terminate()


def _asked(url: str, path: str, data: bytes | None = None) -> Any:
    with urllib.request.urlopen(f"{url}{path}", data, timeout=30) as answer:  # noqa: S310 - our own server
        body = answer.read()
    return json.loads(body) if body else None


async def plain(url: str, count: int) -> float:
    """How long so many plain requests by eight clients take, in seconds."""
    numbers = iter(range(count))
    body = json.dumps({"type": "suspended", "data": {"conversation_id": "c" * 40, "title": "t" * 200}})

    async def one_client() -> None:
        async with httpx.AsyncClient() as client:
            for number_ in numbers:
                (await client.post(f"{url}/answers", content=body, headers={"webhook-id": f"p-{number_}"})).raise_for_status()

    began = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(CLIENTS)))
    return time.perf_counter() - began


async def due(store: RedisStore, target: str, seqs: dict[str, int], at: int, *, app: str = APP) -> None:
    """Each of these conversations owes a notice of the event at its place in the log, from a moment on."""
    by_prefix: dict[str, list[str | int]] = {}
    for name, seq in seqs.items():
        by_prefix.setdefault(store._keys.prefix(name), []).extend((name, f"{seq}|0"))
    source = f"{redis_scripts._text('_prelude')}\n{OWE}"
    for prefix, told in by_prefix.items():
        await store._redis.eval(source, 1, f"{prefix}owed", prefix, notice_target(target, app), at, *told)


async def delivered(store: RedisStore, url: str, seqs: dict[str, int]) -> float:
    """How long it takes until each of these conversations has told its webhook, in seconds."""
    _asked(url, "/forget", b"")
    at = await store.now() + round(SOON_S * 1000)
    await due(store, "answers", seqs, at)
    while (said := _asked(url, "/said"))["count"] < len(seqs):
        await asyncio.sleep(0.2)
    return float(said["last"] - at / 1000)


async def deliveries(home: Path, count: int, rounds: int) -> dict[str, list[float]]:
    """Plain requests and webhooks in turns; then webhooks beside one that hangs."""
    found: dict[str, list[float]] = {"plain": [], "webhooks": [], "beside": []}
    with receiver() as url:
        async with AsyncClient.connect(APP, home=home, publish=True, timeout_s=120) as client:
            store = await client.gateway.stack.store()
            await client.gateway.stack.transport()
            names = [f"owing-{one}" for one in range(count)]
            await store_drive.side_by_side((store_drive.suspended(store, name) for name in names), lambda: None)
            seqs = {name: (await store.load(name)).seq for name in names}
            await delivered(store, url, dict(list(seqs.items())[:20]))  # the worker has opened the app
            for _ in range(rounds):
                found["plain"].append(await plain(url, count))
                found["webhooks"].append(await delivered(store, url, seqs))
            await due(store, "hangs", dict(list(seqs.items())[:HANGING]), await store.now())
            await asyncio.sleep(2)
            for _ in range(rounds):
                found["beside"].append(await delivered(store, url, seqs))
    return found


class Owing(Writer):
    """A writer whose appends owe what its spec names; times its appends."""

    took: list[float]

    def write(self, events: Any = (), after: Any = None, *more: Any) -> Append:
        """As the actors' judge makes it."""
        write = super().write(events, after, *more)
        owed = owed_by(write.events, write.before, write.after, self.spec)
        return Append(**{**{name: getattr(write, name) for name in write.__dataclass_fields__}, "owed": owed})


SPEC = AgentSpec(
    name="bench", model="m", tools=(ToolSpec(name="refund", approval=Approval.REQUIRED),), limits=Limits(max_model_calls=1000)
)
TOLD = SPEC.model_copy(update={"notify": (NotifySpec(name="ops", events=tuple(NoticeKind)),)})


def _refund(number_: int) -> ProposedCall:
    target = CallTarget(kind="path", value=f"src/{number_}", level=Level.WRITE)
    return ProposedCall(tool_call_id="", name="refund", arguments="{}", targets=(target,))


async def appends(home: Path, rounds: int) -> dict[str, list[float]]:
    """The time of a turn's appends with 64 grants, with and without a webhook for each event, in turns; in ms."""
    found: dict[str, list[float]] = {"without": [], "with": []}
    async with store_drive.opened(home, "appends") as (_, store):
        writers = {}
        for name, spec in (("without", SPEC), ("with", TOLD)):
            writer = await Owing.of(store, f"appends-{name}")
            writer.spec = spec
            await writer.do(store_drive.started())
            await writer.do(begin())
            for one in range(GRANTS):
                await writer.do(call(_refund(one)))
                await writer.do(resolve(Approve(scope=Scope("path", f"src/{one}/**", level=Level.WRITE))))
                await writer.do(finish())
            await writer.do(reply("done"))
            assert len(writer.state.grants) == GRANTS
            writers[name] = writer
        for one in range(rounds):
            for name in ("without", "with") if one % 2 else ("with", "without"):
                writer, steps = (
                    writers[name],
                    (send("go on"), begin(), call("refund"), resolve(Approve()), finish(), reply("done")),
                )
                began = time.perf_counter()
                for step in steps:
                    await writer.do(step)
                found[name].append((time.perf_counter() - began) * 1000)
    return found


async def idle(home: Path, seconds: float) -> dict[str, float]:
    """The processor time of a sweep with nothing to do, without and with a courier, in s."""
    found = {0: 0.0, 1: 0.0}
    async with store_drive.opened(home, "idle") as (_, store):
        for couriers in (0, 1, 0, 1):
            sweep = Sweep(store, None, timing=Timing(), process_limits=ProcessLimits(standby=0), counts=Counts())  # type: ignore[arg-type]

            async def tick(sweep: Sweep = sweep) -> None:
                while True:
                    await sweep.tick()
                    await asyncio.sleep(Timing().tick_ms / 1000)

            tasks = [asyncio.create_task(tick())]
            if couriers:
                tasks.append(asyncio.create_task(Courier(store, None, {}).run()))  # type: ignore[arg-type]
            await asyncio.sleep(1)
            began = time.process_time()
            await asyncio.sleep(seconds)
            found[couriers] += time.process_time() - began
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {"without": found[0], "with": found[1]}


def measure(*, quick: bool) -> Part:
    """All three."""
    count, rounds, turns, seconds = (100, 1, 30, 5.0) if quick else (1000, 3, 300, 30.0)
    with stack.home() as home:
        told = asyncio.run(deliveries(home, count, rounds))
    with stack.home() as home:
        times = asyncio.run(appends(home, turns))
    with stack.home() as home:
        spent = asyncio.run(idle(home, seconds))
    middle = {name: statistics.median(one) for name, one in (told | times).items()}
    rows = [
        Row(
            f"{count} webhooks, against plain requests",
            middle["webhooks"],
            "s",
            middle["plain"],
            middle["webhooks"] / middle["plain"],
            2,
            rounds,
        ),
        Row(
            "the same beside a webhook that hangs",
            middle["beside"],
            "s",
            middle["webhooks"],
            middle["beside"] / middle["webhooks"],
            1.1,
            rounds,
        ),
        Row(
            f"a turn's appends at {GRANTS} grants, with a webhook for each event",
            middle["with"],
            "ms",
            middle["without"],
            middle["with"] / middle["without"],
            1.3,
            turns,
        ),
        Row("an idle sweep with its courier", spent["with"], "s", spent["without"], spent["with"] / spent["without"], 1.2, 2),
    ]
    cells = [[row.what, f"{number(row.value)} {row.unit}", f"{number(row.floor)} {row.unit}"] for row in rows]
    return Part(rows=rows, tables=[Table("The outbox", ["what", "measured", "against"], cells)], charts=[])
