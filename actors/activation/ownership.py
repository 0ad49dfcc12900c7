"""The ownership of a conversation: what an activation holds since its takeover."""

import logging
import uuid

from holdfast.errors import StoreError
from holdfast.persistence import Acquired, Append, Appended, Blame, Moved, Run, RunStatus, Takeover, TakeoverReason
from holdfast.redaction import PLAIN
from holdfast.store_clock import StoreClock

from .context import ActivationContext
from .judge import Held

logger = logging.getLogger("holdfast.actor")


class Ownership(Held):
    """The token, state and spec with which one activation owns its conversation.

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
        self._context = context

    async def take_over(self, seen_token: str, because: TakeoverReason, *, create: bool) -> Moved | None:
        """Become the owner and take the state from the store; returns `Moved` if another activation owns it, else None.

        Raises what `Store.acquire` raises.
        """
        token = uuid.uuid4().hex
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
        self.time.heard(await self.store.renew(self.conversation_id, self.token, self.lease_ms))

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
