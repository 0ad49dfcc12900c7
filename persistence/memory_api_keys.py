"""API keys in memory."""

from functools import partial

from . import codec
from .api_keys import MOST_API_KEYS, ApiKey, ApiKeyList, too_many_keys
from .memory_database import MemoryDatabase


class MemoryApiKeys(MemoryDatabase):
    """The verbs of `ApiKeys`, in memory."""

    async def put_api_key(self, key: ApiKey) -> None:
        if key.key_id not in self._api_keys and len(self._api_keys) >= MOST_API_KEYS:
            raise too_many_keys()
        self._api_keys[key.key_id] = codec.encode(key)

    async def api_key(self, key_id: str) -> ApiKey | None:
        data = self._api_keys.get(key_id)
        return codec.decode_api_key(data, self._api_keys_used.get(key_id)) if data is not None else None

    async def api_keys(self) -> ApiKeyList:
        read = {
            name: partial(codec.decode_api_key, data, self._api_keys_used.get(name)) for name, data in self._api_keys.items()
        }
        return ApiKeyList.of(read)

    async def remove_api_key(self, key_id: str) -> bool:
        self._api_keys_used.pop(key_id, None)
        return self._api_keys.pop(key_id, None) is not None

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        if key_id in self._api_keys:
            self._api_keys_used[key_id] = at
