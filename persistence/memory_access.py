"""API keys, their use, and tickets, in memory."""

from collections.abc import Sequence

from . import codec
from .access import COST, MOST_API_KEYS, TOKENS, WINDOW_MS, ApiKey, Exceeded, Ticket, Used, Want, too_many_keys
from .memory_database import MemoryDatabase


class MemoryAccess(MemoryDatabase):
    """The verbs of `Tickets`, `QuotaStore` and, beyond hashes, `ApiKeys`, in memory."""

    async def put_api_key(self, key: ApiKey) -> None:
        place = self._of_keys[0]
        (found,) = await self._all(place)
        if key.key_id not in found and len(found) >= MOST_API_KEYS:
            raise too_many_keys()
        await self._put((place, key.key_id, codec.encode(key)))

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        key, used = self._of_keys
        if (await self._get((key, key_id)))[0] is not None:
            await self._put((used, key_id, at))

    async def put_ticket(self, ticket: Ticket) -> None:
        self._tickets[ticket.digest] = ticket.expires_at, codec.encode(ticket)
        self._forget()

    async def ticket(self, digest: str) -> Ticket | None:
        self._forget()
        found = self._tickets.get(digest)
        return None if found is None else codec.decode(Ticket, found[1])

    async def remove_ticket(self, digest: str) -> bool:
        self._forget()
        return self._tickets.pop(digest, None) is not None

    def _forget(self) -> None:
        now = self._clock()
        for digest in [digest for digest, (expires_at, _) in self._tickets.items() if expires_at <= now]:
            del self._tickets[digest]

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
        found = self._seen(conversation_id)
        if found.charged_to:
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
