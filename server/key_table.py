"""The API keys of the namespace, cached for a moment: checks a key without a store lookup for each."""

import time
from collections.abc import Callable, Mapping

from holdfast.client.access import Access, ApiKey, fits
from holdfast.single_flight import SingleFlight

TABLE_S = 1.0
"""Seconds for which the keys that were read are kept."""


class KeyTable:
    """All keys of a namespace, read at most once a second and only on demand. `clock` gives seconds."""

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._reading = SingleFlight(self._read)
        self._keys: Mapping[str, ApiKey] = {}
        self._read_at = float("-inf")

    async def has(self, key_id: str, secret: str) -> bool:
        """Whether there is such a key. One that was made within the last second may be missing."""
        if self._clock() - self._read_at >= TABLE_S:
            await self._reading.result()
        key = self._keys.get(key_id)
        return key is not None and fits(key, secret)

    async def _read(self) -> None:
        began = self._clock()
        self._keys = {key.key_id: key for key in await self._access.keys()}
        self._read_at = began
