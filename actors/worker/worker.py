"""The worker: imports the app and litellm once and runs effects for all conversations."""

import asyncio
import contextlib
import logging
import math
import os
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import ray
from ray.actor import exit_actor

from holdfast.actors import logs, wire
from holdfast.actors.actor_settings import WorkerSettings
from holdfast.actors.admission import Admission
from holdfast.actors.memory import allowed_mb, resident_mb
from holdfast.actors.placement import drained
from holdfast.actors.steps import reached_here
from holdfast.actors.work_requests import ModelRequest, RunRequest
from holdfast.actors.workers import ModelOutcome, NoOutcome, WorkPaused
from holdfast.agent import Agent, App
from holdfast.conversation import AgentSpec, RunFinished, Status
from holdfast.errors import HoldfastError, StoreError
from holdfast.persistence import EVERYWHERE, AppRecord, Directory, Lists, Pausing, RedisStore, Store
from holdfast.redaction import Redaction

from . import tool_run
from .app_loop import THREADS, AppLoop
from .app_runtime import AllBlocked, AppRuntime
from .attestation import Attestation
from .keeper import keep_sweeper
from .ongoing import Ongoing
from .threads import end_within
from .transcripts import Reading, Transcripts
from .turnstile import NotYet, Turnstile

logger = logging.getLogger("holdfast.worker")

_P = ParamSpec("_P")
_T = TypeVar("_T")
AT_ONCE = 1000
"""How many async bodies go on at once; of those that block, as many as there are threads."""
MODELS_AT_ONCE = 500
"""How many model calls go on at once: as many as litellm has connections for one host. More would wait there, admitted."""
SIGNING = "HOLDFAST_APP_KEY"
"""What published apps are signed with; where every node has it in its environment, the app's tools do not inherit it."""
TURN_S = 12.0
"""For how long a call waits for its turn, and then for a loop, before it is sent away, to come back.

Twice this is shorter than its actor's patience, which begins when it asks."""
RESERVED_S = 10.0
"""For how long the turn of a model call that is made alone is kept for it."""
SPECS = 1024
SAID = 4096
"""How many characters are kept of what the app's code raised."""
TRACEBACK = 16_384
ENDING_S = 30.0
"""For how long a worker that has left may take to end, whatever its threads are at."""
CLOSING_S = 30.0
DRAIN_CHECK_S = 5.0


ALONE_IDLE_S = 30.0
"""How long a worker for work that is done alone waits for more."""


class AppBroken(Exception):
    """The app cannot be imported or opened here; the message says why."""


class Dropped(Exception):
    """This call was sent away: it was dropped, or it is not its turn yet. It can be asked for anew."""


class Restarted(Exception):
    """This process is not the one that the call was meant for: it has died, and another has taken its place."""


class Succeeded(Exception):
    """This worker was used for long enough, was drained, or nothing asked for it any more; its successor is in office."""


class Unforeseen(Exception):
    """What nobody foresaw went wrong in this process; the message has its traceback."""


def _told(
    method: Callable[Concatenate["Worker", _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate["Worker", _P], Coroutine[Any, Any, _T]]:
    """Send nobody an error as it was raised here: Ray sends its traceback too, and only this process knows the secrets."""

    @wraps(method)
    async def carried_out(self: "Worker", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await method(self, *args, **kwargs)
        except (HoldfastError, WorkPaused, AppBroken, Dropped, Restarted, Succeeded):
            raise
        except Exception as error:  # noqa: BLE001 - told in another way
            raise Unforeseen(self.without_secrets(error)) from None

    return carried_out


class Worker:
    """Runs model calls and tools. One incarnation lives as long as its process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._incarnation = uuid.uuid4().hex
        self._unshared = {name: os.environ.pop(name) for name in (SIGNING,) if name in os.environ}
        self._named: set[str] = set()
        self._learn(settings.environment)
        self._opening: Ongoing[None] = Ongoing()
        self._opened: tuple[Store, AppRuntime] | None = None
        self._specs: dict[str, AgentSpec] = {}
        self._transcripts = Transcripts()
        self._readings: Ongoing[Reading] = Ongoing()
        self._runs: Ongoing[RunFinished | NoOutcome] = Ongoing()
        self._claims: dict[str, asyncio.Task[RunFinished | NoOutcome]] = {}
        self._model_calls: Ongoing[ModelOutcome] = Ongoing()
        self._drain: asyncio.Task[None] | None = None
        self._leaving = False
        self._succeeded = False
        self._reached = reached_here()
        alone = Turnstile(1) if settings.alone else None
        self._models = alone or Turnstile(MODELS_AT_ONCE)
        self._bodies = alone or Turnstile(AT_ONCE)
        self._threads = alone or Turnstile(THREADS)
        self._reserved: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._effects = 0
        self._asked_at = time.monotonic()
        self._allowed_mb = math.inf
        self._store: Store | None = None
        self._admission: Admission | None = None
        self._attestation = Attestation(self._incarnation)
        self._keeping: asyncio.Task[None] | None = None
        if settings.sweeper is not None:  # from the start: nobody may ask one that Ray has started again for anything
            self._begin_draining()
            self._keeping = asyncio.get_running_loop().create_task(keep_sweeper(settings.sweeper, self._connected))

    def without_secrets(self, error: Exception) -> str:
        """The traceback of an error, as others may read it."""
        return self._redaction.redacted("".join(traceback.format_exception(error)), TRACEBACK)

    @_told
    async def prepare(self, environment: Mapping[str, str] | None = None) -> str:
        """Import the app and open its resources, with these variables in the environment; the incarnation.

        Raises:
            AppBroken: It cannot be imported here.
        """
        os.environ.update(environment or {})
        self._learn(environment or {})
        await self._open()
        return self._incarnation

    @_told
    async def environment(self) -> dict[str, str]:
        """The variables that the app names, with their values, for workers of older releases: they ask one that lives."""
        await self._open()
        return {name: os.environ[name] for name in self._settings.needed if name in os.environ}

    async def process(self) -> str:
        """Which incarnation this is."""
        self._begin_draining()  # also in one that Ray has started again and that nobody else asks for anything
        return self._incarnation

    async def retire(self) -> None:
        """Take on nothing new: somebody drains it, or another release serves the store. What runs goes on; then it ends."""
        self._succeeded = True
        self._begin_draining()
        with contextlib.suppress(HoldfastError):  # who comes back to this release finds a successor in office
            await self._put_successor(await self._connected())

    async def leave(self) -> None:
        """End this worker: Ray ends an actor only at the end of a call. What goes on in its threads has little time left."""
        end_within(ENDING_S)
        exit_actor()

    async def work(self) -> dict[str, Any]:
        """What goes on here, in plain values: `app`, `runs`, `model_calls`, and whether it is `leaving`."""
        leaving = self._succeeded or self._leaving
        return {
            "app": self._settings.app,
            "runs": len(self._runs),
            "model_calls": len(self._model_calls),
            "leaving": leaving,
        }

    async def pid(self) -> int:
        """The process that runs this incarnation."""
        return os.getpid()

    @_told
    async def turn(self, conversation_id: str, effect_id: str) -> None:
        """Wait until a model call may be made here alone; the turn is kept for a moment, for the call itself.

        Who waits here is not yet at work, and is not blamed for a process that ends meanwhile.

        Raises:
            Dropped: It is not its turn yet; whoever comes back soon has kept the place in the line.
        """
        await self._turn_of((conversation_id, effect_id))

    @_told
    async def call_model(self, asked: bytes, incarnation: str = "") -> bytes:
        """Call the model with the conversation's transcript and judge the calls it asks for by the app's own rules.

        Raises:
            Restarted: The call is meant for another incarnation.
        """
        if incarnation not in ("", self._incarnation):
            message = f"{self._settings.name} is another process by now"
            raise Restarted(message)
        return wire.pack(await self._model_called(wire.unpack(asked)))

    @_told
    async def run_tool(self, asked: bytes) -> bytes:
        """Claim a run, run its body, record its outcome; asked twice, it runs once and both are answered."""
        return wire.pack(await self._tool_run(wire.unpack(asked)))

    @_told
    async def join(self, incarnation: str, conversation_id: str, effect_id: str) -> bytes:
        """Wait for a run that this incarnation has claimed; `GONE` if another has, `FORGOTTEN` if it is over here."""
        return wire.pack(await self._joined(incarnation, conversation_id, effect_id))

    async def _turn_of(self, ticket: tuple[str, str]) -> None:
        await self._open()
        self._refuse_if_leaving()
        if ticket in self._reserved or any(self._model_calls.keys(lambda key: key[:2] == ticket)):
            return
        await self._entered(self._models, ticket, TURN_S)
        if self._succeeded or self._leaving:
            self._models.leave()
            self._refuse_if_leaving()
        self._reserved[ticket] = asyncio.get_running_loop().call_later(RESERVED_S, self._lapse, ticket)

    def _lapse(self, ticket: tuple[str, str]) -> None:
        if self._redeemed(ticket):
            self._models.leave()

    def _redeemed(self, ticket: tuple[str, str]) -> bool:
        reserved = self._reserved.pop(ticket, None)
        if reserved is not None:
            reserved.cancel()
        return reserved is not None

    async def _model_called(self, request: ModelRequest) -> ModelOutcome:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        ticket = (request.conversation_id, request.effect_id)
        reading = await _shared(
            self._readings.joined(
                (*ticket, request.upto_seq, request.lineage), lambda: self._transcripts.reading(store, request)
            )
        )
        key = (*ticket, reading.mark)  # what it is sent, not only what it is called: its log may have been set back
        call = partial(self._model, store, runtime, request, reading.messages)
        # Who waits to be alone waits for a turn before: who waited here would be blamed if another's work ended the process.
        within_s = 0.0 if self._settings.alone else TURN_S
        return await _shared(
            self._model_calls.joined(
                key, lambda: self._in_turn(self._models, key, call, store, runtime, within_s=within_s, reserved=ticket)
            )
        )

    async def _tool_run(self, request: RunRequest) -> RunFinished | NoOutcome:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        spec = await self._spec(store, request.spec_digest)
        inputs = await tool_run.inputs_of(store, request)
        agent = _agent(runtime.app, request.agent)
        tool = agent.tool(request.tool) if agent is not None else None
        lane = self._threads if tool is not None and tool.blocks else self._bodies
        key = (request.conversation_id, request.effect_id, inputs)

        def begun() -> Any:
            # The task is named too: when it is over, nobody of this incarnation may claim its run once more.
            incarnation = f"{self._incarnation}.{uuid.uuid4().hex[:12]}"
            run = partial(self._body, store, runtime, request, inputs, agent=agent, spec=spec, incarnation=incarnation)
            return self._claimable(incarnation, self._in_turn(lane, key, run, store, runtime, within_s=TURN_S))

        return await _shared(self._runs.joined(key, begun))

    async def _claimable(self, incarnation: str, work: Awaitable[RunFinished | NoOutcome]) -> RunFinished | NoOutcome:
        task = asyncio.current_task()
        if task is not None:
            self._claims[incarnation] = task
        try:
            return await work
        finally:
            self._claims.pop(incarnation, None)

    async def _body(
        self,
        store: Store,
        runtime: AppRuntime,
        request: RunRequest,
        inputs: tool_run.Inputs,
        *,
        agent: Agent | None,
        spec: AgentSpec,
        incarnation: str,
    ) -> RunFinished | NoOutcome:
        try:
            async with asyncio.timeout(TURN_S) as bound:
                loop = await runtime.loop()
        except AllBlocked as error:
            await self._succeed(store)
            raise Succeeded(str(error)) from None
        except Exception as error:  # the lifespan may raise anything
            if bound.expired():
                message = f"{self._settings.name} enters the app's lifespan on another event loop"
                raise Dropped(message) from None
            message = f"the app's lifespan cannot be entered again: {self._redaction.said(error, SAID)}"
            logger.exception("%s", message)
            raise AppBroken(message) from None
        with loop.used():
            run = partial(
                tool_run.run,
                store,
                request,
                inputs,
                agent=agent,
                limits=spec.limits,
                resources=loop.resources,
                carried=loop.run,
                in_thread=loop.in_thread,
                incarnation=incarnation,
                worker=self._settings.name,
                admitted=partial(self._admitted, store, request.agent),
                reached=self._reached,
                redaction=self._redaction,
            )
            return await self._attestation.during(store, run)

    async def _joined(self, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        del conversation_id, effect_id  # an incarnation names its one run
        if not incarnation.startswith(f"{self._incarnation}."):
            return NoOutcome.GONE
        task = self._claims.get(incarnation)
        return NoOutcome.FORGOTTEN if task is None else await asyncio.shield(task)

    async def drop(self, conversation_id: str, effect_id: str) -> None:
        """Nobody waits for this effect any more: close the model's stream. A run goes on; its outcome will be late."""
        ticket = (conversation_id, effect_id)
        self._lapse(ticket)
        for ongoing in (self._readings, self._model_calls):
            ongoing.cancel(lambda key: key[:2] == ticket)

    def _learn(self, named: Iterable[str]) -> None:
        """Know that these variables are secret, too, as they stand in the environment now."""
        self._named.update(named)
        self._redaction = Redaction.of_process(
            {**os.environ, **self._unshared}, self._named, urls=[self._settings.store.redis_url]
        )
        logs.guard_process(self._redaction)

    async def _admitted(self, store: Pausing, agent: str) -> int:
        """Let new work of an agent begin, here and now; until when by the store's clock.

        Raises:
            WorkPaused: It waits.
            StoreUnavailable: Whether it waits cannot be said now.
        """
        if self._admission is None:
            self._admission = Admission(store)
        return await self._admission.admit(agent)

    async def _connected(self) -> Store:
        if self._store is None:
            address = self._settings.store
            store = RedisStore(address.redis_url, namespace=address.namespace, store_id=address.store_id, cipher=address.cipher)
            await store.open()
            self._store = store
        return self._store

    async def _in_turn(
        self,
        lane: Turnstile,
        key: Hashable,
        work: Callable[[], Awaitable[_T]],
        store: Store,
        runtime: AppRuntime,
        *,
        within_s: float,
        reserved: tuple[str, str] | None = None,
    ) -> _T:
        if reserved is None or not self._redeemed(reserved):
            await self._entered(lane, key, within_s)
        try:
            self._refuse_if_leaving()
            self._effects += 1
            result = await work()
            if ((self._settings.alone and runtime.left) or runtime.worn) and not self._succeeded:
                await self._succeed(store)  # what passed its bound may go on here: who is next has another process
            return result
        finally:
            lane.leave()

    async def _entered(self, lane: Turnstile, key: Hashable, within_s: float) -> None:
        try:
            await lane.enter(key, within_s)
        except NotYet as error:
            message = f"{self._settings.name}: {error}"
            raise Dropped(message) from None

    async def _succeed(self, store: Directory) -> None:
        self._succeeded = True
        with contextlib.suppress(StoreError):  # once this one has left, then
            await self._put_successor(store)

    def _refuse_if_leaving(self) -> None:
        if self._succeeded:
            message = "this worker's successor is in office"
            raise Succeeded(message)
        if self._leaving:
            message = "this worker ends: other code stands for its app"
            raise AppBroken(message)

    async def _open(self) -> tuple[Store, AppRuntime]:
        self._asked_at = time.monotonic()
        if self._opened is None:
            self._refuse_if_leaving()  # what could not be opened here in time is not tried here again
            await _shared(self._opening.joined("app", self._open_anew))
        if self._opened is None:
            message = "the app is not open"
            raise AppBroken(message)
        return self._opened

    async def _open_anew(self) -> None:
        """Open the app, once for all who wait for it: what cannot be opened is not tried again for each of them."""
        store = await self._connected()
        self._begin_draining()
        os.environ.update(self._settings.environment)
        if ray.is_initialized():  # then this process is this worker's own
            logs.guard_app()
        try:
            self._learn(self._settings.needed)
            _check_environment(self._settings.needed)
            runtime = await AppRuntime.open(self._settings)
        except Exception as error:  # noqa: BLE001 - the app's own import and lifespan may raise anything
            self._learn(())  # what the app has put into the environment, too
            problem = self._redaction.said(error, SAID)
            logger.warning("%s cannot open its app: %s", self._settings.name, problem)
            if isinstance(error, TimeoutError):
                await self._succeed(store)  # what hangs may hold a thread, or a lock, for as long as this process lives
            await store.put_problem(self._settings.app, problem)
            raise AppBroken(problem) from None
        self._learn(runtime.app.environment(os.environ))
        await store.put_problem(self._settings.app, None)
        self._allowed_mb = allowed_mb(self._settings.memory_mb)
        self._opened = (store, runtime)

    async def _model(
        self, store: Store, runtime: AppRuntime, request: ModelRequest, messages: list[dict[str, Any]]
    ) -> ModelOutcome:
        from . import model  # noqa: PLC0415 - litellm takes seconds; only workers pay, once

        async def latest() -> AppLoop:
            return runtime.latest  # the app's rules run in threads: whether its event loop turns is no matter

        agent = _agent(runtime.app, request.agent)
        if agent is not None and agent.spec.digest == request.spec_digest:
            spec = agent.spec  # what was imported, whatever the store has under its digest
        else:
            spec = await self._spec(store, request.spec_digest)
        await self._admitted(store, request.agent)
        return await model.call(
            store, request, spec=spec, messages=messages, agent=agent, loop=latest, redaction=self._redaction
        )

    async def _spec(self, store: Directory, digest: str) -> AgentSpec:
        """The spec of a digest; what it says follows from that, so a store that is set back has no other."""
        spec = self._specs.pop(digest, None) or await store.spec(digest)
        if spec is None:
            message = f"spec {digest} is not in the store"
            raise RuntimeError(message)
        self._specs[digest] = spec
        while len(self._specs) > SPECS:
            del self._specs[next(iter(self._specs))]
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
                if self._opened is not None:
                    await self._opened[1].tidy()
                await self._hand_over(store)
                if self._runs or self._model_calls:
                    idle_since = time.monotonic()
                    continue
                record = await store.app(self._settings.app)
                await self._end_unless_used(store, record, max(idle_since, self._asked_at))
            except HoldfastError:
                continue
            except Exception:
                logger.exception("%s: housekeeping", self._settings.name)
                continue
            replaced = self._succeeded or (record is not None and record.code != self._settings.code)
            idle_s = 0.0 if self._runs or self._model_calls else time.monotonic() - idle_since
            if idle_s > (2 * DRAIN_CHECK_S if replaced else ALONE_IDLE_S if self._settings.alone else math.inf):
                self._leaving = True
                await self._close()
                self._end()
                return

    def _end(self) -> None:
        ray.get_runtime_context().current_actor.leave.remote()

    async def _end_unless_used(self, store: Store, record: AppRecord | None, used_at: float) -> None:
        """Give way to a successor, which is made when somebody asks for it, once nothing was asked of this worker for long.

        It ends as one that is worn does: who asks meanwhile is told so before anything begins here, and asks the successor.
        """
        idle_s = self._settings.idle_s
        if not idle_s or self._succeeded or time.monotonic() - used_at < idle_s:
            return
        if record is not None and await _under_way(store, record):
            self._asked_at = time.monotonic()  # somebody may ask at any moment: it is looked at again after as long
        elif self._asked_at <= used_at and not self._runs and not self._model_calls:  # nor while the store was asked
            logger.info("%s: nothing was asked of it for %d s", self._settings.name, idle_s)
            await self._succeed(store)

    async def _close(self) -> None:
        if self._opened is not None:
            try:
                async with asyncio.timeout(CLOSING_S):
                    await self._opened[1].close()
            except Exception:  # the app's lifespan may raise anything, or hang
                logger.exception("%s could not leave the app's lifespan", self._settings.name)

    async def _hand_over(self, store: Directory) -> None:
        """Put a successor in office once this process has been used for long enough, has grown too much, or is to end."""
        settings = self._settings
        if await store.generation(settings.base) > settings.generation:
            self._succeeded = True
        held = self._opened is not None and self._opened[1].worn
        withheld = await store.withheld()  # everywhere: Holdfast was stopped while this worker was just being made
        worn = (
            held
            or EVERYWHERE in withheld
            or await drained(withheld)
            or self._effects >= settings.effects
            or resident_mb() > self._allowed_mb
        )
        if worn and not self._succeeded:
            logger.info("%s is succeeded after %d effects, at %.0f MiB", settings.name, self._effects, resident_mb())
        if worn or self._succeeded:  # also where the store was away when this worker first said so
            await self._put_successor(store)
            self._succeeded = True

    async def _put_successor(self, store: Directory) -> None:
        base, generation = self._settings.base, self._settings.generation + 1
        if await store.generation(base) < generation:
            await store.succeed(base, generation)


async def _under_way(store: Lists, record: AppRecord) -> bool:
    """Whether a turn of the app's agents is at a model call or at runs: one that awaits somebody needs no worker."""
    for agent in record.agents:
        for status in (Status.GENERATING, Status.EXECUTING_TOOLS):
            if (await store.conversations(limit=1, agent=agent, status=status)).items:
                return True
    return False


async def _shared(task: asyncio.Task[_T]) -> _T:
    """What the task leads to; who stops waiting does not end it.

    Raises:
        Dropped: It was cancelled by somebody else.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            message = "it was dropped"
            raise Dropped(message) from None
        raise


def _agent(app: App, name: str) -> Agent | None:
    return next((agent for agent in app.agents if agent.name == name), None)


def _check_environment(needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in os.environ]
    if missing:
        message = f"{', '.join(missing)} is not in this worker's environment: run `holdfast up --app` where it is"
        raise RuntimeError(message)
