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


class Floors:
    """What nothing can be quicker than, in milliseconds, taken between the samples that it is the floor of.

    In a tight loop of its own a floor runs on warm caches and an idle machine, and what it is compared with does not.
    """

    def __init__(self, client: AsyncClient, server: ModelServer) -> None:
        self.samples: dict[str, list[float]] = {
            "empty_call": [],
            "carrying_call": [],
            "append": [],
            "litellm_way": [],
            "cold_actor": [],
        }
        self._client = client
        self._server = server

    async def open(self) -> None:
        """An actor that does nothing, and a conversation that nobody hosts."""
        import ray

        from holdfast.persistence import Takeover, TakeoverReason

        class Empty:
            async def nothing(self) -> None:
                """Do nothing."""

            async def carry(self, command: bytes) -> bytes:
                """Do nothing, with as much to carry as a resolve and its receipt."""
                return command[:150]

        self._remote = ray.remote(Empty)
        self._actor = self._remote.options(num_cpus=0).remote()
        await self._actor.nothing.remote()
        self._store = await self._client.gateway.stack.store()
        template = await self._client.start("bench", "turn 1", conversation_id=f"floor-{uuid.uuid4().hex}")
        await template.wait(timeout_s=60)
        self._name, self._token = f"floor-{uuid.uuid4().hex}", uuid.uuid4().hex
        got = await self._store.acquire(
            self._name,
            Takeover(
                seen_token="", new_token=self._token, because=TakeoverReason.ASKED, actor="x", lease_ms=600_000, create=True
            ),
        )
        self._state, self._now = got.state, got.now
        await self._append(tuple(await self._store.at(template.id, [1])), [])

    async def take(self) -> None:
        """A fenced append of one event and an actor call, empty or one that carries something.

        Who comes after a call of Ray's finds Ray warm, who comes after an append does not: the order changes each time, so that
        the empty call and what is measured between the floors come as often after the one as after the other.
        """
        turn = len(self.samples["append"])
        if turn % 2:
            await self._take_append()
        if turn % 4 < 2:
            await timed(self.samples["empty_call"], self._actor.nothing.remote())
        else:
            await timed(self.samples["carrying_call"], self._actor.carry.remote(bytes(400)))
        if not turn % 2:
            await self._take_append()

    async def _take_append(self) -> None:
        from holdfast.conversation import AgentSpec, Limits, Send, decide

        spec = AgentSpec(name="floor", model="x", limits=Limits(queued=10_000))  # no turn takes these messages out of the queue
        command = Send(text="x", message_id=uuid.uuid4().hex).stamped(self._now, spec, {})
        await self._append(decide(self._state, command).events, self.samples["append"])

    async def _append(self, events, samples: list[float]) -> None:
        from holdfast.conversation import evolve
        from holdfast.persistence import Append

        after = self._state
        for event in events:
            after = evolve(after, event)
        write = Append(
            token=self._token,
            append_id=uuid.uuid4().hex,
            before=self._state,
            after=after,
            lease_ms=600_000,
            events=events,
        )
        await timed(samples, self._store.append(self._name, write))
        self._state = after

    async def take_way(self) -> None:
        """A bare litellm call's way to the server."""
        import litellm

        began = time.time()
        stream = await litellm.acompletion(
            model="openai/gpt-4o-mini", messages=[{"role": "user", "content": "turn 1"}], stream=True, max_retries=0
        )
        async for _chunk in stream:
            pass
        self.samples["litellm_way"].append((self._server.requests[-1].arrived_at_s - began) * 1000)

    async def take_cold(self) -> None:
        """Creating a cold Ray actor."""
        actor = self._remote.options(num_cpus=0).remote()
        await timed(self.samples["cold_actor"], actor.nothing.remote())


async def warm_resolve(client: AsyncClient, floors: Floors, rounds: int) -> list[float]:
    """Call to receipt, in milliseconds."""
    conversation = await client.start("bench", "turn 6", conversation_id=f"warm-{uuid.uuid4().hex}")
    receipt, samples = conversation.receipt, []
    for _ in track(range(max(4, rounds // 5)), "warm resolve", console=stack.console, transient=True):
        state = await conversation.wait(after=receipt.seq, timeout_s=120)
        for shown in state.pending[:-1]:
            await timed(samples, shown.resolve(Answer("yes")))
            await floors.take()
        receipt = await state.pending[-1].resolve(Answer("yes"))
        await conversation.wait(after=receipt.seq, timeout_s=120)
        receipt = await conversation.send("turn 6")
    return samples[5:]


async def answer_to_request(client: AsyncClient, server: ModelServer, floors: Floors, rounds: int) -> dict[str, list[float]]:
    """The first decision's call to its receipt, and the last answer's call to the model request's arrival, in milliseconds."""
    first, samples = list[float](), list[float]()
    for _ in track(range(max(20, rounds // 4)), "last answer to request", console=stack.console, transient=True):
        # A conversation of its own each time: litellm's part grows with the history, and the floor has none.
        conversation = await client.start("bench", "turn 2", conversation_id=f"next-{uuid.uuid4().hex}")
        unheld, shown = (await conversation.wait(timeout_s=120)).pending
        await timed(first, unheld.resolve(Answer("yes")))
        await floors.take()
        before = len(server.requests)
        began = time.time()
        receipt = await shown.resolve(Answer("yes"))
        await conversation.wait(after=receipt.seq, timeout_s=60)
        samples.append((server.requests[before].arrived_at_s - began) * 1000)
        await floors.take()
        await floors.take_way()
    return {"first": first, "following": samples}


async def revival(client: AsyncClient, floors: Floors, rounds: int) -> list[float]:
    """kill -9 of the hosting actor, then resolve: call to receipt, in milliseconds."""
    samples: list[float] = []
    for _ in track(range(max(8, rounds // 20)), "revival", console=stack.console, transient=True):
        conversation = await client.start("bench", "turn 1", conversation_id=f"dead-{uuid.uuid4().hex}")
        (shown,) = (await conversation.wait(timeout_s=60)).pending
        await kill_host(client, conversation.id)
        await timed(samples, shown.resolve(Answer("yes")))
        await floors.take_cold()
    return samples


async def kill_host(client: AsyncClient, conversation_id: str) -> None:
    """Kill the actor that hosts the conversation; back when it is gone and the pool is full again, as after any pause."""
    transport, store = await client.gateway.stack.transport(), await client.gateway.stack.store()
    pid = await transport.held(conversation_id)
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
        floors = Floors(client, server)
        await floors.open()
        await floors.take_way()
        floors.samples["litellm_way"].clear()  # the first one imports, and makes its connection
        return {
            "warm": await warm_resolve(client, floors, rounds),
            **await answer_to_request(client, server, floors, rounds),
            "revived": await revival(client, floors, rounds),
            **floors.samples,
        }


def measure(*, quick: bool) -> Part:
    """The rows and charts."""
    with stack.home() as home, ModelServer(script=script) as server:
        stack.use_model(server.url)
        samples = asyncio.run(measured(home, server, 40 if quick else 200))
    p50 = {name: statistics.median(each) for name, each in samples.items()}
    call, append = p50["empty_call"], p50["append"]
    goals = [
        ("warm", "warm resolve, call to receipt (p50)", call + append, 1.3),
        ("first", "the first decision about a conversation, which an actor takes up for it (p50)", call + 2 * append, 3),
        ("following", "last Answer to the model request's arrival (p50)", 2 * call + append + p50["litellm_way"], 1.5),
        ("revived", "kill -9 of the hosting actor, then resolve, to receipt (p50)", p50["cold_actor"], 0.03),
    ]
    floors_of = {
        "empty_call": "an empty Ray actor call",
        "carrying_call": "a Ray actor call with 400 bytes there and 150 back (in no floor: what Ray takes for any content)",
        "append": "one fenced append",
        "litellm_way": "a bare litellm call's way to the server",
        "cold_actor": "creating a cold Ray actor",
    }
    bars = [
        Series("warm resolve", [(0, p50["warm"])]),
        Series("its floor", [(0, call + append)]),
        Series("answer to request", [(0, p50["following"])]),
        Series("its floor", [(0, goals[2][2])]),
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
