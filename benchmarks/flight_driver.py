"""Drives one system through one part of the benchmark of conversations in flight, in a process of its own.

`python -m benchmarks.flight_driver SYSTEM VERB ...` is started by `benchmarks/in_flight.py`. At each mark it prints a line of
JSON and waits for a line on its standard input, so that who started it can look at the processes meanwhile. Peers run this
module in an environment without Holdfast, so what it needs is imported where it is used.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

MODEL = "openai/gpt-4o-mini"
APP = "benchmarks.flight_app:app"
ANSWER = "Thank you."
TELL_EVERY_S = 5.0
SETTLE_S = 3.0
HOLD_WITHIN_S = 90.0
"""How long those that are to wait for their model may take to get there."""
START_TIMEOUT_S = 30.0
"""How long one of the new conversations may take to be acknowledged: the client's default."""

Verb = Callable[["Driver", "Channel"], Awaitable[None]]


async def call_model(text: str) -> str:
    """The call that Holdfast's worker makes, with the same options; the model's answer."""
    import litellm

    stream = await litellm.acompletion(
        model=MODEL,
        messages=[{"role": "user", "content": text}],
        stream=True,
        stream_options={"include_usage": True},
        num_retries=0,
        max_retries=0,
        timeout=3600,
    )
    content = ""
    async for chunk in stream:
        if chunk.choices:
            content += chunk.choices[0].delta.content or ""
    return content


class Channel:
    """To who started this process: marks go there, and the word to go on comes back."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    async def mark(self, name: str, **found: Any) -> dict[str, Any]:
        """Say where this process is, and wait until it may go on; the order that comes with that, if any."""
        self._out.write(json.dumps({"mark": name, **found}) + "\n")
        self._out.flush()
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            sys.exit("nobody waits for what this finds")
        return dict(json.loads(line)) if line.strip() else {}


class Driver:
    """One system, in this process and on one event loop."""

    packages: tuple[str, ...] = ("litellm",)
    """Distributions whose versions are told."""
    settings = ""
    """What it is, in words."""
    warm_s = 2.0
    """How long a rate is warmed up."""
    warm_each_s = 0.0
    """How much longer for each that is held at once: until all the processes are there that the width needs."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    async def open(self) -> None:
        """Get ready."""

    async def close(self) -> None:
        """Give up what is open."""

    async def converse(self, text: str, acknowledged: Callable[[], None]) -> str:
        """Hold a conversation of one message, whose text is its id, too; the answer. Tell when its start is durable."""
        raise NotImplementedError


class Floor(Driver):
    """Plain litellm."""

    settings = "litellm.acompletion, streamed, in one process"

    async def converse(self, text: str, acknowledged: Callable[[], None]) -> str:  # noqa: ARG002 - nothing is durable
        """Call the model."""
        return await call_model(text)


class Holdfast(Driver):
    """The public client on the embedded stack."""

    packages = ("holdfast", "ray", "redis", "litellm")
    settings = "embedded Redis (appendonly, appendfsync always) and Ray, default settings"
    warm_s = 8.0
    warm_each_s = 0.5

    async def open(self) -> None:
        """Make a client; its first conversation starts the stack."""
        from holdfast.client import AsyncClient

        given = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_") and name != "HOLDFAST_HOME"}
        if given:
            self.settings = f"embedded Redis and Ray, {', '.join(f'{name}={value}' for name, value in given.items())}"
        self.client = AsyncClient.connect(APP, timeout_s=self.options.patience)

    async def close(self) -> None:
        """Leave the stack."""
        await self.client.aclose()

    async def converse(self, text: str, acknowledged: Callable[[], None]) -> str:
        """Start it, and wait until it rests."""
        conversation = await self.client.start("flight", text, conversation_id=text)
        acknowledged()
        receipt = conversation.receipt
        assert receipt is not None
        state = await conversation.wait(after=receipt.seq, timeout_s=self.options.patience)
        return state.reply or f"{state.status}"


class Nothing:
    """What an empty actor is made of."""

    async def nothing(self) -> None:
        """Do nothing."""


class Turns(Holdfast):
    """Turns of several kinds, and what they are made of; the text's first word says which."""

    _actor: Any = None

    async def converse(self, text: str, acknowledged: Callable[[], None]) -> str:
        """Hold a conversation with the agent of that name, or only start it (`start`), or only call the actor (`empty`)."""
        from holdfast.client import Answer

        kind = text.partition("-")[0]
        if kind == "empty":
            import ray

            self._actor = self._actor or ray.remote(Nothing).options(num_cpus=0).remote()
            await self._actor.nothing.remote()
            return ANSWER
        conversation = await self.client.start(kind if kind in {"look", "ask"} else "flight", text, conversation_id=text)
        acknowledged()
        if kind == "start":
            return ANSWER
        state = await conversation.wait(after=conversation.receipt.seq, timeout_s=self.options.patience)
        for shown in state.pending:
            receipt = await shown.resolve(Answer("yes"))
            state = await conversation.wait(after=receipt.seq, timeout_s=self.options.patience)
        return state.reply or f"{state.status}"


class Empty(Driver):
    """Ray actors that do nothing, on a Ray of the same settings."""

    packages = ("ray",)
    settings = "ray.remote classes with one asynchronous method"

    async def open(self) -> None:
        """Join the Ray of the home."""
        from holdfast.embedded.home import Home
        from holdfast.embedded.local_ray import ensure_ray

        address = ensure_ray(Home.open(Path(os.environ["HOLDFAST_HOME"])))
        os.environ.update(address.env)
        import ray

        ray.init(address=address.address, log_to_driver=False)

    async def close(self) -> None:
        """Leave it."""
        import ray

        ray.shutdown()


class Progress:
    """Counts conversations by how they end, and now and then says so on standard error."""

    def __init__(self, what: str, count: int) -> None:
        self.ends: Counter[str] = Counter()
        self.acknowledged_s: list[float] = []
        self.answered_s: list[float] = []
        self._what, self._count = what, count
        self._began = time.perf_counter()

    async def one(self, driver: Driver, text: str, *, after_s: float = 0.0) -> None:
        """Hold one conversation; an error is one of its ends."""
        await asyncio.sleep(after_s)
        began = time.perf_counter()
        try:
            reply = await driver.converse(text, lambda: self.acknowledged_s.append(time.perf_counter() - began))
        except Exception as error:  # noqa: BLE001 - it is counted, and the others go on
            self.ends[type(error).__name__] += 1
            if self.ends[type(error).__name__] == 1:
                say(f"{self._what}: {text}: {type(error).__name__}: {error}"[:400])
        else:
            self.ends["answered" if reply == ANSWER else f"other reply: {reply[:60]}"] += 1
            self.answered_s.append(time.perf_counter() - began)

    async def tell(self) -> None:
        """Say how far it is, until cancelled."""
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            took = time.perf_counter() - self._began
            many = f"{len(self.acknowledged_s)} acknowledged, {self.ends.total()} of {self._count} ended"
            say(f"{self._what}: {many}, {took:.0f} s")

    def found(self) -> dict[str, Any]:
        """As JSON values."""
        return {"ends": dict(self.ends), "acknowledged_s": self.acknowledged_s, "answered_s": self.answered_s}


async def flight(driver: Driver, channel: Channel) -> None:
    """So many conversations at once, one model call each, until all have answered."""
    count = driver.options.count
    progress = Progress(f"{driver.options.system}, {count} at once", count)
    await channel.mark("begin", **about(driver))
    telling = asyncio.create_task(progress.tell())
    began = time.perf_counter()
    await asyncio.gather(*(progress.one(driver, f"flight-{number}") for number in range(count)))
    took = time.perf_counter() - began
    telling.cancel()
    await channel.mark("end", took_s=took, **progress.found())


async def rate(driver: Driver, channel: Channel) -> None:
    """One-call conversations one after the other, at several widths; a part of the time is measured, when it has warmed up."""
    for level in driver.options.levels:
        say(f"{driver.options.system}: warming up with {level} at once")
        progress = Progress(f"{driver.options.system}, {level} at once", 0)
        tasks = [asyncio.create_task(_one_after_another(driver, progress, f"rate-{level}-{lane}")) for lane in range(level)]
        try:
            await asyncio.sleep(0.5 if driver.options.quick else driver.warm_s + level * driver.warm_each_s)
            await channel.mark("begin", level=level, **about(driver))
            before, began = progress.ends.total(), time.perf_counter()
            await asyncio.sleep(driver.options.window)
            held, took = progress.ends.total() - before, time.perf_counter() - began
            await channel.mark("end", level=level, conversations=held, took_s=took, ends=dict(progress.ends))
        finally:
            await _cancelled(tasks)


async def _one_after_another(driver: Driver, progress: Progress, prefix: str) -> None:
    for number in itertools.count():
        await progress.one(driver, f"{prefix}-{number}")


async def orders(driver: Driver, channel: Channel) -> None:
    """Each order asks for a number of conversations of a kind, so many at once; between two orders nothing goes on."""
    texts = itertools.count()
    while order := await channel.mark("ready", **about(driver)):
        names = iter([f"{order['kind']}-{next(texts)}" for _ in range(order["count"])])
        progress = Progress(f"{driver.options.system}, {order['level']} at once", order["count"])

        async def lane(names: Iterator[str] = names, progress: Progress = progress) -> None:
            for name in names:
                await progress.one(driver, name)

        began, computed = time.perf_counter(), time.process_time()
        await asyncio.gather(*(lane() for _ in range(order["level"])))
        took, cpu = time.perf_counter() - began, time.process_time() - computed
        await channel.mark("done", took_s=took, cpu_s=cpu, **progress.found())


async def waiting(driver: Driver, channel: Channel) -> None:
    """New conversations at a steady pace on an idle system, and while many wait for their model."""
    count, each_s = driver.options.count, 1 / driver.options.pace
    new = max(1, round(driver.options.window * driver.options.pace))
    say(f"{driver.options.system}: {new} new conversations on an idle system, {driver.options.pace:g} a second")
    idle = Progress("idle", new)
    await asyncio.gather(*(idle.one(driver, f"idle-{number}", after_s=number * each_s) for number in range(new)))
    await channel.mark("idle", **idle.found(), **about(driver))
    behind = Progress(f"{count} that wait", count)
    telling = asyncio.create_task(behind.tell())
    tasks = [asyncio.create_task(behind.one(driver, f"held-{number}")) for number in range(count)]
    give_up = time.perf_counter() + HOLD_WITHIN_S
    while len(behind.acknowledged_s) + behind.ends.total() < count and time.perf_counter() < give_up:
        await asyncio.sleep(0.1)
    await asyncio.sleep(0 if driver.options.quick else SETTLE_S)
    await channel.mark("held", acknowledged=len(behind.acknowledged_s))
    say(f"{driver.options.system}: {new} new conversations while {len(behind.acknowledged_s)} wait")
    busy = Progress("busy", new)
    await asyncio.gather(
        *(_within(busy.one(driver, f"busy-{number}", after_s=number * each_s), number * each_s) for number in range(new))
    )
    telling.cancel()
    await channel.mark("busy", late=new - len(busy.acknowledged_s), **busy.found())
    async with asyncio.timeout(driver.options.patience):
        await asyncio.gather(*tasks)
    await channel.mark("released", **behind.found())


async def _within(work: Awaitable[None], after_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(after_s + START_TIMEOUT_S):
            await work


async def idle(driver: Driver, channel: Channel) -> None:
    """So many conversations that waited for their model at the same time, and then rest."""
    count = driver.options.count
    progress = Progress(f"{driver.options.system}, {count} that will rest", count)
    tasks = [asyncio.create_task(progress.one(driver, f"held-{number}")) for number in range(count)]
    give_up = time.perf_counter() + HOLD_WITHIN_S
    while len(progress.acknowledged_s) < count and time.perf_counter() < give_up:
        await asyncio.sleep(0.1)
    await channel.mark("held", acknowledged=len(progress.acknowledged_s), **about(driver))
    async with asyncio.timeout(driver.options.patience):
        await asyncio.gather(*tasks)
    await _at_rest(driver, channel)


async def empty(driver: Driver, channel: Channel) -> None:
    """So many actors that do nothing."""
    import ray

    remote = ray.remote(Nothing)
    actors = [remote.options(num_cpus=0).remote() for _ in range(driver.options.count)]
    await asyncio.gather(*(actor.nothing.remote() for actor in actors))
    await _at_rest(driver, channel)


async def _at_rest(driver: Driver, channel: Channel) -> None:
    """Time in which nothing is asked of anybody, between two marks."""
    await asyncio.sleep(SETTLE_S)
    await channel.mark("begin", **about(driver))
    began = time.perf_counter()
    await asyncio.sleep(driver.options.window)
    await channel.mark("end", took_s=time.perf_counter() - began)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def about(driver: Driver) -> dict[str, Any]:
    """What the system is."""
    return {"settings": driver.settings, "versions": {name: version(name) for name in driver.packages}}


def say(line: str) -> None:
    """Tell whoever watches how far it is."""
    print(line, file=sys.stderr, flush=True)


SYSTEMS: dict[str, type[Driver]] = {"floor": Floor, "holdfast": Holdfast, "turns": Turns, "empty": Empty}
VERBS: dict[str, Verb] = {"flight": flight, "rate": rate, "orders": orders, "waiting": waiting, "idle": idle, "empty": empty}


def main(systems: dict[str, type[Driver]]) -> None:
    """Run one verb with one system, which has held a conversation before."""
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=sorted(systems))
    parser.add_argument("verb", choices=sorted(VERBS))
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--levels", type=int, nargs="+", default=[1])
    parser.add_argument("--window", type=float, default=10.0)
    parser.add_argument("--pace", type=float, default=5.0)
    parser.add_argument("--patience", type=float, default=900.0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    channel = Channel(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)  # what libraries print is no mark

    async def run() -> None:
        driver = systems[options.system](options)
        await driver.open()
        try:
            if not isinstance(driver, Empty):
                await driver.converse("warming", lambda: None)
            await VERBS[options.verb](driver, channel)
        finally:
            await driver.close()

    asyncio.run(run())


if __name__ == "__main__":
    main(SYSTEMS)
