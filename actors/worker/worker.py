"""The worker: imports the app and litellm once and runs effects for all conversations."""

import asyncio
import contextlib
import logging
import math
import os
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import ray
from ray.actor import exit_actor

from holdfast import metrics
from holdfast.actors import logs, wire
from holdfast.actors.actor_settings import WorkerSettings, short_name
from holdfast.actors.admission import Admission
from holdfast.actors.log_lines import write_lines
from holdfast.actors.published import Published
from holdfast.actors.spec_cache import SpecCache
from holdfast.actors.steps import reached_here
from holdfast.actors.telling import tell
from holdfast.actors.trace_export import export_spans, flush_spans
from holdfast.actors.vault import Vault
from holdfast.actors.work_requests import ModelRequest, RunRequest
from holdfast.actors.workers import ModelAnswer, ModelOutcome, NoOutcome, RunAnswer, RunOutcome
from holdfast.agent import Agent, TurnContext
from holdfast.background import Background
from holdfast.conversation import AgentSpec, RunFinished, RunRuled, RunSuspended
from holdfast.conversation.decisions import Ruling
from holdfast.conversation.granting import MAY_NOT
from holdfast.conversation.ruled import Effect, Ruled
from holdfast.counting import Counts
from holdfast.daemon import in_daemon
from holdfast.errors import HoldfastError
from holdfast.log_context import about, about_nothing
from holdfast.persistence import Directory, Pausing, RedisStore, Store
from holdfast.redaction import Redaction

from . import model_run, tool_run
from .alone import alone_again
from .app_loop import THREADS, AppLoop
from .app_runtime import AllBlocked, AppRuntime, agent_of, check_environment
from .attestation import Attestation
from .claims import Claim, Claims
from .gate import UNTOLD_DECIDERS, CallRules, Gate, asks_others, lifted, required_again, stopped
from .givers import GrantGivers
from .keeper import keep_sweeper
from .model_counts import ModelCounts
from .model_outcome import turn_of
from .ongoing import Ongoing
from .refusals import AppBroken, Dropped, Succeeded, shared, told
from .spending import spend
from .succession import Succession
from .threads import end_within
from .transcripts import Reading, Transcripts
from .turnstile import NotYet, Turnstile
from .work_spans import NO_CONTENT, Content, model_span

logger = logging.getLogger("holdfast.worker")

_T = TypeVar("_T")
AT_ONCE = 1000
"""How many async bodies go on at once; of those that block, as many as there are threads."""
CONNECTIONS = ("AIOHTTP_CONNECTOR_LIMIT", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST")
"""The variables that say how many connections litellm may have: with fewer than model calls, some calls would wait there."""
SIGNING = "HOLDFAST_APP_KEY"
"""The variable with the key that signs published apps; the worker removes it, so that the app's tools do not inherit it."""
TURN_S = 600.0
"""For how long work waits for its turn before it is sent away and has to come back. Its caller is told that it waits."""
LOOP_S = 12.0
"""For how long a run waits for a loop before it is sent away and has to come back."""
SAID = 4096
"""How many characters are kept of an error that the app's code raised."""
TRACEBACK = 16_384
ENDING_S = 30.0
"""For how long a worker that has left may take to end, even if callbacks hold its threads."""
DRAIN_CHECK_S = 5.0
ALONE_IDLE_S = 30.0
"""How long a worker for work that is done alone waits for more."""


class Worker:
    """Runs model calls and tools. One incarnation lives as long as its process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._incarnation = uuid.uuid4().hex
        self._unshared = {name: os.environ.pop(name) for name in (SIGNING,) if name in os.environ}
        self._named: set[str] = set()
        self._learn(settings.environment)
        if ray.is_initialized():  # then this process belongs to this worker alone
            write_lines(short_name(settings.name), settings.log)
            export_spans(short_name(settings.name), settings.traces)
        self._opening: Ongoing[None] = Ongoing()
        self._opened: tuple[Store, AppRuntime] | None = None
        self._specs = SpecCache()
        self._transcripts = Transcripts()
        self._readings: Ongoing[Reading] = Ongoing()
        self._runs: Ongoing[RunOutcome | NoOutcome] = Ongoing()
        self._claims: Claims[Any] = Claims(self._incarnation, settings.name)
        self._model_calls: Ongoing[ModelOutcome | NoOutcome] = Ongoing()
        self._drain: asyncio.Task[None] | None = None
        self._leaving = False
        self._succession = Succession(settings)
        self._reached = reached_here()
        self._counts = Counts()
        self._spending = Background()
        alone = Turnstile(THREADS) if settings.alone else None  # one for all work
        self._models = alone or Turnstile(settings.model_calls)
        for name in CONNECTIONS:
            os.environ.setdefault(name, str(max(settings.model_calls, 1000)))
        self._bodies = alone or Turnstile(AT_ONCE)
        self._threads = alone or Turnstile(THREADS)
        self._store: Store | None = None
        self._admission: Admission | None = None
        self._gate: Gate | None = None
        self._givers: GrantGivers | None = None
        self._attestation = Attestation(self._incarnation)
        self._keeping: asyncio.Task[None] | None = None
        if settings.sweeper is not None:  # from the start: a worker that Ray has started again may never be asked for anything
            self._begin_draining()
            self._keeping = asyncio.get_running_loop().create_task(keep_sweeper(settings.sweeper, self._connected))

    def without_secrets(self, error: BaseException) -> str:
        """The traceback of an error, without the secrets of this process."""
        return self._redaction.redacted("".join(traceback.format_exception(error)), TRACEBACK)

    @told
    async def prepare(self, environment: Mapping[str, str] | None = None) -> str:
        """Import the app and open its resources, with these variables in the environment; the id of this incarnation.

        Raises:
            AppBroken: The app cannot be imported or opened here, or this worker ends.
            Succeeded: This worker's successor is in office.
            StoreError: The store does not answer.
        """
        os.environ.update(environment or {})
        self._learn(environment or {})
        await self._open()
        return self._incarnation

    async def process(self) -> str:
        """The id of this process's incarnation of the worker."""
        self._begin_draining()  # also in a worker that Ray has started again and that is asked for nothing else
        return self._incarnation

    async def retire(self) -> None:
        """Take on no new work: this worker is drained, or another release serves the store. It ends once its work is over."""
        self._succession.succeeded = True
        self._begin_draining()
        with contextlib.suppress(HoldfastError):  # an actor that comes back to this release finds a successor in office
            await self._succession.begin(await self._connected())

    async def leave(self) -> None:
        """End this worker: Ray ends an actor only at the end of a call. Its threads have `ENDING_S` seconds left."""
        end_within(ENDING_S)
        await flush_spans()
        exit_actor()

    async def work(self) -> dict[str, Any]:
        """The work of this worker in plain values: `app`, how many `runs` and `model_calls`, and whether it is `leaving`."""
        leaving = self._succession.succeeded or self._leaving
        return {
            "app": self._settings.app,
            "runs": len(self._runs),
            "model_calls": len(self._model_calls),
            "leaving": leaving,
        }

    async def pid(self) -> int:
        """The id of the process that runs this incarnation."""
        return os.getpid()

    @told
    async def call_model(self, asked: bytes) -> bytes:
        """Claim a model call, call the model, judge the calls it asks for by the app's own rules, and record the outcome.

        A second request for a call that goes on joins it. The answer is a packed `ModelAnswer`.

        Raises:
            WorkPaused: New work of the agent waits; nothing was claimed.
            Dropped: The call was dropped, or its turn has not come yet.
            AppBroken: The app cannot be imported or opened here, or this worker ends.
            Succeeded: This worker's successor is in office.
            StoreError: The store does not answer.
        """
        request: ModelRequest = wire.unpack(asked)
        with about(**request.about):
            return wire.pack(await self._model_called(request))

    @told
    async def run_tool(self, asked: bytes) -> bytes:
        """Claim a run, run its body and record its outcome; a second request for a run that goes on joins it.

        The answer is a packed `RunAnswer`.

        Raises:
            WorkPaused: New work of the agent waits; the run was not claimed.
            Dropped: The run's turn has not come yet; it was not claimed.
            AppBroken: The app cannot be imported or opened here, or this worker ends.
            Succeeded: This worker's successor is in office.
            StoreError: The store does not answer.
        """
        request: RunRequest = wire.unpack(asked)
        with about(**request.about):
            return wire.pack(await self._tool_run(request))

    @told
    async def join(self, incarnation: str, *, briefly: bool = False) -> bytes:
        """Wait for what this incarnation has claimed; `GONE` if another has, `FORGOTTEN` if it is over here.

        The answer is a packed `RunAnswer` or `ModelAnswer`; with `briefly`, it is `Claimed` where the work goes on.
        """
        return wire.pack(await self._joined(incarnation, briefly=briefly))

    async def keeps(self, incarnations: Sequence[str]) -> Sequence[bool]:
        """Which of these claims are at work in this process."""
        return [self._claims.keeps(one) for one in incarnations]

    async def _model_called(self, request: ModelRequest) -> ModelAnswer:
        store, runtime = await self._open()
        self._refuse_if_leaving()
        ticket = (request.conversation_id, request.effect_id)
        reading = await shared(
            self._readings.joined(
                (*ticket, request.upto_seq, request.lineage), lambda: self._transcripts.reading(store, request)
            )
        )
        key = (*ticket, reading.mark, request.instead_of)  # the messages count: the log may have been set back

        def begun() -> Any:
            claim: Claim[Any] = self._claims.new(ticket, ends=True)
            call = partial(self._model_run, store, runtime, request, reading, claim)
            return self._claims.during(
                claim, partial(self._in_turn, self._models, key, call, store, runtime, at_most=request.max_claims), store
            )

        if not request.waits and self._models.full(request.max_claims) and key not in self._model_calls:
            return NoOutcome.FULL
        return await self._claims.answer(self._model_calls.joined(key, begun))

    async def _tool_run(self, request: RunRequest) -> RunAnswer:
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
            turn = partial(self._in_turn, lane, key, run, store, runtime, at_most=request.max_claims)
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
        try:
            async with asyncio.timeout(LOOP_S) as bound:
                loop = await runtime.loop()
        except AllBlocked as error:
            await self._succession.begin(store)
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
                incarnation=claim.incarnation,
                worker=self._settings.name,
                stands=claim.stands,
                cancellation=claim.cancellation,
                admitted=partial(self._admitted, store, request.agent),
                judged=partial(self._judged, store, request=request, agent=agent, loop=loop),
                alone=partial(self._alone, request=request, agent=agent, loop=loop),
                reached=self._reached,
                redaction=self._redaction,
                content=self._content,
            )
            began_s = time.monotonic()
            outcome = await self._attestation.during(store, run)
        if isinstance(outcome, RunFinished):
            named = (request.agent, request.tool)
            self._counts.add(metrics.RUNS, *named, "ok" if outcome.ok else "error")
            self._counts.observe(metrics.RUN_S, time.monotonic() - began_s, *named)
        elif isinstance(outcome, RunSuspended):
            self._counts.add(metrics.RUNS, request.agent, request.tool, "suspended")
        elif isinstance(outcome, RunRuled):
            self._counts.add(metrics.RUNS, request.agent, request.tool, str(outcome.ruled.effect))
        return outcome

    async def _judged(
        self,
        store: Store,
        arguments: dict[str, Any] | None,
        turn: TurnContext,
        *,
        request: RunRequest,
        agent: Agent | None,
        loop: AppLoop,
        edits: bool = False,
    ) -> tuple[Ruled | None, int | None]:
        """The verdict of the rules in force that does not let a run begin, if any, and by when it must begin otherwise.

        The rules are read after the app's function has said its word: what they let run must begin soon.
        """
        if self._givers is None:
            self._givers = GrantGivers(store)
        lapsed, held_until = await self._givers.lapsed(request)
        if lapsed:
            return Ruled(effect=Effect.ASK, reason=MAY_NOT, lapsed=lapsed), None
        required = await self._required_again(arguments, turn, request, agent, loop)
        others = await self._others(arguments, request, agent, loop) if edits else None
        rules, until = await self._in_force(store).begin_by(request.agent)
        ruled = stopped(rules, agent, request, arguments, required=required, others=others)
        return ruled, tool_run.earliest(until, held_until)

    async def _alone(
        self,
        arguments: dict[str, Any],
        turn: TurnContext,
        ruled: Ruled,
        *,
        request: RunRequest,
        agent: Agent | None,
        loop: AppLoop,
    ) -> Ruling | None:
        """What a function of the app decides about a run that a person would be asked about."""
        if agent is None or not agent.unattended.by_function:
            return None
        decide = partial(alone_again, agent, request.tool, arguments, turn, ruled)
        return await loop.asked(agent.name, f"unattended= of {agent.name}", decide, None)

    async def _required_again(
        self, arguments: dict[str, Any] | None, turn: TurnContext, request: RunRequest, agent: Agent | None, loop: AppLoop
    ) -> bool:
        said = partial(required_again, agent, request, arguments, turn)
        tool = agent.tool(request.tool) if agent is not None else None
        if not (tool is not None and tool.approves_by_function and lifted(request)):
            return said()
        return await loop.asked(request.agent, f"approval= of {tool.name}", said, otherwise=True)

    async def _others(
        self, arguments: dict[str, Any] | None, request: RunRequest, agent: Agent | None, loop: AppLoop
    ) -> Ruled | None:
        said = partial(asks_others, agent, request, arguments)
        tool = agent.tool(request.tool) if agent is not None else None
        if tool is None or not tool.is_decided_by_function:
            return said()
        return await loop.asked(request.agent, f"approvers= of {tool.name}", said, UNTOLD_DECIDERS)

    def _in_force(self, store: Store) -> Gate:
        if self._gate is None:
            settings = self._settings
            read = partial(store.app, settings.app)
            if ray.is_initialized():
                read = partial(
                    Published(store, settings.store, partial(in_daemon, Vault(settings.store).key)).record, settings.app
                )
            self._gate = Gate(store, read)
        return self._gate

    async def _joined(self, incarnation: str, *, briefly: bool) -> RunAnswer | ModelAnswer:
        if not incarnation.startswith(f"{self._incarnation}."):
            return NoOutcome.GONE
        task = self._claims.task(incarnation)
        return NoOutcome.FORGOTTEN if task is None else await self._claims.answer(task, briefly=briefly)

    async def drop(self, incarnation: str) -> None:
        """End a model call for which nobody waits any more: its stream is closed. A run is told so, and its outcome is late."""
        self._claims.drop(incarnation)

    @property
    def _content(self) -> Content:
        """What spans show of content, with the secrets that are known by now."""
        return Content(self._redaction) if self._settings.traces.content else NO_CONTENT

    def _learn(self, named: Iterable[str]) -> None:
        """Take the values that these variables have in the environment now for secrets, too."""
        self._named.update(named)
        self._redaction = Redaction.of_process(
            {**os.environ, **self._unshared}, self._named, urls=[self._settings.store.redis_url]
        )
        logs.guard_process(self._redaction)

    async def _admitted(self, store: Pausing, agent: str) -> int:
        """Let new work of an agent begin; the time by which it must begin, in ms UTC by the store's clock.

        Raises:
            WorkPaused: New work of the agent waits.
            StoreUnavailable: Whether new work waits cannot be said now.
        """
        if self._admission is None:
            self._admission = Admission(store)
        return await self._admission.admit(agent)

    async def _connected(self) -> Store:
        if self._store is None:
            address = self._settings.store
            store = RedisStore(
                address.redis_url,
                namespace=address.namespace,
                store_id=address.store_id,
                cipher=address.cipher,
                counts=self._counts,
            )
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
        at_most: int,
    ) -> _T:
        try:
            await lane.enter(key, TURN_S, at_most=at_most)
        except NotYet as error:
            message = f"{self._settings.name}: {error}"
            raise Dropped(message) from None
        try:
            self._refuse_if_leaving()
            self._succession.effects += 1
            result = await work()
            if ((self._settings.alone and runtime.left) or runtime.worn) and not self._succession.succeeded:
                await self._succession.begin(
                    store
                )  # a callback beyond its bound may go on here: the next call gets another process
            return result
        finally:
            lane.leave(at_most=at_most)

    def _refuse_if_leaving(self) -> None:
        if self._succession.succeeded:
            message = "this worker's successor is in office"
            raise Succeeded(message)
        if self._leaving:
            message = "this worker ends: other code stands for its app"
            raise AppBroken(message)

    async def _open(self) -> tuple[Store, AppRuntime]:
        self._succession.asked_at = time.monotonic()
        if self._opened is None:
            self._refuse_if_leaving()  # an app that could not be opened in time is not opened here again
            await shared(self._opening.joined("app", self._open_anew))
        if self._opened is None:
            message = "the app is not open"
            raise AppBroken(message)
        return self._opened

    async def _open_anew(self) -> None:
        """Open the app, once for all callers that wait for it: an app that cannot be opened is not tried anew for each."""
        store = await self._connected()
        self._begin_draining()
        self._claims.look(self._connected)
        os.environ.update(self._settings.environment)
        if ray.is_initialized():  # then this process belongs to this worker alone
            logs.guard_app()
        try:
            self._learn(self._settings.needed)
            check_environment(self._settings.needed)
            runtime = await AppRuntime.open(self._settings)
        except Exception as error:  # noqa: BLE001 - the app's own import and lifespan may raise anything
            self._learn(())  # the app may have put secrets into the environment
            problem = self._redaction.said(error, SAID)
            logger.warning("%s cannot open its app: %s", self._settings.name, problem)
            if isinstance(error, TimeoutError):
                await self._succession.begin(
                    store
                )  # an app that hangs may hold a thread, or a lock, for as long as this process lives
            await store.put_problem(self._settings.app, problem)
            raise AppBroken(problem) from None
        self._learn(runtime.app.environment(os.environ))
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
        in_force = self._in_force(store)
        turn = await turn_of(store, request, agent)
        rules = CallRules(in_force, await in_force.rules(request.agent), request.agent, turn)
        run = partial(
            model_run.run,
            store,
            request,
            partial(self._model, store, runtime, request, spec, reading.messages, rules=rules),
            follows=reading.last,
            claim=claim,
            worker=self._settings.name,
            timeout_s=spec.limits.model_timeout_s,
            admitted=partial(self._admitted, store, request.agent),
            reached=self._reached,
        )
        return await self._attestation.during(store, run)

    async def _model(
        self,
        store: Store,
        runtime: AppRuntime,
        request: ModelRequest,
        spec: AgentSpec,
        messages: list[dict[str, Any]],
        *,
        rules: CallRules,
    ) -> ModelOutcome:
        from . import model  # noqa: PLC0415 - litellm takes seconds; only workers pay, once

        async def latest() -> AppLoop:
            return runtime.latest  # the app's rules run in threads: whether its event loop turns is no matter

        agent = agent_of(runtime.app, request.agent)
        counts = ModelCounts(self._counts, spec.model)
        with model_span(request, spec, messages, self._content) as span:
            outcome = await model.call(
                store,
                request,
                spec=spec,
                messages=messages,
                agent=agent,
                loop=latest,
                rules=rules,
                redaction=self._redaction,
                counts=counts,
            )
            span.ended(outcome, tries=counts.tries)
        counts.ended(outcome)
        self._spending.start(spend(store, request.conversation_id, outcome, counts.cost_usd))
        return outcome

    async def _spec(self, store: Directory, digest: str) -> AgentSpec:
        return await self._specs.spec(store, digest)

    def _begin_draining(self) -> None:
        if self._drain is None:
            with about_nothing():
                self._drain = asyncio.create_task(self._drained())

    async def _drained(self) -> None:
        """End this worker once nothing runs here any more and other code stands for its app, or its successor is in office."""
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(DRAIN_CHECK_S)
            try:
                store = await self._connected()
                await tell(store, self._counts)
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
            replaced = self._succession.succeeded or (record is not None and record.code != self._settings.code)
            idle_s = 0.0 if self._working() else time.monotonic() - idle_since
            if idle_s > (2 * DRAIN_CHECK_S if replaced else ALONE_IDLE_S if self._settings.alone else math.inf):
                self._leaving = True
                with contextlib.suppress(HoldfastError):
                    await tell(store, self._counts)
                await self._close()
                self._end()
                return

    def _working(self) -> bool:
        return bool(self._runs or self._model_calls)

    def _end(self) -> None:
        ray.get_runtime_context().current_actor.leave.remote()

    async def _close(self) -> None:
        if self._opened is not None:
            try:
                async with asyncio.timeout(ENDING_S):
                    await self._opened[1].close()
            except Exception:  # the app's lifespan may raise anything, or hang
                logger.exception("%s could not leave the app's lifespan", self._settings.name)
