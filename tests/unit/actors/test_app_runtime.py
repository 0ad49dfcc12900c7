"""The loops of an app in one worker: what blocks one keeps it, and no process has more of them than a few."""

import asyncio
import contextlib
import sys
import threading

import pytest

from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker import app_runtime
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.app_runtime import LOOPS, AllBlocked, AppRuntime
from holdfast.actors.worker.notify.notifier import Notifier
from holdfast.agent import App, Webhook
from holdfast.errors import ConfigurationError


class Given:
    """A runtime whose lifespan is counted, and callbacks that block its loops."""

    def __init__(self):
        self.opened, self.closed, self.gates = 0, 0, []

    @contextlib.contextmanager
    def lifespan(self):
        self.opened += 1
        try:
            yield self.opened
        finally:
            self.closed += 1

    async def runtime(self):
        app = App(agents=[], lifespan=self.lifespan)
        return AppRuntime(app, await AppLoop.open(app), Notifier(app, {}))

    async def block(self, loop):
        """Block the loop, as a callback that does not await; it turns again once its gate is open."""
        gate, blocked = threading.Event(), threading.Event()

        async def callback():
            blocked.set()
            gate.wait(30)

        self.gates.append(gate)
        working = asyncio.create_task(loop.run(callback()))
        async with asyncio.timeout(10):
            while not blocked.is_set():
                await asyncio.sleep(0.001)
        return working


@pytest.fixture
def given(monkeypatch):
    monkeypatch.setattr(app_runtime, "STUCK_S", 0.05)
    each = Given()
    yield each
    for gate in each.gates:
        gate.set()


async def test_without_a_secret_of_a_target_the_app_is_not_opened(given, monkeypatch):
    app = App(agents=[], lifespan=given.lifespan, notify=[Webhook("https://x.example", secret_env="HOOK_THAT_IS_NOT_SET")])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(app_runtime, "load", lambda *_, **__: app)
    settings = WorkerSettings(ActorSettings(StoreAddress("redis://x", "holdfast", "store-1")), "worker-0", "shop:app", "c")
    with pytest.raises(ConfigurationError, match=r"notify 'webhook': HOOK_THAT_IS_NOT_SET: it is not set"):
        await AppRuntime.open(settings)
    assert given.opened == 0


async def test_what_blocks_keeps_its_loop_and_there_is_an_end_to_new_ones(given):
    runtime = await given.runtime()
    for _ in range(LOOPS):
        await given.block(await runtime.loop())
    for _ in range(3):
        with pytest.raises(AllBlocked, match=f"block all {LOOPS} event loops"):
            await runtime.loop()
    assert (given.opened, len(runtime._loops)) == (LOOPS, LOOPS)


async def test_a_loop_that_turns_again_is_used_again(given):
    runtime = await given.runtime()
    first = await runtime.loop()
    working = await given.block(first)
    second = await runtime.loop()
    await given.block(second)
    given.gates[0].set()
    async with asyncio.timeout(10):
        await working
    assert await runtime.loop() is first
    assert given.opened == 2


async def test_a_loop_that_is_not_needed_any_more_is_closed_once_nothing_runs_there(given):
    runtime = await given.runtime()
    first = await runtime.loop()
    working = await given.block(first)
    await runtime.loop()
    await runtime.tidy()
    assert len(runtime._loops) == 2
    with first.used():
        given.gates[0].set()
        async with asyncio.timeout(10):
            await working
        await runtime.tidy()
        assert (len(runtime._loops), given.closed) == (2, 0)  # somebody is about to use it
    async with asyncio.timeout(10):
        while len(runtime._loops) > 1:
            await runtime.tidy()
    assert (given.opened, given.closed) == (2, 1)


async def test_a_thousand_blocked_seconds_leave_no_lifespans_behind(given):
    runtime = await given.runtime()
    for _ in range(10):
        working = await given.block(await runtime.loop())
        await runtime.loop()
        given.gates[-1].set()
        async with asyncio.timeout(10):
            await working
            while len(runtime._loops) > 1:
                await runtime.tidy()
    assert given.opened - given.closed == 1
