"""The givers of grants: a run by a grant asks a person where its giver's API key does not let them decide the call any more."""

import asyncio

from holdfast.actors.admission import FRESH_S
from holdfast.actors.work_requests import RunRequest
from holdfast.backoff import now_s
from holdfast.persistence import PAUSE_LAG_MS, ApiKeyList, Store

from .ongoing import Ongoing


class GrantGivers:
    """The API keys of a namespace as a worker has read them; a reading serves for `FRESH_S`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = ApiKeyList(())
        self._read_at = 0
        self._read_at_s = float("-inf")
        self._looking: Ongoing[None] = Ongoing()

    async def lapsed(self, request: RunRequest) -> tuple[tuple[str, ...], int | None]:
        """The grants of a run whose givers held an API key and may not decide its call any more.

        Several keys of one name are one holder's: while one of them lets its holder decide, a grant stands. The second value is
        the time by which a run that rests on this reading must begin, in ms UTC by the store's clock; None: at any time.

        Raises:
            StoreUnavailable: The keys cannot be read now.
        """
        if not request.givers:
            return (), None
        if now_s() - self._read_at_s >= FRESH_S:
            await asyncio.shield(self._looking.joined("keys", self._look))
        keys = [key for key in self._keys.keys if key.may_decide(request.agent, request.approvers, self._read_at)]
        lapsed = tuple(grant_id for grant_id, name in request.givers if all(key.name != name for key in keys))
        return lapsed, self._read_at + PAUSE_LAG_MS

    async def _look(self) -> None:
        read_at_s, read_at = now_s(), await self._store.now()
        self._keys, self._read_at, self._read_at_s = await self._store.api_keys(), read_at, read_at_s
