"""The outstanding effects of an activation: those that go on, and those to start or drop after a write."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from holdfast.actors.workers import Claimed, NoApp, NoWorker, WorkPaused
from holdfast.backoff import Backoff
from holdfast.conversation import (
    BeginTurn,
    CallModel,
    Command,
    Effect,
    FailureReason,
    RunTool,
    SummaryFailure,
    Wake,
    compaction,
    outstanding,
)
from holdfast.conversation.judging.machine import effect_of
from holdfast.conversation.records.command_base import Outcome
from holdfast.conversation.records.commands import ModelFailed, ModelReplied, RunFinished, RunLost, Summarized, TurnPrepared
from holdfast.conversation.records.events import MessageAccepted, TurnStarted
from holdfast.conversation.text.envelope import failure
from holdfast.errors import ClusterError, CorruptStore, StoreError
from holdfast.persistence import Append, Appended
from holdfast.redaction import PLAIN
from holdfast.work_context import CONVERSATION, EFFECT, REQUEST, TRACE, trace_id_of

from .context import ActivationContext
from .effect_runner import EffectRunner
from .mailbox import Asked, Leave, Mailbox
from .ownership import Ownership
from .rest import Elsewhere, Rest
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

LONGEST_DELAY_S = 5.0
UNEXPLAINED = 20
"""How many unexplained failures of an effect put its conversation in quarantine (after about a minute)."""
UNREADABLE = 5
"""How many failures to read a record put its conversation in quarantine: unreadable records seldom recover."""


@dataclass(eq=False)
class Outstanding:
    """The effects of one activation, each a task that ends with its outcome in the mailbox.

    `strike` counts a strike for a process that died (None: for the conversation itself), with the reason and optionally another
    `limit` for quarantine; true if the activation is over now.
    """

    _context: ActivationContext
    _owned: Ownership
    _mailbox: Mailbox
    _rest: Rest
    _strike: Callable[..., Awaitable[bool]]
    _trace: TurnTrace
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _requests: dict[int, str] = field(default_factory=dict)  # HTTP request ids of waiting messages, by place in the log
    _changed: set[str] | None = None  # ids of the effects changed since the last look; None: all may have changed

    @property
    def paused(self) -> bool:
        """Whether effects are outstanding and all of them wait for the end of a pause."""
        return self._owned.state.busy and self._rest.paused(self.tasks)

    @property
    def elsewhere(self) -> bool:
        """Whether effects are outstanding and none needs this activation: workers have them, or they wait for app or pause."""
        return self._owned.state.busy and self._rest.elsewhere(self.tasks)

    def start(self) -> None:
        """Start outstanding effects that do not run yet, and drop those that are settled."""
        owned = self._owned
        if owned.over or owned.unsure:
            return
        for effect_id, effect in self._looked_at().items():
            if effect is not None and effect_id not in self.tasks:
                self.tasks[effect_id] = asyncio.create_task(self._carry_out(effect))
            elif effect is None and effect_id in self.tasks:
                owned.runs.pop(effect_id, None)
                self.tasks.pop(effect_id).cancel()
        self._see_whether_it_rests()

    def adopted(self, write: Append, written: Appended) -> None:
        """Note which effects a durable write may have changed, and have workers drop the work that it has settled."""
        self._note_requests(write)
        for run in written.removed.values():
            self._context.workers.drop(run.worker, run.incarnation)
        if self._changed is not None and write.before.calls.any_running and write.after.calls.any_running:
            changes = write.delta
            self._changed.update(changes.scheduled, changes.settled)
        else:
            self._changed = None

    def _note_requests(self, write: Append) -> None:
        """Note each message's HTTP request, and set it for the message's turn, even if another turn's end begins that."""
        request = REQUEST.get()
        for seq, event in enumerate(write.events, write.before.seq + 1):
            if isinstance(event, MessageAccepted):
                self._requests[seq] = request
            elif isinstance(event, TurnStarted):
                REQUEST.set(self._requests.pop(event.message_seq, ""))

    def cancel_all(self) -> None:
        """Stop waiting for every effect. Each goes on in its worker; the next `start`, or another activation, follows it."""
        self._changed = None
        for task in self.tasks.values():
            task.cancel()
        self.tasks.clear()

    async def replace(self, command: Command, error: Exception) -> None:
        """Go on after a command that could not be judged or written, for an unexpected reason.

        A client's command was refused, and needs nothing more. An outcome is replaced by a failure that can be recorded:
        carrying out its effect again would bring the same outcome, at a cost. If the failure cannot be recorded either, the
        effect is carried out again after a delay; each time counts as a strike, so that this ends in quarantine.
        """
        said = PLAIN.said(error, 200)
        failed = isinstance(command, TurnPrepared | ModelFailed | RunLost) or not getattr(command, "ok", True)
        failed |= isinstance(command, Summarized) and command.failed is not None
        if isinstance(command, Outcome) and not failed:
            self._mailbox.tell(_instead_of(command, said))
        else:
            await self.put_off(command, said)

    async def put_off(self, command: Command, said: str) -> None:
        """Count a strike for an outcome that cannot be recorded (`said`: why), and carry its effect out again later."""
        match command:
            case Wake():
                await self._strike(None, f"what is due cannot be settled ({said})")
            case Outcome():
                what = f"the outcome {command.kind} of {command.effect_id} cannot be recorded ({said})"
                quarantined = await self._strike(None, what)
                if not quarantined and effect_of(self._owned.state, command.effect_id) is not None:
                    self.tasks[command.effect_id] = asyncio.create_task(self._again(command.effect_id))
            case _:
                pass

    def drop(self, effect_id: str) -> None:
        """Drop an outcome that was not written; the next `start` carries its effect out again."""
        self.tasks.pop(effect_id, None)
        self._changed = None

    async def _again(self, effect_id: str) -> None:
        """Start an effect again after a delay that grows with the crash count; until then `tasks` holds this task."""
        await asyncio.sleep(min(2 ** max(self._owned.blame.crash_count - 1, 0), LONGEST_DELAY_S))
        self.drop(effect_id)
        self.start()

    def _looked_at(self) -> dict[str, Effect | None]:
        """The effects to look at, by id (None: settled): while runs go on, only those that changed since the last look."""
        state = self._owned.state
        changed, self._changed = self._changed, set()
        if changed is not None:
            return {effect_id: effect_of(state, effect_id) for effect_id in changed}
        return dict.fromkeys(self.tasks) | {effect.effect_id: effect for effect in outstanding(state)}

    def _see_whether_it_rests(self) -> None:
        """Note whether the conversation rests; it is left as soon as workers have its effects."""
        idle = self._mailbox.empty()
        self._rest.see(idle=idle, busy=self._owned.state.busy, effects=self.tasks)
        if idle and self.elsewhere and self._rest.handed_over:
            self._mailbox.put_nowait(Leave())

    async def _carry_out(self, effect: Effect) -> None:
        """Try an effect until it has an outcome, and put that outcome into the mailbox, where it is judged."""
        conversation_id = self._owned.conversation_id
        CONVERSATION.set(conversation_id)  # of this task alone
        EFFECT.set(effect.effect_id)
        if isinstance(effect, BeginTurn):
            REQUEST.set(self._requests.get(effect.message_seq, ""))
        TRACE.set(trace_id_of(self._trace.for_work(self._owned.state)))
        backoff = Backoff(0.1, LONGEST_DELAY_S, jitter=0.5)
        attempt = 1
        failures = 0
        while True:
            met: Exception | None = None  # what counts as a failure
            allowed, where = UNREADABLE, None
            try:
                outcome = await self._runner(effect).outcome(effect, attempt)
                if outcome is None:
                    outcome = await self._unrecorded(effect)
                    if outcome is None and self._goes_on(effect):
                        continue
                if outcome is None or self._owned.over:
                    return
                # The effect stays in `tasks` until its outcome is judged, so that it is not started once more.
                self._mailbox.tell(outcome)
            except WorkPaused as paused:
                logger.info("conversation %s: %s waits: %s", conversation_id, effect.effect_id, paused)
                self._put(effect.effect_id, Elsewhere.PAUSED)
                await self._context.admission.reopened(self._owned.state.agent)
                continue  # waiting for the end of a pause does not count as a try
            except (NoWorker, StoreError, ClusterError) as error:
                logger.warning("conversation %s: %s waits: %s", conversation_id, effect.effect_id, error)
                met, where = _unreadable(error), Elsewhere.NO_APP if isinstance(error, NoApp) else None
            except Exception as error:
                logger.exception("conversation %s: %s failed", conversation_id, effect.effect_id)
                met, allowed = error, UNEXPLAINED
            else:
                return
            finally:
                self._put(effect.effect_id, where)
            if met is not None:
                failures += 1
                what = f"{effect.effect_id} failed {failures} times ({PLAIN.said(met, 300)})"
                if failures >= allowed and await self._strike(None, what, limit=1):
                    return
            await backoff.sleep()
            attempt += 1

    def _goes_on(self, effect: Effect) -> bool:
        return isinstance(effect, CallModel) and not self._owned.over and effect in outstanding(self._owned.state)

    def _put(self, effect_id: str, where: Claimed | Elsewhere | None) -> None:
        self._rest.put(effect_id, where)
        self._see_whether_it_rests()

    async def _unrecorded(self, effect: Effect) -> RunLost | None:
        """`RunLost` for an outstanding run without a record; None if the effect is settled, or has a record now.

        Only the owner can tell, and the reply to a `Wake` proves the ownership. A model call that an older release began has no
        record; the write for the `Wake` makes one.
        """
        if isinstance(effect, CallModel):
            self._owned.unrecorded.add(effect.effect_id)
        confirmed = Asked(Wake(), outside=False)
        self._mailbox.put_nowait(confirmed)
        await confirmed.reply
        lost = isinstance(effect, RunTool) and effect in outstanding(self._owned.state)
        return RunLost(effect_id=effect.effect_id) if lost else None

    def _runner(self, effect: Effect) -> EffectRunner:
        owned = self._owned
        return EffectRunner(
            self._context,
            owned,
            run=owned.runs.pop(effect.effect_id, None),
            strike=self._strike,
            put=partial(self._put, effect.effect_id),
            traceparent=self._trace.for_work(owned.state),
        )


def _unreadable(error: Exception) -> CorruptStore | None:
    """The `CorruptStore` that caused an error, if any: newer releases' records do not count."""
    # A worker may have met the unreadable record: then Ray has wrapped the error that was raised there.
    reasons = (error, error.__cause__, getattr(error.__cause__, "cause", None))
    return next((reason for reason in reasons if isinstance(reason, CorruptStore)), None)


def _instead_of(outcome: Outcome, said: str) -> ModelFailed | Summarized | RunFinished:
    """The failure to record in place of an outcome that could not be judged or written; `said` says why."""
    problem = f"the outcome cannot be recorded ({said})"
    if isinstance(outcome, ModelReplied):
        return ModelFailed(effect_id=outcome.effect_id, error=problem, reason=FailureReason.UNUSABLE)
    if isinstance(outcome, Summarized):
        return compaction.failed(outcome.effect_id, SummaryFailure.UNUSABLE, problem)
    return RunFinished(effect_id=outcome.effect_id, ok=False, content=failure(problem))
