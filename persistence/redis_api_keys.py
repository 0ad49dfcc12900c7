"""API keys in Redis: two hashes in the meta slot, one of the keys and one of when each was last used."""

from functools import partial

from . import codec, redis_values
from .api_keys import MOST_API_KEYS, ApiKey, ApiKeyList, too_many_keys
from .redis_database import RedisDatabase


class RedisApiKeys(RedisDatabase):
    """The verbs of `ApiKeys`, in Redis."""

    async def put_api_key(self, key: ApiKey) -> None:
        answer = await self._script("put_api_key", [self._places[0]], [key.key_id, codec.encode(key), MOST_API_KEYS])
        if answer[0] == b"full":
            raise too_many_keys()

    async def api_key(self, key_id: str) -> ApiKey | None:
        keys, used = self._places
        data, at = await self._pipe(lambda pipe: [pipe.hget(keys, key_id), pipe.hget(used, key_id)], atomic=True)
        return _key(data, at) if data is not None else None

    async def api_keys(self) -> ApiKeyList:
        keys, used = self._places
        records, times = await self._pipe(lambda pipe: [pipe.hgetall(keys), pipe.hgetall(used)], atomic=True)
        return ApiKeyList.of(
            {name.decode(errors="replace"): partial(_key, data, times.get(name)) for name, data in records.items()}
        )

    async def remove_api_key(self, key_id: str) -> bool:
        keys, used = self._places
        stood = await self._do(lambda: self._redis.hexists(keys, key_id))  # a removal that is repeated would find nothing
        await self._pipe(lambda pipe: [pipe.hdel(keys, key_id), pipe.hdel(used, key_id)], atomic=True)
        return bool(stood)

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        await self._script("note_api_key_use", list(self._places), [key_id, at])

    @property
    def _places(self) -> tuple[str, str]:
        return self._keys.meta("api-keys"), self._keys.meta("api-keys-used")


def _key(data: bytes, at: bytes | None) -> ApiKey:
    return codec.decode_api_key(data, _moment(at))


def _moment(text: bytes | None) -> int | None:
    return None if text is None else redis_values.number_of(text, "the last use of an API key")
