"""The worker: imports the app and litellm once and runs effects for all conversations."""

import asyncio
import contextlib
import logging
import math
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import ray
from ray.actor import exit_actor

from holdfast import metrics
from holdfast.actors import logs, wire
from holdfast.actors.activation.guest import Guest
from holdfast.actors.actor_settings import WorkerSettings, short_name
from holdfast.actors.admission import Admission
from holdfast.actors.memory import free_files, keep_imported
from holdfast.actors.published import Published, SpecCache, unsigned
from holdfast.actors.steps import reached_here
from holdfast.actors.telling import tell
from holdfast.actors.trace_export import export_spans, flush_spans
from holdfast.actors.vault import Vault
from holdfast.actors.workers import (
    DeliverAnswer,
    DeliverRequest,
    ModelOutcome,
    ModelRequest,
    NoOutcome,
    RunOutcome,
    RunRequest,
    WorkAnswer,
    log_fields,
)
from holdfast.agent import Agent
from holdfast.background import Background
from holdfast.conversation import AgentSpec, ModelFailed, RunFinished, RunRuled, RunSuspended, Summarized
from holdfast.counting import Counts
from holdfast.daemon import in_daemon
from holdfast.errors import HoldfastError
from holdfast.persistence import Store
from holdfast.single_flight import SingleFlight
from holdfast.work_context import about, about_nothing

from . import model_outcome, model_run, tool_run
from .app_loop import THREADS, AppLoop
from .app_runtime import AllBlocked, AppRuntime, agent_of, check_environment
from .attestation import Attestation, keep_sweeper
from .bench import Bench, Room
from .breakers import Breakers
from .claims import Claim, Claims
from .deliveries import Deliveries
from .gate import CallRules, Gate, GrantGivers
from .model_outcome import ModelCounts, spend, turn_of
from .ongoing import Ongoing
from .refusals import AppBroken, Dropped, ProcessSecrets, Succeeded, shared, told
from .succession import Succession
from .threads import end_within
from .transcripts import Reading, Transcripts
from .turnstile import NotYet, Turnstile
from .work_spans import model_span

logger = logging.getLogger("holdfast.worker")

_T = TypeVar("_T")
AT_ONCE = 1000
"""How many async bodies run at once; blocking ones are limited by the threads."""
CONNECTIONS = ("AIOHTTP_CONNECTOR_LIMIT", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST")
"""The variables that set litellm's number of connections; with too few, model calls would wait there."""
LOOP_S = 12.0
"""Seconds that a run waits for a loop before its caller must ask again."""
SAID = 4096
"""How many characters of an error of the app's code are kept."""
ENDING_S = 30.0
"""Seconds that a leaving worker may take to end, even if callbacks hold its threads."""
DRAIN_CHECK_S = 5.0
ALONE_IDLE_S = 30.0
"""Seconds that a worker in an `ALONE` slot waits for more work before it ends."""


class Worker:
    """Runs model calls and tools. One incarnation lives as long as its process.

    Its methods raise `refusals` and, before anything is claimed, `WorkPaused`.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings, common = settings, settings.actors
        self._incarnation = uuid.uuid4().hex
        self.secrets = ProcessSecrets(common.store.redis_url, content=common.traces.content)
        self.secrets.learn(settings.environment)
        if ray.is_initialized():  # then this process belongs to this worker alone
            logs.write_lines(short_name(settings.name), common.log)
            export_spans(short_name(settings.name), common.traces)
        self._opening = SingleFlight(self._open_anew)
        self._opened: tuple[Store, AppRuntime] | None = None
        self._specs = SpecCache()
        self._transcripts = Transcripts()
        self._readings: Ongoing[Reading] = Ongoing()
        self._runs: Ongoing[RunOutcome | NoOutcome] = Ongoing()
        self._claims: Claims[Any] = Claims(self._incarnation)
        self._model_calls: Ongoing[ModelOutcome | NoOutcome] = Ongoing()
        self._deliveries = Deliveries()
        self._drain: asyncio.Task[None] | None = None
        self._leaving = False
        self._succession = Succession(settings)
        self._reached = reached_here()
        self._counts = Counts()
        self._breakers = Breakers(self._counts)
        self._background = Background()
        model_calls = min(common.process_limits.model_calls, free_files())
        alone = Turnstile(THREADS) if settings.alone else None  # one for all work
        self._models = alone or Turnstile(model_calls)
        self._beginning = asyncio.Lock()
        for name in CONNECTIONS:
            os.environ.setdefault(name, str(max(model_calls, 1000)))
        self._bodies = alone or Turnstile(AT_ONCE)
        self._threads = alone or Turnstile(THREADS)
        self._store: Store | None = None
        self._bench: Bench | None = None
        self._attestation = Attestation(self._incarnation)
        self._keeping: asyncio.Task[None] | None = None
        if common.sweeper is not None:  # from the start: a restarted worker may never get a request
            self._begin_draining()
            self._keeping = asyncio.get_running_loop().create_task(
                keep_sweeper(partial(common.sweeper, common), common.release, self._connected)
            )

    @told
    async def prepare(self, environment: Mapping[str, str] | None = None) -> str:
        """Import the app and open its resources, with these environment variables; the id of this incarnation."""
        os.environ.update(environment or {})
        self.secrets.learn(environment or {})
        await self._open()
        return self._incarnation

    async def process(self) -> str:
        """The id of this process's incarnation of the worker."""
        self._begin_draining()  # also in a restarted worker that gets no other request
        return self._incarnation

    async def retire(self) -> None:
        """Refuse new work: this worker is drained, or another release serves the store. It ends once its work is done."""
        self._succession.succeeded = True
        self._begin_draining()
        with contextlib.suppress(HoldfastError):  # an actor that returns to this release finds the successor
            await self._succession.begin(await self._connected())

    async def leave(self) -> None:
        """End this worker: Ray ends an actor only at the end of a call. Its threads have `ENDING_S` seconds left."""
        end_within(ENDING_S)
        await flush_spans()
        exit_actor()

    async def work(self) -> dict[str, Any]:
        """Its `app`, how many `runs` and `model_calls`, whether it is `leaving`, the `breakers` that are not closed."""
        leaving = self._succession.succeeded or self._leaving
        counted = {"runs": len(self._runs), "model_calls": len(self._model_calls)}
        return {"app": self._settings.app, **counted, "leaving": leaving, "breakers": self._breakers.shown()}

    async def pid(self) -> int:
        """The id of this incarnation's process."""
        return os.getpid()

    @told
    async def do(self, asked: bytes) -> bytes:
        """Claim a model call or run, do it and record its outcome, or join it if it continues; a packed `WorkAnswer`."""
        request: ModelRequest | RunRequest = wire.unpack(asked)
        with about(**log_fields(request)):
            return wire.pack(await self._done(request))

    @told
    async def deliver(self, asked: bytes) -> bytes:
        """Tell notification targets of the app of one event each; the packed answers of `Deliveries.answers`."""
        requests: Sequence[DeliverRequest] = wire.unpack(asked)
        store, runtime = await self._open()
        self._refuse_if_leaving()
        return wire.pack(await self._deliveries.answers(requests, partial(self._delivered, store, runtime)))

    @told
    async def _delivered(self, store: Store, runtime: AppRuntime, request: DeliverRequest) -> DeliverAnswer:
        with about(conversation=request.conversation_id):
            room = partial(self._room, store, runtime)
            return await runtime.notifier.deliver(store, request, self.secrets.redaction, room)

    async def keeps(self, incarnations: Sequence[str]) -> Sequence[bool]:
        """Which of these claims are at work in this process."""
        return [self._claims.task(one) is not None for one in incarnations]

    async def _done(self, request: ModelRequest | RunRequest) -> WorkAnswer:
        return await (self._model_called(request) if isinstance(request, ModelRequest) else self._tool_run(request))

    async def _model_called(self, request: ModelRequest) -> WorkAnswer:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        ticket = (request.conversation_id, request.effect_id)
        reading = await shared(
            self._readings.joined((*ticket, request.upto_seq), lambda: self._transcripts.reading(store, request))
        )
        key = (*ticket, reading.mark, request.instead_of)  # includes the messages, since the log may have been restored

        def begun() -> Any:
            claim: Claim[Any] = self._claims.new(ticket, ends=True)
            call = partial(self._model_run, store, runtime, request, reading, claim)
            return self._claims.during(
                claim, partial(self._in_turn, self._models, call, store, runtime, at_most=request.max_claims), store
            )

        if not request.waits and self._models.full(request.max_claims) and key not in self._model_calls:
            return NoOutcome.FULL
        return await self._claims.answer(self._model_calls.joined(key, begun))

    async def _tool_run(self, request: RunRequest) -> WorkAnswer:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        spec = await self._spec(store, request.spec_digest)
        inputs = await tool_run.inputs_of(store, request)
        agent = agent_of(runtime.app, request.agent)
        tool = agent.tool(request.tool) if agent is not None else None
        lane = self._threads if tool is not None and tool.blocks else self._bodies
        key = (request.conversation_id, request.effect_id, inputs)

        def begun() -> Any:
            claim: Claim[Any] = self._claims.new((request.conversation_id, request.effect_id))
            run = partial(self._body, store, runtime, request, inputs, agent=agent, spec=spec, claim=claim)
            turn = partial(self._in_turn, lane, run, store, runtime, at_most=request.max_claims)
            return self._claims.during(claim, turn, store)

        if not request.waits and lane.full(request.max_claims) and key not in self._runs:
            return NoOutcome.FULL
        return await self._claims.answer(self._runs.joined(key, begun))

    async def _body(
        self,
        store: Store,
        runtime: AppRuntime,
        request: RunRequest,
        inputs: tool_run.Inputs,
        *,
        agent: Agent | None,
        spec: AgentSpec,
        claim: Claim[Any],
    ) -> RunOutcome | NoOutcome:
        room = await self._room(store, runtime)
        with room.used():
            bench = self._bench_at(store, room)
            run = partial(tool_run.run, bench, request, inputs, agent=agent, limits=spec.limits, claim=claim)
            began_s = time.monotonic()
            outcome = await self._attestation.during(store, run)
        named = (request.agent, request.tool)
        match outcome:
            case RunFinished():
                self._counts.add(metrics.RUNS, *named, "ok" if outcome.ok else "error")
                self._counts.observe(metrics.RUN_S, time.monotonic() - began_s, *named)
            case RunSuspended():
                self._counts.add(metrics.RUNS, *named, "suspended")
            case RunRuled():
                self._counts.add(metrics.RUNS, *named, str(outcome.ruled.effect))
            case _:
                pass
        return outcome

    async def _room(self, store: Store, runtime: AppRuntime) -> AppLoop:
        try:
            async with asyncio.timeout(LOOP_S) as bound:
                return await runtime.loop()
        except AllBlocked as error:
            await self._succession.begin(store)
            raise Succeeded(str(error)) from None
        except Exception as error:  # the lifespan may raise anything
            if bound.expired():
                raise Dropped(f"{self._settings.name} is entering the app's lifespan on another event loop") from None
            message = f"the app's lifespan cannot be entered again: {self.secrets.redaction.said(error, SAID)}"
            logger.exception("%s", message)
            raise AppBroken(message) from None

    def _bench_at(self, store: Store, room: Room) -> Bench:
        if self._bench is None:
            settings, read = self._settings, partial(store.app, self._settings.app)
            agent: Callable[[str, str], Awaitable[Any]] = partial(unsigned, store)
            if ray.is_initialized():
                published = Published(store, settings.actors.store, partial(in_daemon, Vault(settings.actors.store).key))
                read, agent = partial(published.record, settings.app), published.agent
            admit, succession = Admission(store).admit, self._succession
            counted: dict[str, Any] = {"counts": self._counts, "traces": settings.actors.traces}
            retired = lambda: succession.succeeded or succession.foreign  # noqa: E731 - it is asked before each write
            guest = Guest(store, admit=admit, published=agent, specs=self._specs, retired=retired, **counted)
            self._bench = Bench(
                store,
                settings.name,
                Gate(store, read),
                room,
                admit=admit,
                givers=GrantGivers(store),
                guest=guest,
                carry_on=lambda request: self._background.start(self._carried(guest, request)),
                reached=self._reached,
            )
        return replace(self._bench, store=store, room=room, redaction=self.secrets.redaction, content=self.secrets.content)

    async def _carried(self, guest: Guest, request: ModelRequest | RunRequest) -> None:
        """Do work that an outcome from here has made outstanding, if there is room for it; else leave it to an actor."""
        why: object = NoOutcome.FULL  # also for work of other code, and for work that may kill its process
        if request.code == self._settings.code and not (request.max_claims or self._settings.alone):
            request = replace(request, waits=False)
            with about(**log_fields(request)):
                try:
                    why = await self._done(request)
                except Exception as error:  # noqa: BLE001 - an actor takes the work up, and handles the error
                    why = error
        if isinstance(why, NoOutcome | Exception) and why is not NoOutcome.NOT_MINE:
            await guest.leave(request, why)

    async def drop(self, incarnation: str) -> None:
        """Cancel a model call that nobody awaits any more, and close its stream. A run is only told; its outcome is late."""
        self._claims.drop(incarnation)

    async def _connected(self) -> Store:
        if self._store is None:
            store = self._settings.actors.store.opened(counts=self._counts)
            await store.open()
            self._store = store
        return self._store

    async def _in_turn(
        self,
        lane: Turnstile,
        work: Callable[[], Awaitable[_T]],
        store: Store,
        runtime: AppRuntime,
        *,
        at_most: int,
    ) -> _T:
        try:
            await lane.enter(at_most=at_most)
        except NotYet as error:
            raise Dropped(f"{self._settings.name}: {error}") from None
        try:
            self._refuse_if_leaving()
            self._succession.effects += 1
            result = await work()
            if ((self._settings.alone and runtime.left) or runtime.worn) and not self._succession.succeeded:
                # A callback may outlive its time limit here, so the next call gets another process.
                await self._succession.begin(store)
            return result
        finally:
            lane.leave(at_most=at_most)

    def _refuse_if_leaving(self) -> None:
        if self._succession.succeeded:
            raise Succeeded("this worker's successor is in office")
        if self._leaving:
            raise AppBroken("this worker ends: its app was published with other code")

    async def _open(self) -> tuple[Store, AppRuntime]:
        self._succession.asked_at = time.monotonic()
        if self._opened is None:
            self._refuse_if_leaving()  # an app that timed out while opening is not opened here again
            await shared(self._opening.begin())
        if self._opened is None:
            raise AppBroken("the app is not open")
        return self._opened

    async def _open_anew(self) -> None:
        """Open the app, once for all waiting callers."""
        store = await self._connected()
        self._begin_draining()
        self._claims.look(self._connected)
        os.environ.update(self._settings.environment)
        if ray.is_initialized():  # then this process belongs to this worker alone
            logs.guard_app()
            keep_imported()
        try:
            self.secrets.learn(self._settings.needed)
            check_environment(self._settings.needed)
            runtime = await AppRuntime.open(self._settings)
        except Exception as error:  # noqa: BLE001 - the app's own import and lifespan may raise anything
            self.secrets.learn(())  # the app may have put secrets into the environment
            problem = self.secrets.redaction.said(error, SAID)
            logger.warning("%s cannot open its app: %s", self._settings.name, problem)
            if isinstance(error, TimeoutError):
                # An app that hangs may hold a thread, or a lock, for as long as this process lives.
                await self._succession.begin(store)
            await store.put_problem(self._settings.app, problem)
            raise AppBroken(problem) from None
        self.secrets.learn(runtime.app.environment(os.environ))
        await store.put_problem(self._settings.app, None)
        self._succession.opened()
        self._opened = (store, runtime)

    async def _model_run(
        self, store: Store, runtime: AppRuntime, request: ModelRequest, reading: Reading, claim: Claim[Any]
    ) -> ModelOutcome | NoOutcome:
        agent = agent_of(runtime.app, request.agent)
        if agent is not None and agent.spec.digest == request.spec_digest:
            spec = agent.spec  # the spec that was imported, whatever the store has under its digest
        else:
            spec = await self._spec(store, request.spec_digest)
        bench, turn = self._bench_at(store, runtime.latest), await turn_of(store, request, agent)
        rules = CallRules(bench.rules, await bench.rules.rules(request.agent), request.agent, turn)
        call = partial(self._model, store, runtime, request, spec, reading, rules=rules)
        timeout_s = spec.limits.model_timeout_s
        run = partial(model_run.run, bench, request, call, follows=reading.last, claim=claim, timeout_s=timeout_s)
        return await self._attestation.during(store, run)

    async def _model(
        self,
        store: Store,
        runtime: AppRuntime,
        request: ModelRequest,
        spec: AgentSpec,
        reading: Reading,
        *,
        rules: CallRules,
    ) -> ModelOutcome:
        from . import model  # noqa: PLC0415 - litellm takes seconds; only workers pay, once

        agent = agent_of(runtime.app, request.agent)
        async with self._beginning:  # litellm computes for a while: claims are not to wait until all calls have begun
            await asyncio.sleep(0)
        if isinstance(found := model_outcome.asked(request, spec, reading), ModelFailed | Summarized):
            return found
        (own, asked), (asking, messages) = found, model_outcome.to_send(*found)
        counts = ModelCounts(self._counts, asking.model)
        with model_span(request, asking, messages, self.secrets.content) as span:
            how: dict[str, Any] = {"redaction": self.secrets.redaction, "rules": rules.sending(asked), "counts": counts}
            how |= {"breakers": self._breakers, "hidden": asked.due is not None}
            how["direct"] = self._settings.actors.process_limits.direct_streams
            how["loop"] = lambda: runtime.latest  # the app's rules run in threads, so its event loop need not turn
            outcome = await model.call(store, request, spec=asking, messages=messages, agent=agent, **how)
            outcome = model_outcome.answered_by(outcome, asking, spec)
            span.ended(outcome, tries=counts.tries)
        counts.ended(outcome)
        self._background.start(spend(store, request.conversation_id, outcome, counts.cost_usd))
        return model_outcome.concluded(outcome, own, asked, reading, request.stopped)

    async def _spec(self, store: Store, digest: str) -> AgentSpec:
        return await self._specs.spec(store, digest)

    async def _tell(self, store: Store) -> None:
        await tell(store, self._counts)
        await self._breakers.tell(store, short_name(self._settings.name), leaving=self._leaving)

    def _begin_draining(self) -> None:
        if self._drain is None:
            with about_nothing():
                self._drain = asyncio.create_task(self._drained())

    async def _drained(self) -> None:
        """Exit once idle, if the app has newer code or a successor has taken over."""
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(DRAIN_CHECK_S)
            try:
                store = await self._connected()
                await self._tell(store)
                if self._opened is not None:
                    await self._opened[1].tidy()
                held = self._opened is not None and self._opened[1].worn
                await self._succession.hand_over(store, held=held)
                if self._working():
                    idle_since = time.monotonic()
                    continue
                record = await store.app(self._settings.app)
                used_at = max(idle_since, self._succession.asked_at)
                await self._succession.end_unless_used(store, record, used_at, self._working)
            except HoldfastError:
                continue
            except Exception:
                logger.exception("%s: housekeeping", self._settings.name)
                continue
            other = record is not None and record.code != self._settings.code
            replaced = self._succession.succeeded or self._succession.foreign or other
            idle_s = 0.0 if self._working() else time.monotonic() - idle_since
            if idle_s > (2 * DRAIN_CHECK_S if replaced else ALONE_IDLE_S if self._settings.alone else math.inf):
                self._leaving = True
                with contextlib.suppress(HoldfastError):
                    await self._tell(store)
                await self._close()
                self._end()
                return

    def _working(self) -> bool:
        return bool(self._runs or self._model_calls or self._deliveries)

    def _end(self) -> None:
        ray.get_runtime_context().current_actor.leave.remote()

    async def _close(self) -> None:
        if self._opened is not None:
            try:
                async with asyncio.timeout(ENDING_S):
                    await self._opened[1].close()
            except Exception:  # the app's lifespan may raise anything, or hang
                logger.exception("%s could not leave the app's lifespan", self._settings.name)
