"""One conversation in one actor: a queue of commands, the loop that takes them, and the outstanding effects.

The loop decides, appends, adopts the state, replies, and only then starts the outstanding effects. It uses no Ray and reads no
status: the state machine says what a command means and which effects are outstanding.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from holdfast import metrics
from holdfast.actors.steps import Step
from holdfast.actors.workers import WorkPaused
from holdfast.backoff import Backoff
from holdfast.conversation import BeginTurn, Command, Reply, State, Wake
from holdfast.conversation.records.commands import RunLost, TurnPrepared
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    CorruptStore,
    Fenced,
    HoldfastError,
    LeaseHeld,
    Overloaded,
    Quarantined,
    StoreError,
    StoreUnavailable,
)
from holdfast.persistence import Append, Appended, Moved, TakeoverReason
from holdfast.redaction import PLAIN
from holdfast.work_context import about

from .context import ActivationContext
from .counted import Counted
from .effect_runner import begun
from .judge import Judge
from .mailbox import Asked, Leave, Mailbox
from .notices import Observer, tell
from .outstanding import Outstanding
from .ownership import Ownership
from .rest import Rest
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

MOST_WAITING = 500
"""How many commands may wait for one conversation; further ones are refused with `Overloaded`."""
RETRY_AFTER_MS = 1000
QUEUED_LOOK_MS = 30_000
"""How long (ms) a conversation is left while its work waits for a worker or an app; then another activation asks again."""
CIPHER_AGAIN_S = 1.0
"""Seconds after which an outcome that could not be encrypted is put into the mailbox again."""


class Activation:
    """One activation of one conversation. When it ends, the object is dropped whole, and no part of it is reused."""

    def __init__(self, context: ActivationContext, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self._context = context
        self._reached = context.reached
        self._counted = Counted(context.counts)
        self._mailbox = Mailbox()
        self.rest = Rest(context.clock, context.rested)
        self._owned = Ownership(context, conversation_id)
        self._trace = TurnTrace(conversation_id, context.traces)
        self._observers: list[Observer] = [self._trace, self._counted]
        self._effects = Outstanding(context, self._owned, self._mailbox, self.rest, self._strike, self._trace)
        self._judge = Judge(self._owned, self._trace, begin=self._begun, wrote=self._wrote, reached=self._reached)
        self._own: list[asyncio.Task[None]] = []

    @property
    def over(self) -> bool:
        """Whether this activation has ended."""
        return self._owned.over

    @property
    def spare_from(self) -> int | None:
        """From when on others may have the actor of this resting conversation, in ms UTC; None while it does not rest."""
        return None if self.rest.since is None else self._owned.time.at(self.rest.spare_from)

    async def activate(self, *, seen_token: str, because: TakeoverReason, create: bool) -> Moved | None:
        """Take the conversation over and start its outstanding effects; `Moved` if another activation owns it, else None."""
        moved = await self._owned.take_over(seen_token, because, create=create)
        if moved is not None:
            return moved
        self._counted.taken_over(self._owned.state, because)
        self._reached(Step.ACTIVATE_2_ACQUIRED)
        with about(conversation=self.conversation_id, effect="", request="", trace=""):
            self._own = [self._tended(work) for work in (self._run_loop(), self._renew())]
        try:
            self._effects.start()
        except BaseException:
            self._stop()
            raise
        return None

    async def ask(self, command: Command) -> Reply:
        """Queue a command, and return its reply once its events are durable.

        Raises:
            Fenced: Another activation owns the conversation; nothing was decided here.
            Overloaded: Too many commands wait already; nothing was decided.
            HoldfastError: The command was refused; after a `StoreError` it is unknown whether it was written.
        """
        if self.over:
            raise Fenced(self.conversation_id)
        if self._mailbox.qsize() >= MOST_WAITING:
            raise Overloaded(self.conversation_id, RETRY_AFTER_MS)
        asked = Asked(command)
        self._mailbox.put_nowait(asked)
        return await asked.reply

    async def passivate(self) -> bool:
        """Leave the conversation if it rests once the commands waiting now are judged; true if this activation is over then."""
        if self.over:
            return True
        leave = Leave()
        self._mailbox.put_nowait(leave)
        return await leave.done

    async def _run_loop(self) -> None:
        try:
            while not self.over:
                item = await self._mailbox.get()
                if isinstance(item, Leave):
                    left = await self._released()
                    if left:
                        self._stop()
                    item.settle(left)
                else:
                    self._reached(Step.ASK_1_RECEIVED)
                    with about(request=item.request):
                        await self._answer(item)
        finally:
            self._stop()

    async def _released(self) -> bool:
        """Release the conversation if no command waits and no effect needs this activation; true if it was released.

        Workers judge the outcomes of the effects that they have. The conversation needs attention after `look_ms`, at once if
        an outcome is recorded already. A release of unknown outcome counts as done: the lease ends, and then another activation
        can take over.
        """
        owned, effects = self._owned, self._effects
        paused = effects.paused
        if (owned.state.busy and not effects.elsewhere) or not self._mailbox.empty():
            return False
        look_ms = max(self._context.timing.lease_ms, QUEUED_LOOK_MS if self.rest.later else 0)
        effects.cancel_all()  # effects that wait for the end of a pause must not begin now
        self._reached(Step.PASSIVATE_1_BEGUN)
        try:
            await self._context.store.release(owned.conversation_id, owned.token, paused=paused, look_ms=look_ms)
        except StoreError as error:
            logger.warning("conversation %s: its release is unknown: %s", owned.conversation_id, error)
        self._reached(Step.PASSIVATE_2_RELEASED)
        return True

    async def _answer(self, asked: Asked) -> None:
        try:
            reply = await self._judge.judged(asked.command)
        except Fenced as error:
            self._counted.refused(error, self._owned.state.agent)
            self._stop()
            asked.fail(error)
            return
        except asyncio.CancelledError:  # this activation is over; it is unknown whether the command was written
            asked.fail(StoreUnavailable("this process gave the conversation up while it judged the command"))
            raise
        except (CipherFailed, CipherMissing) as error:  # nothing was written
            asked.fail(error)
            if not asked.outside and not isinstance(asked.command, Wake):  # the effect is over; only recording is tried again
                logger.warning("conversation %s: %s waits: %s", self.conversation_id, asked.command.kind, error)
                asyncio.get_running_loop().call_later(CIPHER_AGAIN_S, self._mailbox.tell, asked.command)
        except WorkPaused as error:  # a prepared turn came too late, and is prepared anew
            asked.fail(StoreUnavailable(str(error)))
            self._effects.drop(getattr(asked.command, "effect_id", ""))
        except StoreError as error:
            # It is unknown whether the command was written, so the state in memory may be wrong. The caller may repeat it.
            asked.fail(error)
            await self._begin_anew()
            if isinstance(error, CorruptStore) and not self.over:
                await self._effects.put_off(asked.command, PLAIN.redacted(str(error), 300))
        except HoldfastError as error:
            self._counted.refused(error, self._owned.state.agent)
            asked.fail(error)
        except Exception as error:
            logger.exception("conversation %s: %s failed", self.conversation_id, asked.command.kind)
            asked.fail(StoreUnavailable(PLAIN.said(error, 300)))
            await self._effects.replace(asked.command, error)
        else:
            if isinstance(asked.command, RunLost):
                self._context.counts.add(metrics.LOST, self._owned.state.agent)
            asked.answer(reply)
            self._reached(Step.ASK_4_REPLIED)
        self._effects.start()
        self._reached(Step.ASK_5_STARTED)

    async def _begun(self, effect: BeginTurn, state: State) -> TurnPrepared:
        context, find = self._context, self._context.workers.published
        return await begun(context.admission.admit, find, effect, state, spent=context.store.spent)

    def _wrote(self, write: Append, written: Appended, command: Command) -> None:
        tell(self._observers, write, command)
        self._trace.written(write)
        self._effects.adopted(write, written)
        self._counted.written(write)

    async def _begin_anew(self) -> None:
        """Drop the state in memory and take the conversation over with its own token; try until the store answers."""
        self._effects.cancel_all()
        self._trace.left()
        self._owned.unsure = True
        backoff = Backoff(0.05, 1)
        while not self.over:
            try:
                moved = await self._owned.take_over(self._owned.token, TakeoverReason.OWN, create=True)
            except (StoreUnavailable, LeaseHeld) as error:
                self._mailbox.refuse(error)
                await backoff.sleep()
            except Quarantined:
                self._stop()
            except HoldfastError:
                logger.exception("conversation %s: cannot go on here", self.conversation_id)
                self._stop()
            else:
                if moved is not None:
                    self._stop()
                    return
                self._counted.taken_over(self._owned.state, TakeoverReason.OWN)
                self._owned.unsure = False
                return

    async def _strike(self, process: str | None, what: str, *, limit: int | None = None) -> bool:
        """Count a strike; true if this activation is over now (the conversation is in quarantine, or had been left)."""
        if await self._owned.strike(process, what, limit=limit):
            self._context.counts.add(metrics.QUARANTINED)
            self._stop()
        return self.over

    def _tended(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task that this activation needs: if it fails, the activation ends, and another can take over."""

        def tended(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("conversation %s is given up here", self.conversation_id, exc_info=error)
                self._stop()

        task = asyncio.create_task(work)
        task.add_done_callback(tended)
        return task

    async def _renew(self) -> None:
        while not self.over:
            await asyncio.sleep(self._context.timing.lease_ms / 3000)
            if not self._owned.state.busy:
                continue
            try:
                await self._owned.renew()
            except Fenced:
                self._mailbox.tell(Wake())  # the append for this command is refused too, if another activation owns the log
            except StoreError as error:
                logger.warning("conversation %s: its lease was not renewed: %s", self.conversation_id, error)

    def _stop(self) -> None:
        self._owned.over = True
        self._trace.left()
        self._context.rested.set()  # wakes the actor's housekeeping: the actor is free
        self._effects.cancel_all()
        for own in self._own:
            if own is not asyncio.current_task():
                own.cancel()
        self._mailbox.close(Fenced(self.conversation_id))
