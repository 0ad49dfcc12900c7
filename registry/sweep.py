"""The sweep: it wakes conversations that need attention and keeps the pool filled, through interfaces without Ray.

Two sweeps of one store do no harm: they only do the work twice.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Sequence

from holdfast import metrics
from holdfast.actors.answers import Replied
from holdfast.actors.telling import tell
from holdfast.background import Background
from holdfast.backoff import now_s
from holdfast.conversation import Wake
from holdfast.counting import Counts
from holdfast.errors import ConversationNotFound, CorruptStore, HoldfastError, LeaseHeld, Overloaded, Quarantined, StoreError
from holdfast.machine_load import because, overload
from holdfast.persistence import Pause, Run, Store
from holdfast.redaction import PLAIN
from holdfast.settings import ProcessLimits, Timing
from holdfast.work_context import CONVERSATION

from .own_deliveries import Accepts
from .pool import RESERVE, Actors, ActorUnavailable, Pool, PoolFull
from .registry import Delivery, Registry, Unsent

logger = logging.getLogger("holdfast.sweeper")

AT_ONCE = 16
AT_ONCE_IN_TROUBLE = 4
"""How many conversations in trouble are woken at once: they may hang, and must not delay the others."""
WAKE_TIMEOUT_S = 30.0
BATCH = 100
SHORTEST_DELAY_MS = 500
LONGEST_DELAY_MS = 60_000
OVERLOADED_MS = 1_000
"""The delay before a conversation that found no free actor is woken again; this is no trouble, as actors come free."""
UNANSWERED_MS = 5_000
"""The longest delay before a conversation whose actor did not answer is woken again: a try itself takes half a minute."""
MOST_REMEMBERED = 10_000
SPAWN_AGAIN_S = 10.0
QUIET_MS = 5_000
LOOKS = 3
"""How many ticks in a row the pool must be short before actors are spawned."""
LOOKS_IN_USE = 60
"""The same if enough actors live but are in use: most become free before another one has started."""
UNREADABLE_S = 60.0
"""Seconds until unreadable pauses are read again."""
TELL_S = 5.0
"""Seconds between two reports of counts to the store."""
READMIT_S = 5.0
"""Seconds between two searches for conversations released as paused, while the pauses stay the same."""


class Sweep:
    """The sweep of one store; the sweeper calls `tick` again and again. `messages` wakes conversations that need no actor."""

    def __init__(
        self,
        store: Store,
        actors: Actors,
        *,
        timing: Timing,
        process_limits: ProcessLimits,
        counts: Counts | None = None,
        messages: Accepts | None = None,
    ) -> None:
        self._store = store
        self._messages = messages
        self._counts = Counts() if counts is None else counts
        self._tell_at = 0.0
        self._actors = actors
        pool = Pool(store, actors, timing=timing, process_limits=process_limits, reserve=RESERVE)
        self._registry = Registry(store, actors, pool=pool, timing=timing)
        self._pool = Pool(store, actors, timing=timing, process_limits=process_limits)
        self._timing = timing
        self._process_limits = process_limits
        self._waking: set[str] = set()
        self._troubled: set[str] | None = None
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._limit_in_trouble = asyncio.Semaphore(AT_ONCE_IN_TROUBLE)
        self._tasks = Background()
        self._healthy_since: float | None = None
        self._spawning = 0
        self._spawn_at = 0.0
        self._short_ticks = 0
        self._filled = False
        self._pauses: Sequence[Pause] | None = None
        self._readmit_at = 0.0
        self._unreadable_until = 0.0

    @property
    def registry(self) -> Registry:
        """The registry that the sweep wakes conversations through."""
        return self._registry

    async def tick(self) -> None:
        """Start to wake the conversations that need attention, and to spawn the actors that the pool lacks.

        Raises:
            StoreError: The store is away; ends of leases count again once it has been healthy for a lease's length.
        """
        try:
            if self._troubled is None:
                self._troubled = await self._known_troubles()
            await self._readmit()
            due = await self._store.attention(BATCH)
            self._take_up([one for one in due.conversation_ids if one not in self._waking])
            await self._pool.reap(quiet_ms=max(self._timing.lease_ms // 2, QUIET_MS))
            await self._refill()
            if now_s() >= self._tell_at:
                self._tell_at = now_s() + TELL_S
                await tell(self._store, self._counts)
        except StoreError:
            self.store_away()
            raise
        if self._healthy_since is None:
            self._healthy_since = now_s()

    def ring(self, conversation_id: str) -> None:
        """Wake a conversation without an owner as its outcome is recorded, before the next tick."""
        if self._healthy_since is not None and conversation_id not in self._waking:
            self._take_up([conversation_id])

    def _take_up(self, conversation_ids: Sequence[str]) -> None:
        if conversation_ids:
            self._waking.update(conversation_ids)
            self._tasks.start(self._looked_at(conversation_ids))

    async def _looked_at(self, conversation_ids: Sequence[str]) -> None:
        """Wake these conversations, except those whose work runs at live workers.

        The end of a claim's time alone proves nothing, so a worker is asked once about all its claims. Without an answer they
        are looked at again later, until the claim's bound has passed.
        """
        claims: dict[str, list[tuple[str, str]]] = {}
        for first in range(0, len(conversation_ids), AT_ONCE):
            some = conversation_ids[first : first + AT_ONCE]
            for conversation_id, runs in zip(some, await asyncio.gather(*map(self._look, some)), strict=True):
                for run in runs:
                    claims.setdefault(run.worker, []).append((conversation_id, run.incarnation))
                if not runs:
                    self._tasks.start(self._wake(conversation_id))
        parked = {conversation_id for kept in claims.values() for conversation_id, _ in kept}
        for worker, kept in claims.items():
            self._tasks.start(self._asked(worker, kept))
        self._waking -= parked

    async def _look(self, conversation_id: str) -> Sequence[Run]:
        try:
            return await self._store.look(conversation_id, self._timing.lease_ms)
        except Exception as error:  # noqa: BLE001 - waking it shows what is wrong
            logger.debug("%s could not be looked at: %s", conversation_id, error)
            return ()

    async def _asked(self, worker: str, claims: Sequence[tuple[str, str]]) -> None:
        try:
            async with asyncio.timeout(WAKE_TIMEOUT_S):
                kept = await self._actors.keeps(worker, [incarnation for _, incarnation in claims])
        except (HoldfastError, TimeoutError) as error:
            logger.debug("%s does not say which claims it keeps: %s", worker, error)
            return
        except Exception:
            logger.exception("%s does not say which claims it keeps", worker)
            return
        for (conversation_id, _), kept_there in zip(claims, kept or [True] * len(claims), strict=True):
            if not kept_there and conversation_id not in self._waking:
                self._waking.add(conversation_id)
                self._tasks.start(self._wake(conversation_id))

    async def _readmit(self) -> None:
        """Have conversations whose pause is over need attention: when the pauses change, and every `READMIT_S`."""
        if now_s() < self._unreadable_until:
            return
        try:
            pauses = (await self._store.paused()).pauses
            if pauses == self._pauses and now_s() < self._readmit_at:
                return
            readmitted = await self._store.readmit(BATCH)
        except CorruptStore:  # the sweep for deadlines goes on
            self._unreadable_until = now_s() + UNREADABLE_S
            logger.exception("the pauses cannot be read: no new work begins")
            return
        self._pauses, self._readmit_at = pauses, now_s() + (0.0 if readmitted else READMIT_S)

    async def _known_troubles(self) -> set[str]:
        try:
            return {trouble.conversation_id for trouble in await self._store.troubles()}
        except CorruptStore:  # failed wakes note the troubles anew
            logger.exception("the troubles cannot be read")
            return set()

    def store_away(self) -> None:
        """Note that the store did not answer. Its owners could not renew their leases then, and must not be deposed for it."""
        self._healthy_since = None

    async def _wake(self, conversation_id: str) -> None:
        troubled = self._troubled if self._troubled is not None else set()
        CONVERSATION.set(conversation_id)  # in this task only
        try:
            async with self._limit_in_trouble if conversation_id in troubled else self._limit:
                healthy_s = 0.0 if self._healthy_since is None else now_s() - self._healthy_since
                if healthy_s < self._timing.lease_ms / 1000 and await self._owner_lives(conversation_id):
                    return
                await self._ask(conversation_id)
            self._counts.add(metrics.WAKES, "woken")
            if conversation_id in troubled:
                troubled.discard(conversation_id)
                await self._store.troubled(conversation_id, None)
        except Exception as error:
            self._counts.add(metrics.WAKES, "failed")
            if isinstance(error, HoldfastError | TimeoutError):
                logger.warning("%s could not be woken: %s", conversation_id, error or type(error).__name__)
            else:
                logger.exception("%s could not be woken", conversation_id)
            await self._later(conversation_id, error, troubled)
        finally:
            self._waking.discard(conversation_id)

    async def _ask(self, conversation_id: str) -> None:
        delivery = Delivery(conversation_id, Wake(), timeout_s=WAKE_TIMEOUT_S, waits_for_store=False)
        result = None if self._messages is None else await self._messages.accepted(delivery)
        if not isinstance(result, Replied):
            result = await self._registry.deliver(delivery)
        match result:
            case Replied():
                pass
            case Unsent(TimeoutError()):  # no actor was found: not the conversation's fault
                raise Overloaded(conversation_id, OVERLOADED_MS)
            case _:
                raise result.error

    async def _later(self, conversation_id: str, error: Exception, troubled: set[str]) -> None:
        """Postpone a conversation that cannot be woken, for longer each time, and record why.

        The store keeps delay and reason, so other sweepers know them too, and later conversations of the bucket get their turn.
        An unreadable conversation is set aside after some tries.
        """
        delay_ms = LONGEST_DELAY_MS
        try:
            if isinstance(error, CorruptStore) and await self._set_aside(conversation_id, error):
                troubled.discard(conversation_id)
                await self._store.troubled(conversation_id, None)
                return
            if isinstance(error, Overloaded):  # not the conversation's fault: it keeps its turn
                delay_ms = _delay_ms(error, 0)
            elif not isinstance(error, Quarantined | ConversationNotFound):  # these two need no attention
                if len(troubled) < MOST_REMEMBERED:
                    troubled.add(conversation_id)
                reason = str(error) or f"no answer within {WAKE_TIMEOUT_S:g} s{because()}"
                since_ms = await self._store.troubled(conversation_id, reason)
                delay_ms = _delay_ms(error, since_ms)
            await self._store.postpone(conversation_id, delay_ms)
        except StoreError as unsaid:
            logger.warning("%s is woken again without a delay: %s", conversation_id, unsaid)

    async def _set_aside(self, conversation_id: str, error: CorruptStore) -> bool:
        """Count a strike against an unreadable conversation; true once it is in quarantine."""
        try:
            owner = await self._store.owner(conversation_id)
            blame = await self._store.strike(
                conversation_id,
                owner.token if owner is not None else "",
                process=uuid.uuid4().hex,
                reason=f"it cannot be taken up ({PLAIN.redacted(str(error), 300)})",
                limit=self._process_limits.strikes,
            )
        except StoreError as unsaid:
            logger.warning("%s cannot be set aside: %s", conversation_id, unsaid)
            return False
        return blame is None

    async def _owner_lives(self, conversation_id: str) -> bool:
        """Whether the owner may live and no deadline has passed: until the store is healthy, such an owner is left alone."""
        owner = await self._store.owner(conversation_id)
        state = await self._store.load(conversation_id)
        due = state.due_at
        deadline_passed = due is not None and due <= await self._store.now()
        if owner is None or not owner.actor or deadline_passed:
            return False
        if not self._actors.judges(owner.actor):
            return True  # it may live in another cluster, of which this one knows nothing
        return await self._actors.find(owner.actor) is not None

    async def _refill(self) -> None:
        if now_s() < self._spawn_at:
            return
        missing = self._process_limits.standby - await self._store.offers() - self._spawning
        if missing <= 0:
            self._short_ticks, self._filled = 0, True
            return
        self._short_ticks += 1
        in_use = len(await self._store.live()) >= self._process_limits.standby
        if self._filled and self._short_ticks < (LOOKS_IN_USE if in_use else LOOKS):
            return  # a brief shortage under load costs less than another process
        self._short_ticks, self._filled = 0, True
        if overload():
            missing = 0 if self._spawning else 1
        for _ in range(missing):
            self._spawning += 1
            self._tasks.start(self._spawn())

    async def _spawn(self) -> None:
        try:
            await self._pool.spawn(offer=True)
        except PoolFull:
            self._spawn_at = now_s() + 1
        except (ActorUnavailable, HoldfastError) as error:
            self._spawn_at = now_s() + SPAWN_AGAIN_S
            logger.warning("an actor could not be warmed: %s", error)
        except Exception:
            self._spawn_at = now_s() + SPAWN_AGAIN_S
            logger.exception("an actor could not be warmed")
        finally:
            self._spawning -= 1


def _delay_ms(error: Exception, since_ms: int) -> int:
    """The delay before a conversation in trouble for `since_ms` is woken again: the same time again, within bounds."""
    waited_ms = error.retry_after_ms if isinstance(error, LeaseHeld) else since_ms
    longest_ms = UNANSWERED_MS if isinstance(error, TimeoutError) else LONGEST_DELAY_MS
    delay_ms = OVERLOADED_MS if isinstance(error, Overloaded) else max(SHORTEST_DELAY_MS, min(waited_ms, longest_ms))
    return round(delay_ms * random.uniform(1, 1.25))  # noqa: S311 - jitter
