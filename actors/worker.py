"""The worker: imports the app and litellm once and runs effects for all conversations."""

import asyncio
import contextlib
import logging
import math
import os
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import ray
from ray.actor import exit_actor

from holdfast.agent import Agent, App
from holdfast.conversation import AgentSpec, HoldfastError, RunFinished, StoreError, Transcript
from holdfast.persistence import AppRecord, RedisStore

from . import tool_run, wire
from .app_runtime import AppRuntime
from .attestation import Attestation
from .crew import ModelOutcome, NoOutcome
from .keeper import keep_sweeper
from .memory import allowed_mb, resident_mb
from .requests import ModelRequest, RunRequest
from .settings import WorkerSettings
from .steps import traps

logger = logging.getLogger("holdfast.worker")

_T = TypeVar("_T")
AT_ONCE = 1000
CLOSING_S = 30.0
TRANSCRIPTS = 256
"""How many transcripts a worker keeps, so that a model call reads only what is new in the log."""
DRAIN_CHECK_S = 5.0


ALONE_IDLE_S = 30.0
"""How long a worker for work that is done alone waits for more."""


class AppBroken(Exception):
    """The app cannot be imported or opened here; the message says why."""


class Dropped(Exception):
    """Somebody has dropped the model call that this one had joined; it can be asked for anew."""


class Succeeded(Exception):
    """This worker has been used for long enough; its successor is in office."""


class Worker:
    """Runs model calls and tools. One incarnation lives as long as its process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._incarnation = uuid.uuid4().hex
        self._opening = asyncio.Lock()
        self._opened: tuple[RedisStore, AppRuntime] | None = None
        self._specs: dict[str, AgentSpec] = {}
        self._transcripts: OrderedDict[str, Transcript] = OrderedDict()
        self._runs: dict[tuple[str, str], asyncio.Task[RunFinished | NoOutcome]] = {}
        self._model_calls: dict[tuple[str, str], asyncio.Task[ModelOutcome]] = {}
        self._drain: asyncio.Task[None] | None = None
        self._leaving = False
        self._succeeded = False
        self._reached = traps()
        self._turnstile = asyncio.Semaphore(1 if settings.alone else AT_ONCE)
        self._effects = 0
        self._allowed_mb = math.inf
        self._store: RedisStore | None = None
        self._attestation = Attestation(self._incarnation)
        self._keeping: asyncio.Task[None] | None = None
        if settings.sweeper is not None:  # from the start: nobody may ask one that Ray has started again for anything
            self._keeping = asyncio.get_running_loop().create_task(keep_sweeper(settings.sweeper, self._connected))

    async def prepare(self, environment: Mapping[str, str] | None = None) -> str:
        """Import the app and open its resources, with these variables in the environment; the incarnation.

        Raises:
            AppBroken: It cannot be imported here.
        """
        os.environ.update(environment or {})
        await self._open()
        return self._incarnation

    async def environment(self) -> dict[str, str]:
        """The variables that the app names, with their values, for another worker of the same app."""
        store, _ = await self._open()
        record = await store.app(self._settings.app)
        return {name: os.environ[name] for name in (record.environment if record is not None else ()) if name in os.environ}

    async def process(self) -> str:
        """Which incarnation this is."""
        self._begin_draining()  # also in one that Ray has started again and that nobody else asks for anything
        return self._incarnation

    async def retire(self) -> None:
        """Take on nothing new: another release of Holdfast serves the store. What runs goes on; then this worker ends."""
        self._succeeded = True
        self._begin_draining()
        with contextlib.suppress(HoldfastError):  # who comes back to this release finds a successor in office
            await self._put_successor(await self._connected())

    async def leave(self) -> None:
        """End this worker: Ray ends an actor only at the end of a call."""
        exit_actor()

    async def pid(self) -> int:
        """The process that runs this incarnation."""
        return os.getpid()

    async def call_model(self, asked: bytes) -> bytes:
        """Call the model with the conversation's transcript and judge the calls it asks for by the app's own rules."""
        return wire.pack(await self._model_called(wire.unpack(asked)))

    async def run_tool(self, asked: bytes) -> bytes:
        """Claim a run, run its body, record its outcome; asked twice, it runs once and both are answered."""
        return wire.pack(await self._tool_run(wire.unpack(asked)))

    async def join(self, incarnation: str, conversation_id: str, effect_id: str) -> bytes:
        """Wait for a run that this incarnation has claimed; `GONE` if another has, `FORGOTTEN` if it is over here."""
        return wire.pack(await self._joined(incarnation, conversation_id, effect_id))

    async def _model_called(self, request: ModelRequest) -> ModelOutcome:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        key = (request.conversation_id, request.effect_id)
        task = self._model_calls.get(key)
        if task is None and self._settings.alone and (self._turnstile.locked() or self._model_calls or self._runs):
            message = "this worker does one thing at a time"  # who waited here would be blamed if that ended the process
            raise Dropped(message)
        if task is None:
            task = asyncio.create_task(self._in_turn(lambda: self._model(store, runtime, request), store, runtime))
            self._model_calls[key] = task
            task.add_done_callback(lambda done: self._model_calls.get(key) is done and self._model_calls.pop(key))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                message = f"the call {request.effect_id} of {request.conversation_id} was dropped"
                raise Dropped(message) from None
            raise

    async def _tool_run(self, request: RunRequest) -> RunFinished | NoOutcome:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        key = (request.conversation_id, request.effect_id)
        task = self._runs.get(key)
        if task is None:
            spec = await self._spec(store, request.spec_digest)
            agent = _agent(runtime.app, request.agent)
            loop = await runtime.loop()
            self._refuse_if_leaving()
        task = task or self._runs.get(key)
        if task is None:
            run = partial(
                tool_run.run,
                store,
                request,
                agent=agent,
                limits=spec.limits,
                resources=loop.resources,
                carried=loop.run,
                # The task is named too: when it is over, nobody of this incarnation may claim its run once more.
                incarnation=f"{self._incarnation}.{uuid.uuid4().hex[:12]}",
                worker=self._settings.name,
                reached=self._reached,
            )
            attested = partial(self._attestation.during, store, run)
            task = asyncio.create_task(self._in_turn(attested, store, runtime))
            self._runs[key] = task
            task.add_done_callback(lambda _: self._runs.pop(key, None))
        return await asyncio.shield(task)

    async def _joined(self, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        if not incarnation.startswith(f"{self._incarnation}."):
            return NoOutcome.GONE
        task = self._runs.get((conversation_id, effect_id))
        return NoOutcome.FORGOTTEN if task is None else await asyncio.shield(task)

    async def drop(self, conversation_id: str, effect_id: str) -> None:
        """Nobody waits for this effect any more: close the model's stream. A run goes on; its outcome will be late."""
        task = self._model_calls.pop((conversation_id, effect_id), None)
        if task is not None:
            task.cancel()

    async def _connected(self) -> RedisStore:
        if self._store is None:
            address = self._settings.store
            store = RedisStore(address.redis_url, namespace=address.namespace, store_id=address.store_id)
            await store.open()
            self._store = store
        return self._store

    async def _in_turn(self, work: Callable[[], Awaitable[_T]], store: RedisStore, runtime: AppRuntime) -> _T:
        async with self._turnstile:
            self._refuse_if_leaving()
            self._effects += 1
            result = await work()
            if self._settings.alone and runtime.left and not self._succeeded:
                self._succeeded = True  # what passed its bound may go on here: who is next has another process
                with contextlib.suppress(StoreError):  # once this one has left, then
                    await self._put_successor(store)
            return result

    def _refuse_if_leaving(self) -> None:
        if self._succeeded:
            message = "this worker's successor is in office"
            raise Succeeded(message)
        if self._leaving:
            message = "this worker ends: other code stands for its app"
            raise AppBroken(message)

    async def _open(self) -> tuple[RedisStore, AppRuntime]:
        async with self._opening:
            if self._opened is None:
                store = await self._connected()
                self._begin_draining()
                os.environ.update(self._settings.environment)
                try:
                    _check_environment(await store.app(self._settings.app))
                    runtime = await AppRuntime.open(self._settings)
                except Exception as error:  # noqa: BLE001 - the app's own import and lifespan may raise anything
                    problem = f"{type(error).__name__}: {error}"
                    await store.put_problem(self._settings.app, problem)
                    raise AppBroken(problem) from None
                await store.put_problem(self._settings.app, None)
                self._allowed_mb = allowed_mb(self._settings.memory_mb)
                self._opened = (store, runtime)
            return self._opened

    async def _model(self, store: RedisStore, runtime: AppRuntime, request: ModelRequest) -> ModelOutcome:
        from . import model  # noqa: PLC0415 - litellm takes seconds; only workers pay, once

        spec = await self._spec(store, request.spec_digest)
        transcript = await self._transcript(store, request)
        return await model.call(
            store,
            request,
            spec=spec,
            messages=transcript.messages(),
            agent=_agent(runtime.app, request.agent),
            loop=runtime.loop,
        )

    async def _transcript(self, store: RedisStore, request: ModelRequest) -> Transcript:
        transcript = self._transcripts.pop(request.conversation_id, None)
        if transcript is None or transcript.seq > request.upto_seq:
            transcript = Transcript()
        known_from = request.upto_seq - len(request.recent)
        while transcript.seq < known_from:
            limit = min(500, known_from - transcript.seq)
            entries = await store.read(request.conversation_id, after=transcript.seq, limit=limit)
            if not entries:
                message = f"the log of {request.conversation_id!r} ends at {transcript.seq}, not {known_from}"
                raise RuntimeError(message)
            for seq, event in entries:
                transcript.add(seq, event)
        for seq, event in enumerate(request.recent[transcript.seq - known_from :], transcript.seq + 1):
            transcript.add(seq, event)
        self._transcripts[request.conversation_id] = transcript
        while len(self._transcripts) > TRANSCRIPTS:
            self._transcripts.popitem(last=False)
        return transcript

    async def _spec(self, store: RedisStore, digest: str) -> AgentSpec:
        spec = self._specs.get(digest) or await store.spec(digest)
        if spec is None:
            message = f"spec {digest} is not in the store"
            raise RuntimeError(message)
        self._specs[digest] = spec
        return spec

    def _begin_draining(self) -> None:
        if self._drain is None:
            self._drain = asyncio.create_task(self._drained())

    async def _drained(self) -> None:
        """End this worker once nothing runs here any more and other code stands for its app, or its successor is in office."""
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(DRAIN_CHECK_S)
            try:
                store = await self._connected()
                await self._hand_over(store)
                if self._runs or self._model_calls:
                    idle_since = time.monotonic()
                    continue
                record = await store.app(self._settings.app)
            except (StoreError, HoldfastError):
                continue
            replaced = self._succeeded or (record is not None and record.code != self._settings.code)
            idle_s = 0.0 if self._runs or self._model_calls else time.monotonic() - idle_since
            if idle_s > (2 * DRAIN_CHECK_S if replaced else ALONE_IDLE_S if self._settings.alone else math.inf):
                self._leaving = True
                await self._close()
                ray.get_runtime_context().current_actor.leave.remote()
                return

    async def _close(self) -> None:
        if self._opened is not None:
            try:
                async with asyncio.timeout(CLOSING_S):
                    await self._opened[1].close()
            except Exception:  # the app's lifespan may raise anything, or hang
                logger.exception("%s could not leave the app's lifespan", self._settings.name)

    async def _hand_over(self, store: RedisStore) -> None:
        """Put a successor in office once this process has been used for long enough, or has grown too much."""
        settings = self._settings
        if await store.generation(settings.base) > settings.generation:
            self._succeeded = True
        worn = self._effects >= settings.effects or resident_mb() > self._allowed_mb
        if worn and not self._succeeded:
            logger.info("%s is succeeded after %d effects, at %.0f MiB", settings.name, self._effects, resident_mb())
            await self._put_successor(store)
            self._succeeded = True

    async def _put_successor(self, store: RedisStore) -> None:
        base, generation = self._settings.base, self._settings.generation + 1
        if await store.generation(base) < generation:
            await store.succeed(base, generation)


def _agent(app: App, name: str) -> Agent | None:
    return next((agent for agent in app.agents if agent.name == name), None)


def _check_environment(record: AppRecord | None) -> None:
    missing = [name for name in (record.environment if record is not None else ()) if name not in os.environ]
    if missing:
        message = f"{', '.join(missing)} is not in this worker's environment: connect with the app, or run `holdfast up --app`"
        raise RuntimeError(message)
