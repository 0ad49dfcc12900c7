"""The givers of grants: a run by a grant asks a person once its giver's API key may no longer decide the call."""

from holdfast.actors.admission import Readings
from holdfast.actors.work_requests import RunRequest
from holdfast.persistence import PAUSE_LAG_MS, ApiKeyList, Store


class GrantGivers:
    """The API keys of a namespace as a worker has read them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = ApiKeyList(())
        self._read_at = 0
        self._readings = Readings(self._look, None)

    async def lapsed(self, request: RunRequest) -> tuple[tuple[str, ...], int | None]:
        """The grants of a run whose givers held an API key and may no longer decide its call.

        Keys of one name belong to one holder: a grant stands while one of them may decide. The second value is the latest time
        at which a run based on this reading may begin, in ms UTC by the store's clock; None: any time.
        """
        if not request.givers:
            return (), None
        await self._readings.fresh()
        keys = [key for key in self._keys.keys if key.may_decide(request.agent, request.approvers, self._read_at)]
        lapsed = tuple(grant_id for grant_id, name in request.givers if all(key.name != name for key in keys))
        return lapsed, self._read_at + PAUSE_LAG_MS

    async def _look(self) -> None:
        read_at = await self._store.now()
        self._keys, self._read_at = await self._store.api_keys(), read_at
