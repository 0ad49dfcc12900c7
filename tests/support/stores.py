"""What a client stands on in unit tests: a store at hand, and no way to the actors."""

from typing import Any

from holdfast.settings import Settings


class InMemory:
    """A stack whose store is given."""

    def __init__(self, store: Any) -> None:
        self.settings = Settings(redis_url="unix:///nowhere")
        self._store = store
        self.may_start = False

    async def store(self) -> Any:
        return self._store

    async def see_to_ray(self) -> None:
        """There is none."""

    async def close(self) -> None:
        """Nothing was opened."""
