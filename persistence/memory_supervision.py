"""Supervision of conversations in memory: strikes, quarantine, what is postponed and what is in trouble."""

from collections.abc import Callable, Mapping, Sequence

from holdfast.conversation.idempotency import IdempotencyRecord
from holdfast.errors import CorruptStore, Fenced
from holdfast.redaction import PLAIN

from .memory_conversation import MemoryConversation
from .payloads import Payloads
from .store import Quarantine
from .supervision import TROUBLE_MS, TROUBLES, Trouble


class MemorySupervision:
    """The verbs of `Supervision`, with strikes and quarantine."""

    _clock: Callable[[], int]
    _conversations: dict[str, MemoryConversation]
    _hosting: dict[str, str]
    _troubles: dict[str, tuple[int, int, bytes]]
    payloads: Payloads

    async def strike(self, conversation_id: str, token: str, *, process: str, reason: str, limit: int) -> int | None:
        """See `Store.strike`."""
        check(bool(process) and "," not in process and limit > 0, "arguments")
        found = self._conversations.get(conversation_id)
        if found is None or not found.log or found.token != token or found.quarantine is not None:
            raise Fenced(conversation_id)
        if process not in found.struck_by:
            found.crash_count, found.struck_by = found.crash_count + 1, found.struck_by | {process}
        if found.crash_count < limit:
            return found.crash_count
        found.quarantine = self.payloads.seal_text(reason, "quarantine", conversation_id), self._clock()
        found.token, found.holder, found.lease = "", "", self._clock()
        return None

    async def retry(self, conversation_id: str) -> bool:
        """See `Store.retry`."""
        found = self._conversations.get(conversation_id)
        if found is None or found.quarantine is None:
            return False
        found.quarantine, found.crash_count, found.lease, found.postponed = None, 0, self._clock(), 0
        found.paused = False
        return True

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        """See `Store.quarantine`."""
        found = self._conversations.get(conversation_id)
        if found is None or found.quarantine is None:
            return None
        reason, at = found.quarantine
        return Quarantine(self.payloads.open_text(reason, "quarantine", conversation_id), at)

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        """See `Store.known`."""
        found = self._conversations.get(conversation_id)
        known = found.known if found is not None else {}
        return {key: self.payloads.open_known(conversation_id, key, known[key]) for key in keys if key in known}

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """See `Store.hosts`."""
        self._hosting.pop(actor, None)
        if conversation_id is not None:
            self._hosting[actor] = conversation_id

    async def hosted(self, actor: str) -> str | None:
        """See `Store.hosted`."""
        return self._hosting.get(actor)

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        """See `Store.postpone`."""
        check(delay_ms >= 0, "arguments")
        found = self._conversations.get(conversation_id)
        now = self._clock()
        if found is not None and found.attention is not None and found.attention <= now:
            found.postponed = now + delay_ms

    async def troubled(self, conversation_id: str, reason: str) -> int:
        """See `Store.troubled`."""
        now = self._clock()
        fresh = {name: found for name, found in self._troubles.items() if found[1] > now - TROUBLE_MS}
        if conversation_id not in fresh and len(fresh) >= TROUBLES:
            return TROUBLE_MS
        since = fresh[conversation_id][0] if conversation_id in fresh else now
        text = self.payloads.seal_text(PLAIN.redacted(reason, 500), "trouble", conversation_id)
        self._troubles = fresh | {conversation_id: (since, now, text)}
        return max(now - since, 0)

    async def untroubled(self, conversation_id: str) -> None:
        """See `Store.untroubled`."""
        self._troubles.pop(conversation_id, None)

    async def troubles(self) -> Sequence[Trouble]:
        """See `Store.troubles`."""
        now = self._clock()
        fresh = [
            Trouble(name, self.payloads.open_text(text, "trouble", name), since)
            for name, (since, last, text) in self._troubles.items()
            if last > now - TROUBLE_MS
        ]
        return sorted(fresh, key=lambda trouble: trouble.since)


def check(fine: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    """Raise `CorruptStore` unless the condition holds."""
    if not fine:
        raise CorruptStore(what)
