"""Carrying out one effect. Model calls and runs are followed through their records in the store, within a time limit."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, replace
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
    WorkOutcome,
)
from holdfast.conversation import BeginTurn, CallModel, Command, Effect, FailureReason, OnLost, RunTool, State
from holdfast.conversation.records.commands import ModelFailed, RunFinished, RunLost, TurnPrepared
from holdfast.conversation.text.envelope import failure
from holdfast.persistence import Run, RunStatus, codec
from holdfast.work_context import REQUEST

from .context import ActivationContext
from .ownership import Ownership

LOOK_S = 5.0
"""Seconds between looks at a record that no worker has claimed: the time limit of the work begins with its claim."""


@dataclass(eq=False)
class EffectRunner:
    """One attempt at one effect, with the conversation's state at the beginning of the attempt.

    `run` is the effect's record as read at the takeover, for its first attempt. `strike` counts a strike for a process that
    died; true if the activation is over then. `kept` is called once a living worker has claimed the work, or has it in its
    queue, and `works` once that worker does not have it any more.
    """

    _context: ActivationContext
    _owned: Ownership
    _: KW_ONLY
    run: Run | None
    strike: Callable[[str, str], Awaitable[bool]]
    kept: Callable[[Claimed], None]
    works: Callable[[], None]
    traceparent: str | None

    def __post_init__(self) -> None:
        self._state, self._spec, self._log_tail = self._owned.state, self._owned.spec, self._owned.log_tail

    async def outcome(self, effect: Effect, attempt: int) -> Command | None:
        """The command that records the effect's outcome; None if it has no record, or the activation is over."""
        match effect:
            case BeginTurn():
                return await begun(self._context.admission.admit, self._context.workers.published, effect, self._state)
            case CallModel():
                return await self._followed(effect, lambda lost: self._call_model(effect, attempt, lost))
            case RunTool():
                return await self._followed(effect, lambda _: self._run_tool(effect))

    async def _call_model(self, effect: CallModel, attempt: int, lost: str) -> WorkAnswer:
        request = ModelRequest(
            **vars(effect),
            **shared(self._state, self.traceparent, self._owned.blame.max_claims),
            attempt=attempt,
            log_tail=self._log_tail.upto(effect.upto_seq),
            lineage=self._log_tail.lineage,
            instead_of=lost,
        )
        return await self._context.workers.call_model(self._state.app, effect.code, request)

    async def _run_tool(self, effect: RunTool) -> WorkAnswer:
        max_claims = self._owned.blame.max_claims or int(effect.attempt - effect.resumed > 1)
        request = RunRequest(**vars(effect), **shared(self._state, self.traceparent, max_claims))
        return await self._context.workers.run_tool(self._state.app, effect.code, request)

    async def _followed(self, effect: CallModel | RunTool, dispatch: Callable[[str], Awaitable[WorkAnswer]]) -> Command | None:
        bound_s = self._bound_s(effect)
        now_s = asyncio.get_running_loop().time
        claim = self.run if self.run is not None and self.run.status is RunStatus.CLAIMED else None
        watching = asyncio.create_task(self._watch(effect, dispatch))
        asked_at_s = claimed_at_s = now_s()

        def left_s() -> float:
            """Seconds for which the claim still counts: up to its own limit, or the work's limit since the claim was seen."""
            if claim is None:
                return LOOK_S
            return (claim.until - self._owned.time.now()) / 1000 if claim.until else claimed_at_s + bound_s + GRACE_S - now_s()

        try:
            while True:
                done, _ = await asyncio.wait({watching}, timeout=max(left_s(), 0))
                if done:
                    return watching.result()
                run = await self._context.store.run(self._state.conversation_id, effect.effect_id)
                if run is None:
                    return None
                match run.status:
                    case RunStatus.DONE:  # the recorded outcome counts, whether or not the worker answers
                        return codec.decode_outcome(run.outcome)
                    case RunStatus.CLAIMED if claim is None or run.incarnation != claim.incarnation:
                        claim, claimed_at_s = run, now_s()
                    case RunStatus.CLAIMED if left_s() <= 0:
                        return _overdue(effect, bound_s)
                    case RunStatus.RUNNABLE if now_s() - asked_at_s >= GRACE_S:  # it is queued, or its request is lost
                        _give_up(watching)
                        watching, asked_at_s, claim = asyncio.create_task(self._watch(effect, dispatch)), now_s(), None
                    case RunStatus.RUNNABLE:
                        claim = None
        except TimeoutError as error:
            raise NoWorker(str(error)) from error
        finally:
            _give_up(watching)

    async def _watch(
        self, effect: CallModel | RunTool, dispatch: Callable[[str], Awaitable[WorkAnswer]]
    ) -> WorkOutcome | RunLost | None:
        """Follow an effect by its record: dispatch runnable work, join claimed work, return the outcome of finished work."""
        conversation_id, effect_id = self._state.conversation_id, effect.effect_id
        run, self.run = self.run, None  # the record as it was at the takeover, used once
        run = run or await self._context.store.run(conversation_id, effect_id)
        confirmed, lost = False, ""
        while run is not None:
            answer: WorkAnswer
            match run.status:
                case RunStatus.CLAIMED if run.incarnation != lost:
                    answer = await self._context.workers.join(
                        run.worker, run.incarnation, conversation_id, effect_id, briefly=not confirmed
                    )
                case RunStatus.DONE:
                    answer = codec.decode_outcome(run.outcome)
                case _:
                    answer = await dispatch(lost)
            if isinstance(answer, Claimed):
                confirmed = True
                self.kept(answer)
                run = Run(RunStatus.CLAIMED, incarnation=answer.incarnation, worker=answer.worker)
                continue
            if not isinstance(answer, NoOutcome):
                return answer
            self.works()
            before, run, confirmed = run, await self._context.store.run(conversation_id, effect_id), False
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

    def _bound_s(self, effect: CallModel | RunTool) -> float:
        if self._spec is None:
            return 600.0
        if isinstance(effect, CallModel):
            return self._spec.limits.model_timeout_s
        spec = self._spec.tool(effect.tool)
        return (spec.run_timeout_s if spec is not None else None) or self._spec.limits.run_timeout_s


def shared(state: State, traceparent: str | None, max_claims: int) -> dict[str, Any]:
    """The fields of a request for work that come from its conversation."""
    said = {"conversation_id": state.conversation_id, "agent": state.agent, "traceparent": traceparent}
    return said | {"max_claims": max_claims, "request": REQUEST.get()}


async def begun(
    admit: Callable[[str], Awaitable[object]],
    find: Callable[[str, str], Awaitable[PublishedAgent | None]],
    effect: BeginTurn,
    state: State,
) -> TurnPrepared:
    """The outcome of `BeginTurn`: a turn keeps to its end the code and spec that are published when it begins."""
    app, agent = state.app, state.agent
    await admit(agent)  # else a paused turn would begin with the code from before the pause
    published = await find(app, agent)
    if published is None:
        return TurnPrepared(effect_id=effect.effect_id, problem=f"no app {app!r} is known to the store")
    if published.spec is None:
        return TurnPrepared(effect_id=effect.effect_id, problem=f"app {app!r} has no agent {agent!r} any more")
    return TurnPrepared(effect_id=effect.effect_id, code=published.code, spec=published.spec)


def _give_up(task: "asyncio.Task[WorkOutcome | RunLost | None]") -> None:
    """Cancel a task whose result no longer matters: the record has decided."""
    task.cancel()
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def _overdue(effect: CallModel | RunTool, bound_s: float) -> ModelFailed | RunFinished:
    if isinstance(effect, CallModel):
        problem = f"the model did not answer within {bound_s:g} s, nor did the worker that called it"
        return ModelFailed(effect_id=effect.effect_id, error=problem, reason=FailureReason.MODEL_TIMEOUT)
    problem = f"the tool did not finish within {bound_s:g} s, nor did its worker answer"
    return RunFinished(effect_id=effect.effect_id, ok=False, content=failure(problem))
