"""Carrying out one effect: model calls and runs are followed by their records until workers have them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

from holdfast.actors.workers import (
    GRACE_S,
    Claimed,
    ModelRequest,
    NoOutcome,
    NoWorker,
    PublishedAgent,
    RunRequest,
    WorkAnswer,
)
from holdfast.conversation import BeginTurn, CallModel, Command, Effect, FailureReason, OnLost, RunTool, State
from holdfast.conversation.records.commands import ModelFailed, RunFinished, RunLost, TurnPrepared
from holdfast.conversation.terms.budget import DaySpent, Per
from holdfast.conversation.text.envelope import failure
from holdfast.persistence import Run, RunStatus, codec
from holdfast.work_context import REQUEST

from .context import ActivationContext
from .ownership import Ownership

LOOK_S = 1.0
"""Seconds between looks at the record of work that a worker has, by an activation that other effects need."""


@dataclass(eq=False)
class EffectRunner:
    """One attempt at one effect, with the conversation's state at the beginning of the attempt.

    `run` is the effect's record as read at the takeover, for its first attempt. `strike` counts a strike for a process that
    died; true if the activation is over then. `put` is told once a living worker has claimed the work, or has it in its queue,
    and (None) once that worker does not have it any more.
    """

    _context: ActivationContext
    _owned: Ownership
    _: KW_ONLY
    run: Run | None
    strike: Callable[[str, str], Awaitable[bool]]
    put: Callable[[Claimed | None], None]
    traceparent: str | None

    def __post_init__(self) -> None:
        self._state, self._spec = self._owned.state, self._owned.spec

    async def outcome(self, effect: Effect, attempt: int) -> Command | None:
        """The command that records the effect's outcome; None if it has no record, or the activation is over."""
        match effect:
            case BeginTurn():
                context, find = self._context, self._context.workers.published
                return await begun(context.admission.admit, find, effect, self._state, spent=context.store.spent)
            case CallModel() | RunTool():
                return await self._followed(effect, attempt)

    async def _followed(self, effect: CallModel | RunTool, attempt: int) -> Command | None:
        """Follow an effect by its record: dispatch runnable work, ask about claimed work, return the outcome of finished work.

        Once a worker has the work, the conversation may be left; while this activation stays, it looks at the record.
        """
        conversation_id, effect_id, store = self._state.conversation_id, effect.effect_id, self._context.store
        run, self.run = self.run, None  # the record as it was at the takeover, used once
        run = run or await store.run(conversation_id, effect_id)
        lost = ""
        while run is not None:
            if run.status is RunStatus.DONE:
                return codec.decode_outcome(run.outcome)
            if run.status is RunStatus.CLAIMED and 0 < run.until <= self._owned.time.now():
                return _overdue(effect, self._bound_s(effect))
            answer = await self._answer(effect, attempt, run, lost)
            if isinstance(answer, Claimed):
                self.put(answer)
                await asyncio.sleep(LOOK_S)
            elif answer is not None and not isinstance(answer, NoOutcome):
                return answer
            else:
                self.put(None)
            before, run = run, await store.run(conversation_id, effect_id)
            gone = answer in (NoOutcome.GONE, NoOutcome.FORGOTTEN)
            if not gone or run is None or replace(run, until=0) != replace(before, until=0):
                continue
            if isinstance(effect, RunTool):
                what = f"tool {effect.tool}, call {effect.tool_call_id}, attempt {effect.attempt}: its worker died"
                call = self._state.turn.call(effect.tool_call_id) if self._state.turn is not None else None
                blamed = call is not None and call.on_lost is OnLost.REDISPATCH  # then it might kill one process after another
            else:
                what, blamed = f"the model call {effect_id}: its worker died", True
            if answer is NoOutcome.GONE and blamed and await self.strike(before.process, what):
                return None
            if isinstance(effect, RunTool):
                return RunLost(effect_id=effect_id)
            lost = before.incarnation
        return None

    async def _answer(self, effect: CallModel | RunTool, attempt: int, run: Run, lost: str) -> WorkAnswer | None:
        """The answer of a worker; None if it gave none within `GRACE_S`. The claim `lost` is of a process that is gone."""
        try:
            async with asyncio.timeout(GRACE_S) as bound:
                if run.status is RunStatus.CLAIMED and run.incarnation != lost:
                    return await self._context.workers.join(
                        run.worker, run.incarnation, self._state.conversation_id, effect.effect_id
                    )
                said: dict[str, Any] = {"attempt": attempt, "instead_of": lost}
                max_claims = self._owned.blame.max_claims
                request = request_of(effect, self._state, self.traceparent, max_claims=max_claims, **said)
                return await self._context.workers.do(self._state.app, request)
        except TimeoutError as error:
            if bound.expired():
                return None
            raise NoWorker(str(error)) from error

    def _bound_s(self, effect: CallModel | RunTool) -> float:
        if self._spec is None:
            return 600.0
        if isinstance(effect, CallModel):
            return self._spec.limits.model_timeout_s
        spec = self._spec.tool(effect.tool)
        return (spec.run_timeout_s if spec is not None else None) or self._spec.limits.run_timeout_s


def request_of(
    effect: CallModel | RunTool, state: State, traceparent: str | None, *, max_claims: int = 0, **of_model_call: Any
) -> ModelRequest | RunRequest:
    """The request for an effect's work; `max_claims` bounds its process's claims, `of_model_call` are fields of such."""
    again = isinstance(effect, RunTool) and effect.attempt - effect.resumed > 1
    said = vars(effect) | {"conversation_id": state.conversation_id, "agent": state.agent, "traceparent": traceparent}
    said |= {"max_claims": max_claims or int(again), "request": REQUEST.get()}
    return ModelRequest(**said, **of_model_call) if isinstance(effect, CallModel) else RunRequest(**said)


async def admitted(
    admit: Callable[[str], Awaitable[int | None]],
    find: Callable[[str, str], Awaitable[PublishedAgent | None]],
    app: str,
    agent: str,
) -> tuple[int | None, PublishedAgent | None]:
    """What is published, read after admission: else a paused turn would begin with the code from before the pause.

    With it, the time by which the turn must begin (ms UTC by the store's clock; None: any time).
    """
    until_ms = await admit(agent)
    published = await find(app, agent)
    return until_ms, None if published is None else replace(published, until_ms=until_ms)


async def begun(
    admit: Callable[[str], Awaitable[int | None]],
    find: Callable[[str, str], Awaitable[PublishedAgent | None]],
    effect: BeginTurn,
    state: State,
    published: PublishedAgent | None = None,
    *,
    spent: Callable[[str], Awaitable[DaySpent]],
) -> TurnPrepared:
    """The outcome of `BeginTurn`: a turn keeps to its end the code and spec that are published when it begins.

    `spent` says what an agent has used today; only an agent with a budget for each day is asked about.
    """
    app, agent = state.app, state.agent
    until_ms = None if published is None else published.until_ms
    if published is None:
        until_ms, published = await admitted(admit, find, app, agent)
    prepared = partial(TurnPrepared, effect_id=effect.effect_id, until_ms=until_ms)
    if published is None:
        return prepared(problem=f"no app {app!r} is known to the store")
    if published.spec is None:
        return prepared(problem=f"app {app!r} has no agent {agent!r} any more")
    today = await spent(agent) if Per.DAY in published.spec.budgeted else None
    return prepared(code=published.code, spec=published.spec, today=today)


def _overdue(effect: CallModel | RunTool, bound_s: float) -> ModelFailed | RunFinished:
    if isinstance(effect, CallModel):
        problem = f"the model did not answer within {bound_s:g} s, nor did the worker that called it"
        return ModelFailed(effect_id=effect.effect_id, error=problem, reason=FailureReason.MODEL_TIMEOUT)
    problem = f"the tool did not finish within {bound_s:g} s, nor did its worker answer"
    return RunFinished(effect_id=effect.effect_id, ok=False, content=failure(problem))
