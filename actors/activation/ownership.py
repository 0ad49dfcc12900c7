"""The ownership of a conversation: what an activation holds since its takeover, and its lease."""

import asyncio
import logging
import uuid

from holdfast.backoff import now_s
from holdfast.errors import StoreError
from holdfast.persistence import Acquired, Append, Appended, Blame, Moved, Run, RunStatus, Takeover, TakeoverReason
from holdfast.redaction import PLAIN

from .context import ActivationContext
from .judge import Held, StoreClock

logger = logging.getLogger("holdfast.actor")


class Lease:
    """A lease of a fixed length, measured by the event loop's clock. Each write grants it anew."""

    def __init__(self, lease_ms: int) -> None:
        self._length_s = lease_ms / 1000
        self._until_s = 0.0
        self._given = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether the lease has not ended."""
        return now_s() < self._until_s

    def granted(self, asked_at_s: float) -> None:
        """Note that the store granted the lease; it counts from before the request was sent."""
        self._until_s = asked_at_s + self._length_s
        self._given.set()

    async def ended(self) -> None:
        """Wait for a lease to be granted, and return once it has ended. A resting conversation has no lease."""
        await self._given.wait()
        while (left_s := self._until_s - now_s()) > 0:  # noqa: ASYNC110 - a write in between prolongs the lease
            await asyncio.sleep(left_s)
        self._given.clear()


class Ownership(Held):
    """The token, state, spec and lease with which one activation owns its conversation.

    Attributes:
        unsure: Whether the outcome of the last write is unknown, so that effects that seem outstanding may be settled.
        runs: The records of runs and model calls as read at the takeover or made by a write; each is used once.
        blame: The last known crash count of the conversation: processes that died of its work since its log last advanced.
    """

    def __init__(self, context: ActivationContext, conversation_id: str) -> None:
        super().__init__(
            context.store, context.specs, StoreClock(context.clock), conversation_id, lease_ms=context.timing.lease_ms
        )
        self.over = False
        self.unsure = False
        self.runs: dict[str, Run] = {}
        self.blame = Blame()
        self.lease = Lease(self.lease_ms)
        self._context = context

    async def take_over(self, seen_token: str, because: TakeoverReason, *, create: bool) -> Moved | None:
        """Become the owner and take the state from the store; returns `Moved` if another activation owns it, else None.

        Raises what `Store.acquire` raises.
        """
        token = uuid.uuid4().hex
        asked_at_s = now_s()
        acquired = await self.store.acquire(
            self.conversation_id,
            Takeover(
                seen_token=seen_token,
                new_token=token,
                because=because,
                actor=self._context.actor,
                lease_ms=self.lease_ms,
                create=create,
            ),
        )
        match acquired:
            case Moved():
                return acquired
            case Acquired():
                self.token = token
                self.lease.granted(asked_at_s)
                self.blame = acquired.blame
                self.state = acquired.state
                self.tail_bytes = acquired.tail_bytes
                self.runs = dict(acquired.runs)
                self.unrecorded.clear()  # a write of unknown outcome may have made their records, claimed by now
                self.time.heard(acquired.now)
                self.spec = await self._spec()
                return None

    async def renew(self) -> None:
        """Renew the lease; `Fenced` if another activation owns the conversation."""
        asked_at_s = now_s()
        now = await self.store.renew(self.conversation_id, self.token, self.lease_ms)
        self.time.heard(now)
        self.lease.granted(asked_at_s)

    def granted(self, asked_at_s: float) -> None:
        """Note that a write renewed the lease."""
        self.lease.granted(asked_at_s)

    def adopt(self, write: Append, written: Appended) -> None:
        """Adopt the state of a durable write, and reset the crash count if the write advances the conversation."""
        super().adopt(write, written)
        self.runs.update(dict.fromkeys((*write.delta.scheduled, *write.unrecorded), Run(RunStatus.RUNNABLE)))
        if write.advances:
            self.blame = Blame()

    async def strike(self, process: str | None, what: str, *, limit: int | None = None) -> bool:
        """Count a strike; true if that put the conversation in quarantine. The death of one process counts once."""
        what = PLAIN.redacted(what)
        logger.warning("conversation %s: %s", self.conversation_id, what)
        limit = self._context.strikes if limit is None else limit
        try:
            claims = await self.store.claims_of(process) if process is not None else 1
            blame = await self.store.strike(
                self.conversation_id, self.token, process=process or uuid.uuid4().hex, reason=what, limit=limit, claims=claims
            )
        except StoreError as error:
            logger.warning("conversation %s: a strike is not counted: %s", self.conversation_id, error)
            return False
        if blame is None:
            logger.warning("conversation %s is in quarantine: %s", self.conversation_id, what)
            return True
        self.blame = blame
        return False
