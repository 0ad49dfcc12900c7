"""One conversation in one actor: a queue, a loop, and what is outstanding.

decide, append, adopt the state, reply, and only then start what is outstanding. It knows no Ray and no status: the machine says
what a command means and what must be going on.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.actors.admission import Admission
from holdfast.actors.steps import Reached, Step, untrapped
from holdfast.actors.workers import NoWorker, WorkerLost, Workers, WorkPaused
from holdfast.conversation import (
    AgentSpec,
    Command,
    Effect,
    Judgement,
    ModelFailed,
    ModelReplied,
    Reply,
    RunFinished,
    RunTool,
    State,
    Wake,
    decide,
    outstanding,
)
from holdfast.conversation.commands import RunLost, TurnPrepared
from holdfast.conversation.idempotency import IdempotencyRecord
from holdfast.conversation.machine import busy, effect_of
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ClusterError,
    CorruptStore,
    Fenced,
    HoldfastError,
    LeaseHeld,
    Overloaded,
    Quarantined,
    StoreError,
    StoreUnavailable,
)
from holdfast.persistence import Acquired, Append, KnownIds, Moved, Run, Store, TakeoverReason
from holdfast.redaction import PLAIN
from holdfast.settings import Timing

from .crashes import Crashes
from .effect_runner import EffectRunner
from .failures import Failures, instead_of
from .lease import Lease, now_s
from .log_tail import LogTail
from .mailbox import Asked, Leave, Mailbox
from .rest import Rest
from .specs import spec_of
from .store_clock import StoreClock

logger = logging.getLogger("holdfast.actor")

MOST_WAITING = 500
"""How many commands may wait for one conversation; whoever asks more is told to come back."""
RETRY_AFTER_MS = 1000
LONGEST_DELAY_S = 5.0
CIPHER_AGAIN_S = 1.0
"""After what time an outcome that could not be encrypted is told again."""


class Activation:
    """One activation of one conversation. Dropped whole when it ends: nothing of it is reused."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        *,
        admission: Admission,
        conversation_id: str,
        holder: str,
        timing: Timing,
        clock: Callable[[], int],
        rested: asyncio.Event,
        strikes: int,
        reached: Reached = untrapped,
    ) -> None:
        self.conversation_id = conversation_id
        self.over = False
        self._rest = Rest(admission, clock=clock, rested=rested)
        self._reached = reached
        self._store = store
        self._workers = workers
        self._admission = admission
        self._holder = holder
        self._timing = timing
        self._clock = clock
        self._time = StoreClock(clock)
        self._crashes = Crashes(store, conversation_id, allowed=strikes)
        self._unsure = False  # whether the last write's outcome is unknown: what seems outstanding may be done
        self._lease = Lease(timing.lease_ms)
        self._token = ""
        self._state = State(conversation_id=conversation_id)
        self._tail_bytes = 0
        self._changed: set[str] | None = None  # effects that the last look did not see; None: it saw none
        self._log_tail = LogTail()
        self._runs: dict[str, Run] = {}
        self._spec: AgentSpec | None = None
        self._mailbox = Mailbox()
        self._effects: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    # -- activate -----------------------------------------------------------------------------------------------------

    async def activate(self, *, seen_token: str, because: TakeoverReason, create: bool) -> Moved | None:
        """Take the conversation over and start what is outstanding; who owns it instead, if it moved.

        Raises:
            LeaseHeld: The owner still works on it.
            ConversationNotFound: It was never started.
        """
        moved = await self._acquire(seen_token, because, create=create)
        if moved is not None:
            return moved
        self._reached(Step.ACTIVATE_2_ACQUIRED)
        self._loop = self._tended(self._run_loop())
        self._renewing = self._tended(self._renew())
        self._watching = self._tended(self._watch_lease())
        try:
            self._start_outstanding()
        except BaseException:
            self._stop()
            raise
        return None

    async def _acquire(self, seen_token: str, because: TakeoverReason, *, create: bool) -> Moved | None:
        token = uuid.uuid4().hex
        asked_at_s = now_s()
        acquired = await self._store.acquire(
            self.conversation_id,
            seen_token=seen_token,
            new_token=token,
            because=because,
            holder=self._holder,
            lease_ms=self._timing.lease_ms,
            create=create,
        )
        match acquired:
            case Moved():
                return acquired
            case Acquired():
                self._token = token
                self._lease.granted(asked_at_s)
                self._crashes.count = acquired.crash_count
                self._state = acquired.state
                self._tail_bytes = acquired.tail_bytes
                self._changed = None
                self._log_tail = LogTail()
                self._runs = dict(acquired.runs)
                self._time.heard(acquired.now)
                self._spec = await spec_of(self._store, self._state)
                return None

    # -- one loop -----------------------------------------------------------------------------------------------------

    async def ask(self, command: Command) -> Reply:
        """Have a command judged in its turn; its reply once that is durable.

        Raises:
            Fenced: Another activation owns the conversation; nothing was decided here.
            Overloaded: Too many commands wait already; nothing was decided.
            StoreUnavailable: The outcome is unknown.
            HoldfastError: The command was refused.
        """
        if self.over:
            raise Fenced(self.conversation_id)
        if self._mailbox.size >= MOST_WAITING:
            raise Overloaded(self.conversation_id, RETRY_AFTER_MS)
        asked = Asked(command)
        self._mailbox.put(asked)
        return await asked.reply

    async def _run_loop(self) -> None:
        try:
            while not self.over:
                item = await self._mailbox.next()
                if isinstance(item, Leave):
                    item.settle(await self._passivated())
                else:
                    self._reached(Step.ASK_1_RECEIVED)
                    await self._answer(item)
        finally:
            self._stop()

    async def _answer(self, asked: Asked) -> None:
        try:
            reply = await self._judge(asked.command)
        except Fenced as error:
            self._stop()
            asked.fail(error)
            return
        except asyncio.CancelledError:  # this activation is over, and whether it was written is unknown
            asked.fail(StoreUnavailable("the conversation was given up here in the middle of this"))
            raise
        except (CipherFailed, CipherMissing) as error:  # nothing was written
            asked.fail(error)
            if not asked.outside and not isinstance(asked.command, Wake):  # its effect is done: it stays so, and is told again
                logger.warning("conversation %s: %s waits: %s", self.conversation_id, asked.command.kind, error)
                asyncio.get_running_loop().call_later(CIPHER_AGAIN_S, self._mailbox.tell, asked.command)
        except StoreError as error:
            # Whether it was written is unknown: what is in memory may be wrong now. The caller may repeat; we begin anew.
            asked.fail(error)
            await self._begin_anew()
            if isinstance(error, CorruptStore) and not self.over:
                await self._put_off(asked.command, PLAIN.redacted(str(error), 300))
        except HoldfastError as error:
            asked.fail(error)
        except Exception as error:
            logger.exception("conversation %s: %s failed", self.conversation_id, asked.command.kind)
            asked.fail(StoreUnavailable(PLAIN.said(error, 300)))
            await self._stumbled(asked.command, error)
        else:
            asked.answer(reply)
            self._reached(Step.ASK_4_REPLIED)
        self._start_outstanding()
        self._reached(Step.ASK_5_STARTED)

    async def _stumbled(self, command: Command, error: Exception) -> None:
        """Go on after a command that could not be judged or written, for a reason that nobody foresaw.

        What somebody asked is refused, and that is all. An outcome becomes one that can be recorded: carrying its effect out
        again would bring the same, at cost. If that one cannot be recorded either, the effect is carried out again after a
        while; each time counts as a strike, so that this ends.
        """
        said = PLAIN.said(error, 200)
        if isinstance(command, ModelReplied | RunFinished) and getattr(command, "ok", True):
            self._mailbox.tell(instead_of(command, said))
        else:
            await self._put_off(command, said)

    async def _put_off(self, command: Command, said: str) -> None:
        """Have the effect carried out again after a while whose outcome cannot be recorded, or end it; `said` is why."""
        match command:
            case Wake():
                await self._struck(None, f"what is due cannot be settled ({said})")
            case TurnPrepared() | ModelReplied() | ModelFailed() | RunFinished() | RunLost():
                what = f"the outcome {command.kind} of {command.effect_id} cannot be recorded ({said})"
                if not await self._struck(None, what) and effect_of(self._state, command.effect_id) is not None:
                    self._effects[command.effect_id] = asyncio.create_task(self._again(command.effect_id))
            case _:
                pass

    async def _again(self, effect_id: str) -> None:
        """Start an effect anew after a while, longer with each strike; it stands among the effects meanwhile."""
        await asyncio.sleep(min(2 ** max(self._crashes.count - 1, 0), LONGEST_DELAY_S))
        self._effects.pop(effect_id, None)
        self._changed = None
        self._start_outstanding()

    async def _judge(self, command: Command) -> Reply:
        spec = command.spec if isinstance(command, TurnPrepared) else await self._spec_for(command)
        known: dict[str, IdempotencyRecord] = {}
        while True:
            stamped = command.stamped(self._time.now(), spec, known)
            refusal: HoldfastError | None = None
            judgement = Judgement()
            try:
                judgement = decide(self._state, stamped)
            except HoldfastError as error:
                refusal = error
            after = judgement.state or self._state
            self._reached(Step.ASK_2_JUDGED)
            asked = (*command.lookups(), *command.reasons()) if refusal is not None else command.lookups()
            asked_at_s = now_s()
            write = Append(
                token=self._token,
                append_id=uuid.uuid4().hex,
                before=self._state,
                after=after,
                lease_ms=self._timing.lease_ms,
                events=judgement.events,
                absent=[key for key in asked if key not in known],
                tail_bytes=self._tail_bytes,
            )
            written = await self._store.append(self.conversation_id, write)
            self._time.heard(written.now)
            self._lease.granted(asked_at_s)
            if isinstance(written, KnownIds):
                known |= written.known
                continue
            self._reached(Step.ASK_3_WRITTEN)
            self._adopt(write, written.tail_bytes)
            if write.advances:
                self._crashes.count = 0
            self._log_tail.add(after.seq, judgement.events)
            if judgement.events and command.kind in ("start", "turn_prepared"):
                self._spec = spec  # nothing else changes what the turn runs with
            if refusal is not None:
                raise refusal
            return judgement.reply

    async def _spec_for(self, command: Command) -> AgentSpec | None:
        if command.kind == "start" and command.spec is not None:
            return command.spec
        if self._spec is None and self._state.seq:
            self._spec = await spec_of(self._store, self._state)
        return self._spec

    @property
    def rested_at(self) -> int | None:
        """Since when it rests, by the actor's clock: nothing is outstanding, or all that is waits for the end of a pause."""
        return self._rest.since

    @property
    def rested_since(self) -> int | None:
        """When the conversation came to rest, by the store's clock; None while it does not."""
        return None if self.rested_at is None else self._time.at(self.rested_at)

    # -- what is outstanding ------------------------------------------------------------------------------------------

    def _start_outstanding(self) -> None:
        """Start what must be going on and is not; drop what need not go on. Without a lease, nothing is started."""
        if self.over or self._unsure or not self._lease.held:
            return
        for effect_id, effect in self._looked_at().items():
            if effect is not None and effect_id not in self._effects:
                self._effects[effect_id] = asyncio.create_task(self._carry_out(effect))
            elif effect is None and effect_id in self._effects:
                self._runs.pop(effect_id, None)
                if self._effects.pop(effect_id).cancel():
                    self._workers.drop(self.conversation_id, effect_id)
        self._see_whether_it_rests()

    def _see_whether_it_rests(self) -> None:
        self._rest.see(idle=self._mailbox.empty, busy=busy(self._state), effects=self._effects)

    def _looked_at(self) -> dict[str, Effect | None]:
        """By id: the effects that may have to be started or dropped, None where one is not outstanding.

        While runs go on, those are what the writes since the last look have changed: the end of one run among a thousand costs
        what it costs among two.
        """
        changed, self._changed = self._changed, set()
        if changed is not None:
            return {effect_id: effect_of(self._state, effect_id) for effect_id in changed}
        return dict.fromkeys(self._effects) | {effect.effect_id: effect for effect in outstanding(self._state)}

    def _adopt(self, write: Append, tail_bytes: int) -> None:
        """The write is durable: its state is the one that counts."""
        if self._changed is not None and write.before.calls.any_running and write.after.calls.any_running:
            changes = write.delta
            self._changed.update(changes.scheduled, changes.settled)
        else:
            self._changed = None
        self._state, self._tail_bytes = write.after, tail_bytes

    async def _carry_out(self, effect: Effect) -> None:
        """See an effect through to its outcome, whatever it takes, and have that judged."""
        delay_s = 0.1
        attempt = 1
        failures = Failures()
        while True:
            enough: str | None = None
            try:
                outcome = await self._runner(effect).outcome(effect, attempt)
                if outcome is None:
                    outcome = await self._unrecorded(effect)
                if outcome is None or self.over:
                    return
                # It stays among the effects until it is judged, so that nobody starts it once more.
                self._mailbox.tell(outcome)
            except WorkPaused as paused:
                logger.info("conversation %s: %s waits: %s", self.conversation_id, effect.effect_id, paused)
                self._rest.pause(effect.effect_id)
                self._see_whether_it_rests()
                await self._rest.reopened(effect.effect_id, self._state.agent)
                self._see_whether_it_rests()
                continue  # which was no try
            except WorkerLost as lost:
                if await self._struck(lost.process, f"{effect.effect_id}: {lost}"):
                    return
            except (NoWorker, StoreError, ClusterError) as error:
                logger.warning("conversation %s: %s waits: %s", self.conversation_id, effect.effect_id, error)
                enough = failures.waited(error)
            except Exception as error:
                logger.exception("conversation %s: %s failed", self.conversation_id, effect.effect_id)
                enough = failures.unexplained(error)
            else:
                return
            if enough is not None and await self._struck(None, f"{effect.effect_id} {enough}", limit=1):
                return
            await asyncio.sleep(delay_s * random.uniform(0.5, 1))  # noqa: S311 - jitter
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)
            attempt += 1

    async def _unrecorded(self, effect: Effect) -> RunLost | None:
        """A run without a record is settled, or its record is lost: then so is the run. Its owner, and no other, can tell."""
        confirmed = Asked(Wake(), outside=False)
        self._mailbox.put(confirmed)
        await confirmed.reply
        lost = isinstance(effect, RunTool) and effect in outstanding(self._state)
        return RunLost(effect_id=effect.effect_id) if lost else None

    def _runner(self, effect: Effect) -> EffectRunner:
        return EffectRunner(
            self._store,
            self._workers,
            state=self._state,
            spec=self._spec,
            log_tail=self._log_tail,
            run=self._runs.pop(effect.effect_id, None),
            alone=self._crashes.count > 0,
            admission=self._admission,
            struck=self._struck,
        )

    async def _struck(self, process: str | None, what: str, *, limit: int | None = None) -> bool:
        """Count a strike; whether the conversation is in quarantine now, and this activation over."""
        if await self._crashes.add(self._token, what, process=process, limit=limit):
            self._stop()
        return self.over

    # -- keep and leave -----------------------------------------------------------------------------------------------

    def _tended(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task without which this activation cannot go on: if it breaks, the activation ends, and somebody takes over."""

        def tended(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("conversation %s is given up here", self.conversation_id, exc_info=error)
                self._stop()

        task = asyncio.create_task(work)
        task.add_done_callback(tended)
        return task

    async def _renew(self) -> None:
        while not self.over:
            await asyncio.sleep(self._timing.lease_ms / 3000)
            if not busy(self._state):
                continue
            asked_at_s = now_s()
            try:
                now = await self._store.renew(self.conversation_id, self._token, self._timing.lease_ms)
            except Fenced:
                self._mailbox.tell(Wake())  # the loop finds out: its append of no events is refused, if that is still so
            except StoreError as error:
                logger.warning("conversation %s: its lease was not renewed: %s", self.conversation_id, error)
            else:
                self._time.heard(now)
                self._lease.granted(asked_at_s)
                self._start_outstanding()

    async def _watch_lease(self) -> None:
        """Stop the work once the lease is over: somebody else may be at it by then. What is claimed goes on and is joined."""
        while not self.over:
            await self._lease.ended()
            self._changed = None
            for effect_id in list(self._effects):
                if self._effects.pop(effect_id).cancel():
                    self._workers.drop(self.conversation_id, effect_id)
            await asyncio.sleep(self._timing.tick_ms / 1000)

    async def _begin_anew(self) -> None:
        """Drop the state and take the conversation over from oneself, however long the store stays away."""
        begun = set(self._effects)
        for task in self._effects.values():
            task.cancel()
        self._effects.clear()
        self._unsure = True
        delay_s = 0.05
        while not self.over:
            try:
                moved = await self._acquire(self._token, TakeoverReason.OWN, create=True)
            except (StoreUnavailable, LeaseHeld) as error:
                self._mailbox.refuse(error)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, 1)
            except Quarantined:
                self._stop()
            except HoldfastError:
                logger.exception("conversation %s: cannot go on here", self.conversation_id)
                self._stop()
            else:
                if moved is not None:
                    self._stop()
                    return
                self._unsure = False
                for effect_id in begun - {effect.effect_id for effect in outstanding(self._state)}:
                    self._workers.drop(self.conversation_id, effect_id)  # what became unknown has ended it
                return

    async def passivate(self) -> bool:
        """Leave the conversation if it rests, as the last item of the queue; whether it was left."""
        if self.over:
            return True
        leave = Leave()
        self._mailbox.put(leave)
        return await leave.done

    async def _passivated(self) -> bool:
        paused = busy(self._state) and self._rest.paused(self._effects)
        if (busy(self._state) and not paused) or not self._mailbox.empty:
            return False
        for task in self._effects.values():  # they wait, and nothing of them may begin from now on
            task.cancel()
        self._effects.clear()
        self._reached(Step.PASSIVATE_1_BEGUN)
        try:
            await self._store.release(self.conversation_id, self._token, paused=paused)
        except StoreError as error:
            logger.warning("conversation %s: its release is unknown: %s", self.conversation_id, error)
        self._reached(Step.PASSIVATE_2_RELEASED)
        self._stop()
        return True

    def _stop(self) -> None:
        """End this activation at once: its tasks stop, whoever waits is told to ask the owner."""
        self.over = True
        for task in self._effects.values():
            task.cancel()
        self._effects.clear()
        for own in (self._loop, self._renewing, self._watching):
            if own is not None and own is not asyncio.current_task():
                own.cancel()
        self._mailbox.close(Fenced(self.conversation_id))
