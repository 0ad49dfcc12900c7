"""The hot path against its floors, measured in one run: warm resolve, last answer to model request, revival.

Run it with `python benchmarks/core.py [--rounds N]`. It starts a Redis and a Ray of its own, takes them down, prints a table
and writes `benchmarks/out/core.json`. Absolute times depend on the machine; the ratios are what counts.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from holdfast.client import Answer, AsyncClient
from holdfast.persistence.embedded import stop_redis
from holdfast.persistence.home import Home
from holdfast.registry.embedded import stop_ray
from holdfast.testing import ModelServer, call, calls, say

OUT = Path(__file__).parent / "out"
console = Console()


def script(request: dict) -> dict:
    """The n-th user message says how many calls its turn makes at once; with results there, the turn ends."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return say("Thank you.")
    return calls(*(call("ask", {"question": str(number)}) for number in range(int(last["content"].split()[-1]))))


def p50(samples: list[float]) -> float:
    """The median, in milliseconds."""
    return statistics.median(samples) * 1000


async def timed(samples: list[float], work) -> object:
    """Await the work and keep how long it took."""
    began = time.perf_counter()
    result = await work
    samples.append(time.perf_counter() - began)
    return result


async def floors(client: AsyncClient, server: ModelServer, rounds: int) -> dict[str, float]:
    """An empty actor call, one fenced append, a bare litellm call's way to the server, a cold actor."""
    import litellm
    import ray

    from holdfast.conversation import Send, State, decide, evolve
    from holdfast.persistence import Append, Because

    class Empty:
        async def nothing(self) -> None:
            """Do nothing."""

    remote = ray.remote(Empty)
    cold: list[float] = []
    for _ in range(max(5, rounds // 20)):
        actor = remote.options(num_cpus=0).remote()
        await timed(cold, actor.nothing.remote())
    empty: list[float] = []
    for _ in range(rounds):
        await timed(empty, actor.nothing.remote())

    store = await client._stack.store()
    template = await client.start("bench", "turn 1", conversation_id=f"floor-{uuid.uuid4().hex}")
    state: State = await store.load(template.id)
    await template.wait(timeout_s=60)
    name = f"floor-{uuid.uuid4().hex}"
    token = uuid.uuid4().hex
    got = await store.acquire(
        name, seen_token="", new_token=token, because=Because.ASKED, holder="x", lease_ms=60_000, create=True
    )
    state = got.state
    started = await store.at(template.id, [1])
    append: list[float] = []
    for number in range(rounds + 1):
        if number == 0:
            events = tuple(started)
        else:
            command = Send(text="x", message_id=uuid.uuid4().hex).stamped(got.now, None, {})
            events = decide(state, command).events
        after = state
        for event in events:
            after = evolve(after, event)
        write = Append(token=token, append_id=uuid.uuid4().hex, before=state, after=after, lease_ms=60_000, events=events)
        await timed(append if number else [], store.append(name, write))
        state = after.model_copy(update={"queue": after.queue[:1]}) if number == 0 else after
    way: list[float] = []
    for _ in range(max(20, rounds // 4)):
        began = time.time()
        stream = await litellm.acompletion(
            model="openai/gpt-4o-mini", messages=[{"role": "user", "content": "turn 1"}], stream=True, max_retries=0
        )
        async for _chunk in stream:
            pass
        way.append(server.requests[-1].arrived_at_s - began)
    return {"empty_call": p50(empty), "append": p50(append), "litellm_way": p50(way), "cold_actor": p50(cold)}


async def warm_resolve(client: AsyncClient, rounds: int) -> float:
    """Call to receipt, in milliseconds, p50."""
    conversation = await client.start("bench", "turn 6", conversation_id=f"warm-{uuid.uuid4().hex}")
    receipt, samples = conversation.receipt, []
    for _ in track(range(max(4, rounds // 5)), "warm resolve", console=console):
        state = await conversation.wait(after=receipt.seq, timeout_s=120)
        for shown in state.pending[:-1]:
            await timed(samples, shown.resolve(Answer("yes")))
        receipt = await state.pending[-1].resolve(Answer("yes"))
        await conversation.wait(after=receipt.seq, timeout_s=120)
        receipt = await conversation.send("turn 6")
    return p50(samples[5:])


async def answer_to_request(client: AsyncClient, server: ModelServer, rounds: int) -> float:
    """The last answer's call to the model request's arrival, in milliseconds, p50."""
    samples = []
    for _ in track(range(max(20, rounds // 4)), "last answer to model request", console=console):
        # A conversation of its own each time: litellm's part grows with the history, and the floor has none.
        conversation = await client.start("bench", "turn 1", conversation_id=f"next-{uuid.uuid4().hex}")
        (shown,) = (await conversation.wait(timeout_s=120)).pending
        before = len(server.requests)
        began = time.time()
        receipt = await shown.resolve(Answer("yes"))
        await conversation.wait(after=receipt.seq, timeout_s=60)
        samples.append(server.requests[before].arrived_at_s - began)
    return p50(samples)


async def revival(client: AsyncClient, rounds: int) -> float:
    """kill -9 of the hosting actor, then resolve: call to receipt, in milliseconds, p50."""
    transport = await client._stack.transport()
    store = await client._stack.store()
    samples: list[float] = []
    for _ in track(range(max(8, rounds // 20)), "revival", console=console):
        conversation = await client.start("bench", "turn 1", conversation_id=f"dead-{uuid.uuid4().hex}")
        (shown,) = (await conversation.wait(timeout_s=60)).pending
        pid = await transport.pid(conversation.id)
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):  # until it is gone and the pool is full again, as after any pause
            while await transport.pid(conversation.id) is not None or await store.offers() < 1:
                await asyncio.sleep(0.1)
        await timed(samples, shown.resolve(Answer("yes")))
    return p50(samples)


async def measure(home: Path, server: ModelServer, rounds: int) -> list[dict]:
    """The three rows."""
    async with AsyncClient.connect("bench_app:app", home=home, timeout_s=120) as client:
        warming = await client.start("bench", "turn 1")
        await warming.wait(timeout_s=120)
        warm, following, revived = (
            await warm_resolve(client, rounds),
            await answer_to_request(client, server, rounds),
            await revival(client, rounds),
        )
        floor = await floors(client, server, rounds)
    rows = [
        ("warm resolve, call to receipt", warm, floor["empty_call"] + floor["append"], 1.5),
        (
            "last Answer to the model request arriving",
            following,
            2 * floor["empty_call"] + floor["append"] + floor["litellm_way"],
            1.5,
        ),
        ("kill -9 of the hosting actor, then resolve", revived, floor["cold_actor"], 0.05),
    ]
    console.print({name: round(value, 3) for name, value in floor.items()})
    return [
        {"what": what, "p50_ms": value, "floor_ms": under, "ratio": value / under, "must_reach": goal}
        for what, value, under, goal in rows
    ]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    folder = Path(tempfile.mkdtemp(prefix="hf-bench-", dir="/tmp"))
    home = Home.open(folder)
    with ModelServer(script=script) as server:
        os.environ.update(OPENAI_API_BASE=server.url, OPENAI_API_KEY="x", LITELLM_LOCAL_MODEL_COST_MAP="True")
        try:
            rows = asyncio.run(measure(folder, server, rounds))
        finally:
            stop_ray(home)
            stop_redis(home)
            shutil.rmtree(folder, ignore_errors=True)
    table = Table("what", "p50 ms", "floor ms", "ratio", "must reach", title="Holdfast against its floors, one run")
    for row in rows:
        table.add_row(
            row["what"],
            f"{row['p50_ms']:.2f}",
            f"{row['floor_ms']:.2f}",
            f"{row['ratio']:.3f}",
            f"at most {row['must_reach']}",
        )
    console.print(table)
    OUT.mkdir(exist_ok=True)
    (OUT / "core.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
