"""The outstanding effects of an activation: those that go on, and those that must be started or dropped after a write."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from holdfast.actors.workers import Claimed, NoApp, NoWorker, Workers, WorkPaused
from holdfast.backoff import Backoff
from holdfast.conversation import (
    BeginTurn,
    CallModel,
    Command,
    Effect,
    ModelFailed,
    ModelReplied,
    RunFinished,
    RunRuled,
    RunSuspended,
    RunTool,
    Wake,
    outstanding,
)
from holdfast.conversation.commands import RunLost, TurnPrepared
from holdfast.conversation.events import MessageAccepted, TurnStarted
from holdfast.conversation.machine import busy, effect_of
from holdfast.errors import ClusterError, StoreError
from holdfast.log_context import CONVERSATION, EFFECT, REQUEST, TRACE
from holdfast.persistence import Append, Appended, Store
from holdfast.redaction import PLAIN
from holdfast.trace_context import trace_id_of

from .beginning import Beginning
from .effect_runner import EffectRunner
from .failures import Failures, instead_of
from .mailbox import Asked, Mailbox
from .rest import Rest
from .taking_over import Tenure
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

LONGEST_DELAY_S = 5.0


class Struck(Protocol):
    """A function that counts a strike against the conversation."""

    def __call__(self, process: str | None, what: str, *, limit: int | None = None) -> Awaitable[bool]:
        """Count a strike; true if the activation is over now.

        Args:
            process: The process that died, whose death counts once; None for a strike of its own.
            what: The reason, for the log and the quarantine.
            limit: The crash count that means quarantine; None for the configured one.
        """
        ...


class Outstanding:
    """The effects of one activation, each a task that ends with its outcome in the mailbox.

    Args:
        store: Where the conversation is kept.
        workers: What carries effects out.
        tenure: What the activation holds of the conversation.
        mailbox: Where outcomes go.
        rest: The rest of the activation, which is told what goes on.
        beginning: Says with what a turn begins.
        struck: Counts strikes.
        trace: The spans of the activation.
    """

    def __init__(
        self,
        store: Store,
        workers: Workers,
        tenure: Tenure,
        mailbox: Mailbox,
        *,
        rest: Rest,
        beginning: Beginning,
        struck: Struck,
        trace: TurnTrace,
    ) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._store = store
        self._workers = workers
        self._tenure = tenure
        self._mailbox = mailbox
        self._rest = rest
        self._beginning = beginning
        self._struck = struck
        self._requests: dict[int, str] = {}  # the ids of the HTTP requests that sent messages which wait, by place in the log
        self._trace = trace
        self._changed: set[str] | None = None  # ids of the effects changed since the last look; None: all may have changed

    @property
    def paused(self) -> bool:
        """Whether effects are outstanding and all of them wait for the end of a pause."""
        return busy(self._tenure.state) and self._rest.paused(self.tasks)

    @property
    def kept(self) -> bool:
        """Whether effects are outstanding and none needs this activation: workers keep them, or a pause holds them up."""
        return busy(self._tenure.state) and self._rest.kept_elsewhere(self.tasks)

    @property
    def queued(self) -> bool:
        """Whether an effect waits for its turn at a worker, which has no claim yet by which that could be told."""
        return self._rest.queued

    def start(self) -> None:
        """Start the outstanding effects that do not go on yet and drop those no longer outstanding, if the lease is held."""
        tenure = self._tenure
        if tenure.over or tenure.unsure or not tenure.lease.held:
            return
        for effect_id, effect in self._looked_at().items():
            if effect is not None and effect_id not in self.tasks:
                self.tasks[effect_id] = asyncio.create_task(self._carry_out(effect))
            elif effect is None and effect_id in self.tasks:
                tenure.runs.pop(effect_id, None)
                self.tasks.pop(effect_id).cancel()
        self._see_whether_it_rests()

    def adopted(self, write: Append, written: Appended) -> None:
        """Note which effects a durable write may have changed, and have workers drop the work that it has settled."""
        self._note_requests(write)
        for run in written.removed.values():
            self._workers.drop(run.worker, run.incarnation)
        if self._changed is not None and write.before.calls.any_running and write.after.calls.any_running:
            changes = write.delta
            self._changed.update(changes.scheduled, changes.settled)
        else:
            self._changed = None

    def _note_requests(self, write: Append) -> None:
        """Keep which request sent a message, and have what a turn leads to say that of its message.

        A turn whose message has waited begins with what ends the turn before it, which another request led to.
        """
        request = REQUEST.get()
        for seq, event in enumerate(write.events, write.before.seq + 1):
            if isinstance(event, MessageAccepted):
                self._requests[seq] = request
            elif isinstance(event, TurnStarted):
                REQUEST.set(self._requests.pop(event.message_seq, ""))

    def look_at_all(self) -> None:
        """Have the next `start` look at every effect, since the state was taken anew from the store."""
        self._changed = None

    def left(self) -> None:
        """Note that the conversation is left, while workers keep its effects or none is outstanding."""
        self._rest.left()

    def cancel_all(self) -> None:
        """Stop waiting for every effect, each of which goes on in its worker: another activation may follow it."""
        self._changed = None
        for task in self.tasks.values():
            task.cancel()
        self.tasks.clear()

    async def replace(self, command: Command, error: Exception) -> None:
        """Go on after a command that could not be judged or written, for a reason that nobody foresaw.

        A client's command was refused, and needs nothing more. An outcome is replaced by a failure that can be recorded:
        carrying its effect out again would bring the same outcome, at a cost. If the failure cannot be recorded either, the
        effect is carried out again after a while; each time counts as a strike, so that this ends in quarantine.
        """
        said = PLAIN.said(error, 200)
        if isinstance(command, ModelReplied | RunFinished | RunSuspended | RunRuled) and getattr(command, "ok", True):
            self._mailbox.tell(instead_of(command, said))
        else:
            await self.put_off(command, said)

    async def put_off(self, command: Command, said: str) -> None:
        """Count a strike for an outcome that cannot be recorded, and carry its effect out again later; `said` is the reason."""
        match command:
            case Wake():
                await self._struck(None, f"what is due cannot be settled ({said})")
            case TurnPrepared() | ModelReplied() | ModelFailed() | RunFinished() | RunSuspended() | RunRuled() | RunLost():
                what = f"the outcome {command.kind} of {command.effect_id} cannot be recorded ({said})"
                struck_out = await self._struck(None, what)
                if not struck_out and effect_of(self._tenure.state, command.effect_id) is not None:
                    self.tasks[command.effect_id] = asyncio.create_task(self._again(command.effect_id))
            case _:
                pass

    async def _again(self, effect_id: str) -> None:
        """Start an effect anew after a delay that grows with the crash count; its place in `tasks` is taken meanwhile."""
        await asyncio.sleep(min(2 ** max(self._tenure.crashes.blame.crash_count - 1, 0), LONGEST_DELAY_S))
        self.tasks.pop(effect_id, None)
        self._changed = None
        self.start()

    def _looked_at(self) -> dict[str, Effect | None]:
        """The effects that may have to be started or dropped, by id; None for an effect that is not outstanding.

        While runs go on, these are only the effects that the writes since the last look have changed: the end of one run among
        a thousand costs as much as the end of one among two.
        """
        state = self._tenure.state
        changed, self._changed = self._changed, set()
        if changed is not None:
            return {effect_id: effect_of(state, effect_id) for effect_id in changed}
        return dict.fromkeys(self.tasks) | {effect.effect_id: effect for effect in outstanding(state)}

    def _see_whether_it_rests(self) -> None:
        self._rest.see(idle=self._mailbox.empty, busy=busy(self._tenure.state), effects=self.tasks)

    async def _carry_out(self, effect: Effect) -> None:
        """Try an effect until it has an outcome, and put that outcome into the mailbox, where it is judged."""
        conversation_id = self._tenure.conversation_id
        CONVERSATION.set(conversation_id)  # of this task alone
        EFFECT.set(effect.effect_id)
        if isinstance(effect, BeginTurn):
            REQUEST.set(self._requests.get(effect.message_seq, ""))
        TRACE.set(trace_id_of(self._trace.for_work(self._tenure.state)))
        backoff = Backoff(0.1, LONGEST_DELAY_S, jitter=0.5)
        attempt = 1
        failures = Failures()
        while True:
            enough, no_app = None, False
            try:
                outcome = await self._runner(effect).outcome(effect, attempt)
                if outcome is None:
                    outcome = await self._unrecorded(effect)
                    if outcome is None and self._goes_on(effect):
                        continue
                if outcome is None or self._tenure.over:
                    return
                # The effect stays in `tasks` until its outcome is judged, so that it is not started once more.
                self._mailbox.tell(outcome)
            except WorkPaused as paused:
                logger.info("conversation %s: %s waits: %s", conversation_id, effect.effect_id, paused)
                self._rest.pause(effect.effect_id)
                self._see_whether_it_rests()
                await self._rest.reopened(effect.effect_id, self._tenure.state.agent)
                self._see_whether_it_rests()
                continue  # a wait for the end of a pause is no try
            except (NoWorker, StoreError, ClusterError) as error:
                logger.warning("conversation %s: %s waits: %s", conversation_id, effect.effect_id, error)
                enough, no_app = failures.waited(error), isinstance(error, NoApp)
            except Exception as error:
                logger.exception("conversation %s: %s failed", conversation_id, effect.effect_id)
                enough = failures.unexplained(error)
            else:
                return
            finally:
                (self._rest.waits if no_app else self._rest.works)(effect.effect_id)
                self._see_whether_it_rests()
            if enough is not None and await self._struck(None, f"{effect.effect_id} {enough}", limit=1):
                return
            await backoff.sleep()
            attempt += 1

    def _goes_on(self, effect: Effect) -> bool:
        return isinstance(effect, CallModel) and not self._tenure.over and effect in outstanding(self._tenure.state)

    def _kept(self, effect_id: str, claimed: Claimed) -> None:
        """Note that a worker keeps an effect, so that the conversation may be left meanwhile."""
        self._rest.kept(effect_id, queued=not claimed.begun)
        self._see_whether_it_rests()

    def _works(self, effect_id: str) -> None:
        """Note that no worker keeps an effect any more: until one does, this activation is needed."""
        self._rest.works(effect_id)
        self._see_whether_it_rests()

    async def _unrecorded(self, effect: Effect) -> RunLost | None:
        """`RunLost` for a run that has no record and is still outstanding, else None: it is settled, or has a record now.

        Only the owner can tell these apart, and the reply to a `Wake` shows that this activation is the owner. A model call
        that an older release began has no record, and the write for the `Wake` gives it one.
        """
        if isinstance(effect, CallModel):
            self._tenure.unrecorded.add(effect.effect_id)
        confirmed = Asked(Wake(), outside=False)
        self._mailbox.put(confirmed)
        await confirmed.reply
        lost = isinstance(effect, RunTool) and effect in outstanding(self._tenure.state)
        return RunLost(effect_id=effect.effect_id) if lost else None

    def _runner(self, effect: Effect) -> EffectRunner:
        tenure = self._tenure
        return EffectRunner(
            self._store,
            self._workers,
            state=tenure.state,
            spec=tenure.spec,
            log_tail=tenure.log_tail,
            run=tenure.runs.pop(effect.effect_id, None),
            company=lambda: tenure.crashes.blame.company,
            beginning=self._beginning,
            struck=self._struck,
            kept=lambda claimed: self._kept(effect.effect_id, claimed),
            works=lambda: self._works(effect.effect_id),
            now=tenure.time.now,
            traceparent=self._trace.for_work(tenure.state),
        )
