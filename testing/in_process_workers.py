"""The workers of a rehearsal: a script answers model calls, and bodies run on the caller's own event loop."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from holdfast.actors.published import published_agent
from holdfast.actors.steps import Step
from holdfast.actors.worker import failover, model_outcome, model_run, tool_run
from holdfast.actors.worker.bench import Bench
from holdfast.actors.worker.breakers import Breakers
from holdfast.actors.worker.claims import Claim, Claims
from holdfast.actors.worker.gate import FixedRules
from holdfast.actors.worker.model_answer import TooMuch
from holdfast.actors.worker.model_outcome import ModelCounts
from holdfast.actors.worker.ongoing import Ongoing
from holdfast.actors.worker.stop_verdicts import Stops
from holdfast.actors.worker.transcripts import Transcripts
from holdfast.actors.worker.work_spans import model_span
from holdfast.actors.workers import (
    AnswerOutcome,
    ModelOutcome,
    ModelRequest,
    NoOutcome,
    PublishedAgent,
    RunOutcome,
    RunRequest,
    WorkAnswer,
)
from holdfast.agent import Agent, Rules
from holdfast.conversation import AgentSpec, FailureReason, ModelFailed, RunFinished, Summarized
from holdfast.conversation.text import jsontext
from holdfast.conversation.window import Window
from holdfast.counting import Counts
from holdfast.daemon import in_daemon
from holdfast.persistence import Store
from holdfast.persistence.views import arguments_in
from holdfast.redaction import PLAIN

from .moved_clock import MovedClock
from .rehearsal_result import ToolRun
from .scripted_caller import ScriptedCaller
from .scripted_model import ScriptedModel
from .transcripts import Message

WORKER = "rehearsal"
_T = TypeVar("_T")


class WorkerDied(Exception):
    """The rehearsed worker died between a body's end and the record of its outcome."""


class _Room:
    """The place where bodies run: the caller's own event loop."""

    in_thread = staticmethod(in_daemon)

    def __init__(self, resources: Any) -> None:
        self.resources = resources

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await work

    async def asked(self, agent: str, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        del agent, what, otherwise
        return function()


class InProcessWorkers:
    """The `holdfast.actors.Workers` of a rehearsal.

    `clock` counts all bounds; `resources` is what bodies find in `ToolContext.resources`; `lose` says by tool how many of its
    next runs are lost, and is counted down; `rules` are the permission rules in force; `breakers` those of all conversations.

    Attributes:
        runs: The executions of bodies, in the order of their ends.
        prompts: The messages that each model call was sent.
        mistake: The exception that the script itself raised: a mistake of the test, not an error of the model.
    """

    def __init__(
        self,
        store: Store,
        agent: Agent,
        *,
        model: ScriptedModel,
        clock: MovedClock,
        resources: Any,
        lose: dict[str, int],
        rules: Rules,
        breakers: Breakers,
    ) -> None:
        self._rules = rules
        self._breakers = breakers
        self.runs: list[ToolRun] = []
        self.prompts: list[list[Message]] = []
        self.mistake: Exception | None = None
        self._store = store
        self._agent = agent
        self._model = model
        self._clock = clock
        self._bench = Bench(store, WORKER, FixedRules(rules), _Room(resources))
        self._lose = lose
        self._transcripts = Transcripts()
        self._ongoing: Ongoing[RunOutcome | NoOutcome] = Ongoing()
        self._claims: Claims[Any] = Claims(uuid.uuid4().hex)

    async def published(self, app: str, agent: str) -> PublishedAgent | None:
        """See `Workers.published`."""
        record = await self._store.app(app)
        return None if record is None else await published_agent(self._store, record, agent)

    async def do(self, app: str, request: ModelRequest | RunRequest) -> WorkAnswer:
        """See `Workers.do`; a model call ends with its caller, and a run goes on."""
        del app
        if isinstance(request, RunRequest):
            return await self._run_tool(request)
        claim = self._claims.new((request.conversation_id, request.effect_id), ends=True)
        call, timeout_s = partial(self._traced, request), self._agent.spec.limits.model_timeout_s
        return await model_run.run(self._bench, request, call, claim=claim, timeout_s=timeout_s)

    async def _traced(self, request: ModelRequest) -> ModelOutcome:
        reading = await self._transcripts.reading(self._store, request)
        found = model_outcome.asked(request, self._agent.spec, reading)
        if isinstance(found, Summarized):
            return found
        with model_span(request, self._agent.spec, ()) as span:
            outcome = found if isinstance(found, ModelFailed) else await self._answered(request, *found)
            span.ended(outcome)
        if isinstance(found, ModelFailed):
            return found
        return model_outcome.concluded(outcome, *found, reading, request.stopped)

    async def _answered(self, request: ModelRequest, own: AgentSpec, asked: Window) -> AnswerOutcome:
        own, sent = model_outcome.to_send(own, asked)
        spec, effect_id = self._agent.spec if asked.due is None else own, request.effect_id
        failed = partial(ModelFailed, effect_id=effect_id)
        place, timeout_s = len(self.prompts), spec.limits.model_timeout_s

        def asks(messages: list[Message]) -> None:
            self.prompts[place:] = [messages]

        known: dict[str, Any] = {"effect_id": effect_id, "clock": self._clock, "sent": asks, "hidden": asked.due is not None}
        caller = ScriptedCaller(self._model, self._agent, own, sent, **known)
        said: dict[str, Any] = {"counts": ModelCounts(Counts(), own.model), "breakers": self._breakers, "named": effect_id}
        try:
            async with self._clock.bounded(effect_id, timeout_s) as bound:
                target, answer = await failover.answered(caller, own.models, timeout_s=timeout_s, whole=bound, **said)
        except TimeoutError:
            return model_outcome.overdue(effect_id, spec.limits)
        except failover.Failed as failure:
            self.mistake = self.mistake or caller.mistake  # it is raised again where the conversation is driven
            return failed(error=str(failure), reason=failure.reason)
        except TooMuch as excess:
            return model_outcome.excessive(effect_id, excess, PLAIN)
        try:
            turn = await (await model_outcome.turn_of(self._store, request, self._agent))()
            calls = model_outcome.judged(self._agent, spec, answer.calls(), PLAIN, rules=self._rules, turn=turn)
            value = model_outcome.reply_to_validate(self._agent, spec, answer)
            misfit = None if value is None else model_outcome.misfit(self._agent, value, PLAIN)
            stops = await Stops.of(self._store, request, spec, self._agent)
            room = lambda: self._bench.room  # noqa: E731 - as a worker gives it
            reached = None if stops is None else await stops.reached(answer, caller.cost_usd, room, PLAIN)
        except Exception as error:  # noqa: BLE001 - the app's own rules may raise anything
            problem = f"the model's answer cannot be used: {PLAIN.said(error, model_outcome.WORDS)}"
            return failed(error=problem, reason=FailureReason.UNUSABLE)
        model = target.model.model if target.model.model != own.model else ""
        found: dict[str, Any] = {"model": model, "misfit": misfit, "reached": reached}
        replied = model_outcome.replied(effect_id, answer, calls, route="", **found).model_copy(
            update={"cost_usd": caller.cost_usd}
        )
        return model_outcome.answered_by(replied, own, self._agent.spec)

    async def _run_tool(self, request: RunRequest) -> WorkAnswer:
        claim: Claim[Any] = self._claims.new((request.conversation_id, request.effect_id), process=uuid.uuid4().hex)
        begin = partial(self._claims.during, claim, partial(self._run, request, claim), self._store)
        try:
            return await asyncio.shield(self._ongoing.joined(request.effect_id, begin))
        except WorkerDied:
            return NoOutcome.GONE

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> NoOutcome:
        """See `Workers.join`; a worker that claimed work without an outcome is always gone."""
        del worker, incarnation, conversation_id, effect_id
        return NoOutcome.GONE

    def drop(self, worker: str, incarnation: str) -> None:
        """See `Workers.drop`; a model call has already ended with its caller, a run is told."""
        del worker
        self._claims.drop(incarnation)

    def close(self) -> None:
        """End the runs that are still under way."""
        self._ongoing.cancel_all()

    async def _run(self, request: RunRequest, claim: Claim[Any]) -> RunOutcome | NoOutcome:
        inputs = await tool_run.inputs_of(self._store, request)
        ran = partial(ToolRun, request.tool, request.tool_call_id, arguments_in(inputs.source, request.tool_call_id))
        lost = self._lose.get(request.tool, 0) > 0
        if lost:
            self._lose[request.tool] -= 1

        def reached(step: Step) -> None:
            if lost and step is Step.RUN_3_RETURNED:
                self.runs.append(ran(request.attempt, ok=False, result=None, lost=True))
                raise WorkerDied(request.effect_id)

        bench = replace(self._bench, clock=partial(self._clock.bounded, request.effect_id), reached=reached)
        limits = self._agent.spec.limits
        outcome = await tool_run.run(bench, request, inputs, agent=self._agent, limits=limits, claim=claim)
        if isinstance(outcome, RunFinished):
            told = jsontext.loads(outcome.content)
            self.runs.append(ran(request.attempt, ok=outcome.ok, result=told.get("result" if outcome.ok else "error")))
        return outcome
