"""What API keys have used, in memory."""

from collections.abc import Sequence

from .memory_database import MemoryDatabase
from .quotas import COST, TOKENS, WINDOW_MS, Exceeded, Used, Want


class MemoryQuotas(MemoryDatabase):
    """The verbs of `QuotaStore`, in memory."""

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        until, amounts, requests = self._used_now(key_id)
        again = bool(request) and request in requests
        for want in wants:
            if again and want.amount:
                continue
            if amounts.get(want.quota, 0) + max(want.amount, 1) > want.most:
                return Exceeded(want.quota, amounts.get(want.quota, 0), until)
        if not again:
            self._add(key_id, {want.quota: want.amount for want in wants}, request)
        return None

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        found = [self._quotas_used.get(key_id, (0, {}, set())) for key_id in key_ids]
        return [Used(dict(amounts), until) if until > self._clock() else Used() for until, amounts, _ in found]

    async def charge(self, conversation_id: str, key_id: str) -> None:
        found = self._conversations[conversation_id]
        found.charged_to = found.charged_to or key_id

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        found = self._conversations.get(conversation_id)
        if found is not None and found.charged_to:
            self._add(found.charged_to, {TOKENS: tokens, COST: nano_usd}, "")

    def _used_now(self, key_id: str) -> tuple[int, dict[str, int], set[str]]:
        until, amounts, requests = self._quotas_used.get(key_id, (0, {}, set()))
        now = self._clock()
        return (until, amounts, requests) if until > now else (now + WINDOW_MS, {}, set())

    def _add(self, key_id: str, more: dict[str, int], request: str) -> None:
        if not any(more.values()):
            return
        until, amounts, requests = self._used_now(key_id)
        for quota, amount in more.items():
            amounts[quota] = amounts.get(quota, 0) + amount
        self._quotas_used[key_id] = until, amounts, requests | ({request} if request else set())
