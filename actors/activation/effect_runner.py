"""Carrying out one effect: a worker is asked for a model call, a run is followed by its record, both within a bound of time."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.actors.admission import Admission
from holdfast.actors.work_requests import ModelRequest, RunRequest
from holdfast.actors.workers import ModelOutcome, NoOutcome, NoWorker, Workers
from holdfast.conversation import (
    AgentSpec,
    BeginTurn,
    CallModel,
    Command,
    Effect,
    FailureReason,
    ModelFailed,
    OnLost,
    RunFinished,
    RunTool,
    State,
)
from holdfast.conversation.commands import RunLost, TurnPrepared
from holdfast.conversation.envelope import failure
from holdfast.persistence import Run, Runs, RunStatus, codec

from .log_tail import LogTail

GRACE_S = 30.0
"""Seconds beyond the bound of a run or model call after which the actor gives up on a worker that does not answer."""
LOOK_S = 5.0
"""Seconds between looks at the record of a run that no worker has claimed: the bound of a run begins with its claim."""


class EffectRunner:
    """One try at one effect, with the state that the conversation has when the try begins."""

    def __init__(
        self,
        store: Runs,
        workers: Workers,
        *,
        state: State,
        spec: AgentSpec | None,
        log_tail: LogTail,
        run: Run | None,
        alone: bool,
        admission: Admission,
        struck: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._workers = workers
        self._state = state
        self._spec = spec
        self._log_tail = log_tail
        self._run = run
        self._alone = alone
        self._admission = admission
        self._struck = struck

    async def outcome(self, effect: Effect, attempt: int) -> Command | None:
        """The command that tells the machine the effect's outcome; None if the run has no record, or the activation is over.

        Raises:
            NoWorker: No worker takes the effect, or the worker does not answer; the effect can be tried again.
            WorkerLost: The process that called the model died, perhaps of this call.
            WorkPaused: The effect is new work, which waits for the end of a pause.
            StoreError: The store does not answer.
            ClusterError: This process is in no cluster, or Holdfast was stopped on it.
        """
        match effect:
            case BeginTurn():
                return await self._prepare(effect)
            case CallModel():
                return await self._call_model(effect, attempt)
            case RunTool():
                return await self._run_tool(effect)

    async def _prepare(self, effect: BeginTurn) -> TurnPrepared:
        app, agent = self._state.app, self._state.agent
        await self._admission.admit(agent)  # else a paused turn would begin with the code from before the pause
        standing = await self._workers.standing(app, agent)
        if standing is None:
            return TurnPrepared(effect_id=effect.effect_id, problem=f"no app {app!r} is known to the store")
        if standing.spec is None:
            return TurnPrepared(effect_id=effect.effect_id, problem=f"app {app!r} has no agent {agent!r} any more")
        return TurnPrepared(effect_id=effect.effect_id, code=standing.code, spec=standing.spec)

    async def _call_model(self, effect: CallModel, attempt: int) -> ModelOutcome:
        request = ModelRequest(
            conversation_id=self._state.conversation_id,
            agent=self._state.agent,
            spec_digest=effect.spec_digest,
            effect_id=effect.effect_id,
            upto_seq=effect.upto_seq,
            attempt=attempt,
            alone=self._alone,
            log_tail=self._log_tail.upto(effect.upto_seq),
            lineage=self._log_tail.lineage,
        )
        bound_s = self._spec.limits.model_timeout_s if self._spec is not None else 600.0
        try:
            async with asyncio.timeout(bound_s + GRACE_S) as bound:
                return await self._workers.call_model(self._state.app, effect.code, request)
        except TimeoutError as error:
            if not bound.expired():
                raise NoWorker(str(error)) from error
            problem = f"the model did not answer within {bound_s:g} s, nor did the worker that called it"
            return ModelFailed(effect_id=effect.effect_id, error=problem, reason=FailureReason.MODEL_TIMEOUT)

    async def _run_tool(self, effect: RunTool) -> RunFinished | RunLost | None:
        request = RunRequest(
            conversation_id=self._state.conversation_id,
            agent=self._state.agent,
            spec_digest=effect.spec_digest,
            effect_id=effect.effect_id,
            turn_id=effect.turn_id,
            tool_call_id=effect.tool_call_id,
            tool=effect.tool,
            attempt=effect.attempt,
            arguments_at=effect.arguments_at,
            alone=effect.attempt > 1 or self._alone,
        )
        claimed_by = self._run.incarnation if self._run is not None and self._run.status is RunStatus.CLAIMED else ""
        bound_s = self._run_timeout_s(effect.tool)
        now_s = asyncio.get_running_loop().time
        watching = asyncio.create_task(self._watch(effect, request))
        asked_at_s = claimed_at_s = now_s()
        try:
            while True:
                left_s = claimed_at_s + bound_s + GRACE_S - now_s() if claimed_by else LOOK_S
                done, _ = await asyncio.wait({watching}, timeout=max(left_s, 0))
                if done:
                    return watching.result()
                run = await self._store.run(self._state.conversation_id, effect.effect_id)
                if run is None:
                    return None
                match run.status:
                    case RunStatus.DONE:  # the recorded outcome counts, whether or not the worker answers
                        return codec.decode_outcome(run.outcome)
                    case RunStatus.CLAIMED if run.incarnation != claimed_by:
                        claimed_by, claimed_at_s = run.incarnation, now_s()
                    case RunStatus.CLAIMED:
                        problem = f"the tool did not finish within {bound_s:g} s, nor did its worker answer"
                        return RunFinished(effect_id=effect.effect_id, ok=False, content=failure(problem))
                    case RunStatus.RUNNABLE if now_s() - asked_at_s >= GRACE_S:  # it waits its turn, or its request is lost
                        watching.cancel()
                        watching, asked_at_s, claimed_by = asyncio.create_task(self._watch(effect, request)), now_s(), ""
                    case RunStatus.RUNNABLE:
                        claimed_by = ""
        except TimeoutError as error:
            raise NoWorker(str(error)) from error
        finally:
            watching.cancel()

    async def _watch(self, effect: RunTool, request: RunRequest) -> RunFinished | RunLost | None:
        """Follow a run by its record: dispatch a runnable run, join a claimed one, take the outcome of one that is done."""
        run, self._run = self._run, None  # the record as it was at the takeover, used once
        run = run or await self._store.run(self._state.conversation_id, effect.effect_id)
        while run is not None:
            answer: RunFinished | NoOutcome
            match run.status:
                case RunStatus.RUNNABLE:
                    answer = await self._workers.run_tool(self._state.app, effect.code, request)
                case RunStatus.CLAIMED:
                    answer = await self._workers.join(
                        run.worker, run.incarnation, self._state.conversation_id, effect.effect_id
                    )
                case RunStatus.DONE:
                    answer = codec.decode_outcome(run.outcome)
            if isinstance(answer, RunFinished):
                return answer
            before, run = run, await self._store.run(self._state.conversation_id, effect.effect_id)
            if answer in (NoOutcome.GONE, NoOutcome.FORGOTTEN) and run == before:
                what = f"tool {effect.tool}, call {effect.tool_call_id}, attempt {effect.attempt}: its worker died"
                died_of_it = answer is NoOutcome.GONE and self._runs_again(effect)
                if died_of_it and await self._struck(before.incarnation.partition(".")[0], what):
                    return None
                return RunLost(effect_id=effect.effect_id)
        return None

    def _runs_again(self, effect: RunTool) -> bool:
        """Whether the machine starts a lost run again without asking anybody, so that it might end process after process."""
        call = self._state.turn.call(effect.tool_call_id) if self._state.turn is not None else None
        return call is not None and call.on_lost is OnLost.REDISPATCH

    def _run_timeout_s(self, tool: str) -> float:
        if self._spec is None:
            return 600.0
        spec = self._spec.tool(tool)
        return (spec.run_timeout_s if spec is not None else None) or self._spec.limits.run_timeout_s
