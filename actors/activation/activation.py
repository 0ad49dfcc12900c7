"""One conversation in one actor: a queue of commands, the loop that takes them, and the outstanding effects.

The loop decides, appends, adopts the state, replies, and only then starts the outstanding effects. It knows no Ray and no
status: the machine says what a command means and which effects must be going on.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.actors.admission import Admission
from holdfast.actors.spec_cache import SpecCache
from holdfast.actors.steps import Reached, Step, untrapped
from holdfast.actors.workers import Workers
from holdfast.backoff import Backoff
from holdfast.conversation import Command, Reply, Wake
from holdfast.conversation.commands import RunLost
from holdfast.conversation.machine import busy
from holdfast.counting import Counts
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
from holdfast.log_context import about
from holdfast.persistence import Append, Appended, Moved, Store, TakeoverReason
from holdfast.redaction import PLAIN
from holdfast.settings import Timing, TraceSettings

from . import leaving
from .beginning import Beginning
from .counted import Counted
from .judging import Judge
from .mailbox import Asked, Leave, Mailbox
from .outstanding import Outstanding
from .patience import Patience
from .rest import Rest
from .taking_over import Tenure
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

MOST_WAITING = 500
"""How many commands may wait for one conversation; one more is refused with `Overloaded`."""
RETRY_AFTER_MS = 1000
CIPHER_AGAIN_S = 1.0
"""Seconds after which an outcome that could not be encrypted is put into the mailbox again."""


class Activation:
    """One activation of one conversation. The object is dropped whole when the activation ends: nothing of it is reused."""

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
        specs: SpecCache | None = None,
        patience: Patience | None = None,
        counts: Counts | None = None,
        traces: TraceSettings | None = None,
        reached: Reached = untrapped,
    ) -> None:
        self.conversation_id = conversation_id
        self._store = store
        self._timing = timing
        self._reached = reached
        self._counted = Counted(Counts() if counts is None else counts)
        self._mailbox = Mailbox()
        self._rested = rested
        self._rest = Rest(admission, clock=clock, rested=rested, patience=patience or Patience())
        specs = specs or SpecCache()
        self._tenure = Tenure(store, conversation_id, holder=holder, timing=timing, clock=clock, strikes=strikes, specs=specs)
        beginning = Beginning(workers, admission)
        self._trace = TurnTrace(conversation_id, traces or TraceSettings())
        self._effects = Outstanding(
            store,
            workers,
            self._tenure,
            self._mailbox,
            rest=self._rest,
            beginning=beginning,
            struck=self._struck,
            trace=self._trace,
        )
        self._judge = Judge(
            store,
            self._tenure,
            beginning,
            lease_ms=timing.lease_ms,
            adopted=self._adopted,
            trace=self._trace,
            reached=reached,
        )
        self._own: list[asyncio.Task[None]] = []

    @property
    def over(self) -> bool:
        """Whether this activation has ended."""
        return self._tenure.over

    @property
    def rested_at(self) -> int | None:
        """The moment since which the conversation rests, in ms by the actor's clock; None while it does not rest.

        A conversation rests while no effect is outstanding, or none needs this activation: each is claimed by a worker, or
        waits for the end of a pause.
        """
        return self._rest.since

    @property
    def offer_at(self) -> int:
        """While the conversation rests: the moment from which its actor may go on offer, in ms by the actor's clock."""
        return self._rest.offer_at

    @property
    def parkable(self) -> bool:
        """Whether the conversation rests here only because workers keep its effects."""
        return self._effects.kept and not self._effects.paused

    @property
    def rested_since(self) -> int | None:
        """The moment since which the conversation rests, in ms UTC by the store's clock; None while it does not rest."""
        return None if self.rested_at is None else self._tenure.time.at(self.rested_at)

    async def activate(self, *, seen_token: str, because: TakeoverReason, create: bool) -> Moved | None:
        """Take the conversation over and start its outstanding effects; `Moved` names another owner, None means success.

        Raises:
            LeaseHeld: The owner still works on the conversation.
            ConversationNotFound: The conversation was never started, and `create` is false.
            Quarantined: The conversation is in quarantine.
            StoreError: The store does not answer, or holds something that cannot be read.
        """
        moved = await self._tenure.take_over(seen_token, because, create=create)
        if moved is not None:
            return moved
        self._counted.taken_over(self._tenure.state, because)
        self._reached(Step.ACTIVATE_2_ACQUIRED)
        with about(conversation=self.conversation_id, effect="", request="", trace=""):
            self._own = [self._tended(work) for work in (self._run_loop(), self._renew(), self._watch_lease())]
        try:
            self._effects.start()
        except BaseException:
            self._stop()
            raise
        return None

    async def ask(self, command: Command) -> Reply:
        """Have a command judged in its turn; its reply, once the events that it led to are durable.

        Raises:
            Fenced: Another activation owns the conversation; nothing was decided here.
            Overloaded: Too many commands wait already; nothing was decided.
            CipherMissing: The store is encrypted, and this process has no cipher; nothing was written.
            CipherFailed: Something cannot be encrypted or decrypted; nothing was written.
            StoreError: Whether the command was written is unknown.
            HoldfastError: The command was refused.
        """
        if self.over:
            raise Fenced(self.conversation_id)
        if self._mailbox.size >= MOST_WAITING:
            raise Overloaded(self.conversation_id, RETRY_AFTER_MS)
        asked = Asked(command)
        self._mailbox.put(asked)
        return await asked.reply

    async def passivate(self) -> bool:
        """Leave the conversation if it rests, after the commands that wait now; true if this activation is over then."""
        if self.over:
            return True
        leave = Leave()
        self._mailbox.put(leave)
        return await leave.done

    async def _run_loop(self) -> None:
        try:
            while not self.over:
                item = await self._mailbox.next()
                if isinstance(item, Leave):
                    left = await leaving.release(
                        self._store, self._tenure, self._effects, self._mailbox, self._reached, look_ms=self._timing.lease_ms
                    )
                    if left:
                        self._stop()
                    item.settle(left)
                else:
                    self._reached(Step.ASK_1_RECEIVED)
                    with about(request=item.request):
                        await self._answer(item)
        finally:
            self._stop()

    async def _answer(self, asked: Asked) -> None:
        try:
            reply = await self._judge.judge(asked.command)
        except Fenced as error:
            self._counted.refused(error, self._tenure.state.agent)
            self._stop()
            asked.fail(error)
            return
        except asyncio.CancelledError:  # this activation is over, and whether the command was written is unknown
            asked.fail(StoreUnavailable("the conversation was given up here in the middle of this"))
            raise
        except (CipherFailed, CipherMissing) as error:  # nothing was written
            asked.fail(error)
            if not asked.outside and not isinstance(asked.command, Wake):  # the effect is over: only its outcome is told again
                logger.warning("conversation %s: %s waits: %s", self.conversation_id, asked.command.kind, error)
                asyncio.get_running_loop().call_later(CIPHER_AGAIN_S, self._mailbox.tell, asked.command)
        except StoreError as error:
            # Whether the command was written is unknown, so the state in memory may be wrong. The caller may repeat it.
            asked.fail(error)
            await self._begin_anew()
            if isinstance(error, CorruptStore) and not self.over:
                await self._effects.put_off(asked.command, PLAIN.redacted(str(error), 300))
        except HoldfastError as error:
            self._counted.refused(error, self._tenure.state.agent)
            asked.fail(error)
        except Exception as error:
            logger.exception("conversation %s: %s failed", self.conversation_id, asked.command.kind)
            asked.fail(StoreUnavailable(PLAIN.said(error, 300)))
            await self._effects.replace(asked.command, error)
        else:
            if isinstance(asked.command, RunLost):
                self._counted.lost(self._tenure.state.agent)
            asked.answer(reply)
            self._reached(Step.ASK_4_REPLIED)
        self._effects.start()
        self._reached(Step.ASK_5_STARTED)

    def _adopted(self, write: Append, written: Appended) -> None:
        self._effects.adopted(write, written)
        self._counted.written(write)

    async def _begin_anew(self) -> None:
        """Drop the state in memory and take the conversation over anew by its own token, however long the store stays away."""
        self._effects.cancel_all()
        self._trace.left()
        self._tenure.unsure = True
        backoff = Backoff(0.05, 1)
        while not self.over:
            try:
                moved = await self._tenure.take_over(self._tenure.token, TakeoverReason.OWN, create=True)
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
                self._counted.taken_over(self._tenure.state, TakeoverReason.OWN)
                self._tenure.unsure = False
                self._effects.look_at_all()
                return

    async def _struck(self, process: str | None, what: str, *, limit: int | None = None) -> bool:
        """Count a strike; true if this activation is over now, since the conversation is in quarantine or was left before."""
        if await self._tenure.crashes.add(self._tenure.token, what, process=process, limit=limit):
            self._counted.quarantined()
            self._stop()
        return self.over

    def _tended(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task without which this activation cannot go on: if it breaks, the activation ends and another takes over."""

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
            if not busy(self._tenure.state):
                continue
            try:
                await self._tenure.renew()
            except Fenced:
                self._mailbox.tell(Wake())  # the append for this command is refused too, if another activation owns the log
            except StoreError as error:
                logger.warning("conversation %s: its lease was not renewed: %s", self.conversation_id, error)
            else:
                self._effects.start()

    async def _watch_lease(self) -> None:
        """Stop following effects when the lease ends: another activation may follow them then. What workers claimed goes on."""
        while not self.over:
            await self._tenure.lease.ended()
            self._effects.cancel_all()

    def _stop(self) -> None:
        """End this activation at once: its tasks stop, and every waiting command fails with `Fenced`."""
        self._tenure.over = True
        self._trace.left()
        self._rested.set()  # its actor is free
        self._effects.cancel_all()
        for own in self._own:
            if own is not asyncio.current_task():
                own.cancel()
        self._mailbox.close(Fenced(self.conversation_id))
