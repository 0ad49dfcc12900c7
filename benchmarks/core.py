"""The hot path against its floors, measured in one run: warm resolve, last answer to model request, revival."""

import asyncio
import os
import signal
import statistics
import time
import uuid
from pathlib import Path

from rich.progress import track

from benchmarks import stack
from benchmarks.result import Chart, Part, Row, Series, Table
from benchmarks.stub import script
from holdfast.client import Answer, AsyncClient
from holdfast.testing import ModelServer


async def timed(samples: list[float], work) -> object:
    """Await the work and keep how long it took."""
    began = time.perf_counter()
    result = await work
    samples.append((time.perf_counter() - began) * 1000)
    return result


async def floors(client: AsyncClient, server: ModelServer, rounds: int) -> dict[str, list[float]]:
    """An empty actor call, one fenced append, a bare litellm call's way to the server, a cold actor; in milliseconds."""
    import litellm
    import ray

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
    way: list[float] = []
    for _ in range(max(20, rounds // 4)):
        began = time.time()
        stream = await litellm.acompletion(
            model="openai/gpt-4o-mini", messages=[{"role": "user", "content": "turn 1"}], stream=True, max_retries=0
        )
        async for _chunk in stream:
            pass
        way.append((server.requests[-1].arrived_at_s - began) * 1000)
    return {"empty_call": empty, "append": await appends(client, rounds), "litellm_way": way, "cold_actor": cold}


async def appends(client: AsyncClient, rounds: int) -> list[float]:
    """Fenced appends of one event, made ready beforehand, to a conversation that nobody hosts."""
    from holdfast.conversation import Send, State, decide, evolve
    from holdfast.persistence import Append, Because

    store = await client._stack.store()
    template = await client.start("bench", "turn 1", conversation_id=f"floor-{uuid.uuid4().hex}")
    await template.wait(timeout_s=60)
    name, token = f"floor-{uuid.uuid4().hex}", uuid.uuid4().hex
    got = await store.acquire(
        name, seen_token="", new_token=token, because=Because.ASKED, holder="x", lease_ms=60_000, create=True
    )
    state: State = got.state
    started = await store.at(template.id, [1])
    samples: list[float] = []
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
        await timed(samples if number else [], store.append(name, write))
        state = after.model_copy(update={"queue": after.queue[:1]}) if number == 0 else after
    return samples


async def warm_resolve(client: AsyncClient, rounds: int) -> list[float]:
    """Call to receipt, in milliseconds."""
    conversation = await client.start("bench", "turn 6", conversation_id=f"warm-{uuid.uuid4().hex}")
    receipt, samples = conversation.receipt, []
    for _ in track(range(max(4, rounds // 5)), "warm resolve", console=stack.console, transient=True):
        state = await conversation.wait(after=receipt.seq, timeout_s=120)
        for shown in state.pending[:-1]:
            await timed(samples, shown.resolve(Answer("yes")))
        receipt = await state.pending[-1].resolve(Answer("yes"))
        await conversation.wait(after=receipt.seq, timeout_s=120)
        receipt = await conversation.send("turn 6")
    return samples[5:]


async def answer_to_request(client: AsyncClient, server: ModelServer, rounds: int) -> list[float]:
    """The last answer's call to the model request's arrival, in milliseconds."""
    samples = []
    for _ in track(range(max(20, rounds // 4)), "last answer to request", console=stack.console, transient=True):
        # A conversation of its own each time: litellm's part grows with the history, and the floor has none.
        conversation = await client.start("bench", "turn 1", conversation_id=f"next-{uuid.uuid4().hex}")
        (shown,) = (await conversation.wait(timeout_s=120)).pending
        before = len(server.requests)
        began = time.time()
        receipt = await shown.resolve(Answer("yes"))
        await conversation.wait(after=receipt.seq, timeout_s=60)
        samples.append((server.requests[before].arrived_at_s - began) * 1000)
    return samples


async def revival(client: AsyncClient, rounds: int) -> list[float]:
    """kill -9 of the hosting actor, then resolve: call to receipt, in milliseconds."""
    samples: list[float] = []
    for _ in track(range(max(8, rounds // 20)), "revival", console=stack.console, transient=True):
        conversation = await client.start("bench", "turn 1", conversation_id=f"dead-{uuid.uuid4().hex}")
        (shown,) = (await conversation.wait(timeout_s=60)).pending
        await kill_host(client, conversation.id)
        await timed(samples, shown.resolve(Answer("yes")))
    return samples


async def kill_host(client: AsyncClient, conversation_id: str) -> None:
    """Kill the actor that hosts the conversation; back when it is gone and the pool is full again, as after any pause."""
    transport, store = await client._stack.transport(), await client._stack.store()
    pid = await transport.pid(conversation_id)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while await transport.pid(conversation_id) is not None or await store.offers() < 1:
            await asyncio.sleep(0.1)


async def measured(home: Path, server: ModelServer, rounds: int) -> dict[str, list[float]]:
    """All samples, in milliseconds."""
    async with AsyncClient.connect(stack.APP, home=home, timeout_s=120) as client:
        warming = await client.start("bench", "turn 1")
        await warming.wait(timeout_s=120)
        return {
            "warm": await warm_resolve(client, rounds),
            "following": await answer_to_request(client, server, rounds),
            "revived": await revival(client, rounds),
            **await floors(client, server, rounds),
        }


def measure(*, quick: bool) -> Part:
    """The three rows."""
    with stack.home() as home, ModelServer(script=script) as server:
        stack.use_model(server.url)
        samples = asyncio.run(measured(home, server, 40 if quick else 200))
    p50 = {name: statistics.median(each) for name, each in samples.items()}
    call, append = p50["empty_call"], p50["append"]
    goals = [
        ("warm", "warm resolve, call to receipt (p50)", call + append, 1.5),
        ("following", "last Answer to the model request's arrival (p50)", 2 * call + append + p50["litellm_way"], 1.5),
        ("revived", "kill -9 of the hosting actor, then resolve, to receipt (p50)", p50["cold_actor"], 0.05),
    ]
    floors_of = {
        "empty_call": "an empty Ray actor call",
        "append": "one fenced append",
        "litellm_way": "a bare litellm call's way to the server",
        "cold_actor": "creating a cold Ray actor",
    }
    bars = [
        Series("warm resolve", [(0, p50["warm"])]),
        Series("its floor", [(0, call + append)]),
        Series("answer to request", [(0, p50["following"])]),
        Series("its floor", [(0, goals[1][2])]),
    ]
    return Part(
        rows=[
            Row(what, p50[name], "ms", floor, p50[name] / floor, goal, len(samples[name])) for name, what, floor, goal in goals
        ],
        tables=[
            Table(
                "The floors",
                ["what", "p50", "samples"],
                [[text, f"{p50[name]:.2f} ms", str(len(samples[name]))] for name, text in floors_of.items()],
            )
        ],
        charts=[
            Chart("latency", "Latency against its floor (p50)", "", "milliseconds", bars, bars=True),
            Chart(
                "revival",
                "Revival after kill -9 against a cold actor (p50)",
                "",
                "milliseconds",
                [
                    Series("revived, to the receipt", [(0, p50["revived"])]),
                    Series("a cold Ray actor", [(0, p50["cold_actor"])]),
                ],
                bars=True,
                y_log=True,
            ),
        ],
        raw=samples,
    )
