"""Starting conversations as a guest: one script acknowledges a start, and a worker is asked for its model call."""

import asyncio
import contextlib
import logging

from holdfast.actors.activation.guest import LOOK_MS, Guest
from holdfast.actors.activation.judge import StoreClock, steady_ms
from holdfast.actors.admission import Admission
from holdfast.actors.answers import Replied
from holdfast.actors.telling import tell
from holdfast.actors.workers import ModelRequest, NoOutcome, NoWorker, Workers
from holdfast.background import Background
from holdfast.conversation import Command, Start, State
from holdfast.errors import CorruptStore, Fenced, HoldfastError, StoreError, StoreUnavailable
from holdfast.persistence import Store, Visited
from holdfast.settings import TraceSettings
from holdfast.work_context import about

from .registry import Delivery, DeliveryResult, Refused

logger = logging.getLogger("holdfast.registry")

MOST_TOLD = 10_000
"""How many model calls a process hands to workers at once; the sweeper finds further ones."""
CLOSING_S = 2.0
TELL_S = 5.0
"""Seconds from a start until its counts are told to the store."""


class Starts:
    """Starts new conversations from one process, while its `release` serves the store."""

    def __init__(self, store: Store, workers: Workers, release: str, traces: TraceSettings) -> None:
        self._guest = Guest(store, admit=Admission(store).admit, published=workers.published, traces=traces)
        self._store = store
        self._workers = workers
        self._release = release
        self._clock = StoreClock(steady_ms)
        self._serves = True
        self._learned: set[tuple[str, str]] = set()
        self._background = Background()
        self._telling: asyncio.Task[None] | None = None

    async def started(self, delivery: Delivery) -> DeliveryResult | None:
        """The result of a start; None if an actor must judge it: the conversation exists, or the store did not answer.

        If turns are traced, actors begin them: a turn's span needs a process that exports spans and lives on.
        """
        if not self._guest.allowed or self._guest.traces.on:
            return None
        conversation_id, app = delivery.conversation_id, getattr(delivery.command, "app", "")
        with about(conversation=conversation_id):
            try:
                async with asyncio.timeout_at(delivery.until):
                    await self._hear()
                    await self._learn(delivery.command)
                    if not self._serves:
                        return None
                    visited = Visited(self._clock.now(), State(conversation_id=conversation_id), "")
                    delivery.handed = True
                    wrote = await self._guest.judged(conversation_id, visited, delivery.command)
            except Fenced:
                delivery.handed = False
                return None
            except StoreError as error:
                delivery.handed = isinstance(error, StoreUnavailable | CorruptStore)  # else nothing was written
                return None
            except TimeoutError as error:
                return delivery.given_up(error)
            except HoldfastError as error:
                return Refused(error)
            except Exception:
                logger.exception("conversation %s cannot be started from here", conversation_id)
                return None
            for request in wrote.requests():
                if isinstance(request, ModelRequest) and len(self._background) < MOST_TOLD:
                    self._background.start(self._worked(app, request))
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())
        delivery.began = wrote.write.after
        return Replied(wrote.reply)

    async def close(self) -> None:
        """Wait up to `CLOSING_S` until workers have the model calls, and tell the counts. Actors take the other calls."""
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

    async def _learn(self, command: Command) -> None:
        """Read the spec that starts of this agent begin with, once: a first reading may take too long within a command."""
        if isinstance(command, Start) and (command.app, command.agent) not in self._learned:
            with contextlib.suppress(NoWorker, HoldfastError):
                found = await self._guest.published(command.app, command.agent)
                if found is not None and found.spec is not None:
                    self._learned.add((command.app, command.agent))

    async def _worked(self, app: str, request: ModelRequest) -> None:
        """Have a worker make the model call; if none takes it in time, leave it to an actor."""
        try:
            async with asyncio.timeout(LOOK_MS / 1000):
                answer: object = await self._workers.call_model(app, request.code, request)
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
