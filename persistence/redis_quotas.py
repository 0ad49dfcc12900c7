"""What API keys have used, in Redis: a hash for each key in the meta slot, which expires."""

from collections.abc import Sequence
from typing import Any

from . import redis_values
from .quotas import COST, TOKENS, WINDOW_MS, Exceeded, Used, Want
from .redis_database import RedisDatabase


class RedisQuotas(RedisDatabase):
    """The verbs of `QuotaStore`, in Redis."""

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
        name.decode(errors="replace"): redis_values.number_of(value, "what a key has used")
        for name, value in fields.items()
        if not name.startswith(b"@")
    }
    return Used(amounts, redis_values.number_of(fields.get(b"@", b"0"), "what a key has used"))
