"""Accepting commands as a guest: a script writes what follows from a start, message, word or wake; workers get the work."""

import asyncio
import contextlib
import logging
from dataclasses import replace

from holdfast.actors.activation.effect_runner import admitted
from holdfast.actors.activation.guest import LOOK_MS, TRIES, Guest, Wrote
from holdfast.actors.admission import Admission
from holdfast.actors.answers import Replied
from holdfast.actors.steps import Reached, Step, logged
from holdfast.actors.telling import tell
from holdfast.actors.workers import ModelRequest, NoOutcome, NoWorker, RunRequest, Workers, WorkPaused
from holdfast.background import Background
from holdfast.conversation import Start, State, Tell, Wake
from holdfast.errors import CorruptStore, Fenced, HoldfastError, StoreError, StoreUnavailable
from holdfast.persistence import Store, Visited
from holdfast.settings import TraceSettings
from holdfast.store_clock import StoreClock, steady_ms
from holdfast.work_context import about

from .registry import Delivery, DeliveryResult, Refused

logger = logging.getLogger("holdfast.registry")

AT_ONCE = 32
"""How many messages a process judges at once: among a thousand, what each has read of pauses would be too old for its write."""
MOST_BYTES = 256 << 10
"""The largest snapshot and log tail that are read for one message; an actor reads larger ones."""
MOST_TOLD = 10_000
"""How many model calls and runs a process hands to workers at once; the sweeper finds further ones."""
MOST_KNOWN = 256
"""How many conversations with children a process knows from its last write to them."""
CLOSING_S = 2.0
TELL_S = 5.0
"""Seconds from a message until its counts are told to the store."""


class Messages:
    """Accepts messages to resting and new conversations and wakes others, in one process, if its `release` serves the store."""

    def __init__(
        self, store: Store, workers: Workers, release: str, traces: TraceSettings, *, reached: Reached = logged
    ) -> None:
        self._guest = Guest(store, admit=Admission(store).admit, published=workers.published, traces=traces)
        self._store = store
        self._workers = workers
        self._release = release
        self._reached = reached
        self._clock = StoreClock(steady_ms)
        self._serves = True
        self._known: dict[str, Visited] = {}
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._background = Background()
        self._telling: asyncio.Task[None] | None = None

    async def accepted(self, delivery: Delivery) -> DeliveryResult | None:
        """The result of a start, a message, a child's word or a wake; None if an actor must judge it.

        An actor must if the conversation is busy (for a message: does not rest) or has an owner, if the store did not answer,
        and if turns are traced: a turn's span needs a process that exports spans and lives on.
        """
        if not self._guest.allowed or self._guest.traces.on:
            return None
        with about(conversation=delivery.conversation_id):
            try:
                one_by_one = self._guest.turn(delivery.conversation_id)  # ten children's words for one parent
                async with asyncio.timeout_at(delivery.until), one_by_one, self._at_once:
                    wrote = await self._written(delivery)
            except StoreError as error:
                delivery.handed &= isinstance(error, StoreUnavailable | CorruptStore)  # else nothing was written
                return None
            except TimeoutError as error:
                return delivery.given_up(error)
            except HoldfastError as error:
                return Refused(error)
            except Exception:
                logger.exception("conversation %s cannot be written to from here", delivery.conversation_id)
                return None
            if wrote is None:
                return None
            self._reached(Step.MESSAGE_2_WRITTEN)
            for request in wrote.requests():
                if len(self._background) < MOST_TOLD:
                    self._background.start(self._worked(wrote.write.after.app, request))
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())
        delivery.began = wrote.write.after if wrote.write.events else None
        self._knows(wrote)
        return Replied(wrote.reply)

    def _knows(self, wrote: Wrote) -> None:
        """Keep the state of a conversation that further children will tell: the next word is judged on it."""
        write, written = wrote.write, wrote.written
        if write.events and write.after.calls.any_machine and not write.after.busy:
            self._known[write.after.conversation_id] = Visited(written.now, write.after, write.append_id, written.tail_bytes)
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]

    async def _written(self, delivery: Delivery) -> Wrote | None:
        """What a guest has written; None if an actor must. For a start, nothing is read at first: there is nothing."""
        conversation_id, command = delivery.conversation_id, delivery.command
        await self._hear()
        visited = self._known.pop(conversation_id, None)
        if isinstance(command, Start):
            visited = Visited(self._clock.now(), State(conversation_id=conversation_id), "")
        elif visited is not None:
            visited = replace(visited, now=self._clock.now())
        for _ in range(TRIES if self._serves else 0):
            visited = visited or await self._store.visit(conversation_id, most_bytes=MOST_BYTES)
            if visited is None or visited.state.busy or (visited.state.ended and not isinstance(command, Wake)):
                return None
            if visited.state.turn is not None and not isinstance(command, Tell | Wake):
                return None
            of = command if isinstance(command, Start) else visited.state
            begins = None
            if visited.state.turn is None:  # else the turn goes on with the code that it began with
                with contextlib.suppress(WorkPaused, NoWorker, HoldfastError):  # an actor meets it again; it is accepted
                    _, begins = await admitted(self._guest.admit, self._guest.published, of.app, of.agent)
            self._reached(Step.MESSAGE_1_READ)
            delivery.handed = True
            try:
                return await self._guest.judged(conversation_id, visited, command, begins=begins)
            except Fenced:
                delivery.handed, visited = False, None
        return None

    async def close(self) -> None:
        """Wait up to `CLOSING_S` until workers have the work, and tell the counts. Actors take the rest."""
        await self._background.close(wait_s=CLOSING_S)
        if self._telling is not None:
            self._telling.cancel()
        with contextlib.suppress(StoreError):
            await tell(self._store, self._guest.counts)

    async def _hear(self) -> None:
        """Read anew, now and then, the store's clock, and which release serves it."""
        if not self._clock.fresh:
            now, serving = await asyncio.gather(self._store.now(), self._store.serving())
            self._clock.heard(now)
            self._serves = serving in (None, self._release)

    async def _worked(self, app: str, request: ModelRequest | RunRequest) -> None:
        """Have a worker do the work; if none takes it in time, leave it to an actor."""
        try:
            async with asyncio.timeout(LOOK_MS / 1000):
                answer: object = await self._workers.do(app, request)
        except asyncio.CancelledError:
            await self._guest.leave(request, "its client closes")
            raise
        except Exception as error:  # noqa: BLE001 - an actor takes the work up, and handles the error
            answer = error
        if isinstance(answer, Exception | NoOutcome) and answer is not NoOutcome.NOT_MINE:
            await self._guest.leave(request, answer)

    async def _tell(self) -> None:
        await asyncio.sleep(TELL_S)
        await tell(self._store, self._guest.counts)
