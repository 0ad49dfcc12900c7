"""API keys, their use, and tickets (which expire), in Redis."""

from collections.abc import Sequence
from typing import Any

from . import codec
from .access import COST, MOST_API_KEYS, TOKENS, WINDOW_MS, ApiKey, Exceeded, Ticket, Used, Want, too_many_keys
from .redis_database import RedisDatabase


class RedisAccess(RedisDatabase):
    """The verbs of `Tickets`, `QuotaStore` and, beyond hashes, `ApiKeys`, in Redis."""

    async def put_api_key(self, key: ApiKey) -> None:
        answer = await self._script("put_api_key", [self._of_keys[0]], [key.key_id, codec.encode(key), MOST_API_KEYS])
        if answer[0] == b"full":
            raise too_many_keys()

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        await self._script("note_api_key_use", list(self._of_keys), [key_id, at])

    async def put_ticket(self, ticket: Ticket) -> None:
        place, data = self._ticket_place(ticket.digest), codec.encode(ticket)
        await self._do(lambda: self._redis.set(place, data, pxat=max(ticket.expires_at, 1)))

    async def ticket(self, digest: str) -> Ticket | None:
        data = await self._do(lambda: self._redis.get(self._ticket_place(digest)))
        return None if data is None else codec.decode(Ticket, data)

    async def remove_ticket(self, digest: str) -> bool:
        return bool(await self._do(lambda: self._redis.delete(self._ticket_place(digest))))

    def _ticket_place(self, digest: str) -> str:
        return self._keys.meta(f"ticket:{digest}")

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        answer = await self._use(key_id, request, [part for want in wants for part in want])
        return Exceeded(answer[1].decode(), int(answer[2]), int(answer[3])) if answer[0] == b"exceeded" else None

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        if not key_ids:
            return []
        found = await self._pipe(lambda pipe: [pipe.hgetall(self._used_place(key_id)) for key_id in key_ids])
        return [_used(fields) for fields in found]

    async def charge(self, conversation_id: str, key_id: str) -> None:
        await self._do(lambda: self._redis.hsetnx(self._keys.head(conversation_id), "charged_to", key_id))

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        key_id = await self._do(lambda: self._redis.hget(self._keys.head(conversation_id), "charged_to"))
        if key_id is not None:
            await self._use(key_id.decode(errors="replace"), "", [TOKENS, tokens, "", COST, nano_usd, ""])

    async def _use(self, key_id: str, request: str, wants: list[str | int]) -> list[Any]:
        return await self._script("use", [self._used_place(key_id)], [request, WINDOW_MS, *wants])

    def _used_place(self, key_id: str) -> str:
        return self._keys.meta(f"used:{key_id}")


def _used(fields: dict[bytes, bytes]) -> Used:
    amounts = {
        name.decode(errors="replace"): codec.number_of(value, "what a key has used")
        for name, value in fields.items()
        if not name.startswith(b"@")
    }
    return Used(amounts, codec.number_of(fields.get(b"@", b"0"), "what a key has used"))
