"""The agent specs that a process has read."""

from holdfast.conversation import AgentSpec
from holdfast.persistence import Directory

SPECS = 1024
"""How many specs are kept, those that were used last."""


class SpecCache:
    """Specs by their digests. The content of a spec follows from its digest, so a store that is set back has no other."""

    def __init__(self) -> None:
        self._specs: dict[str, AgentSpec] = {}

    async def find(self, store: Directory, digest: str) -> AgentSpec | None:
        """The spec of a digest; None if the store has none under it."""
        spec = self._specs.pop(digest, None) or await store.spec(digest)
        if spec is None:
            return None
        self._specs[digest] = spec
        while len(self._specs) > SPECS:
            del self._specs[next(iter(self._specs))]
        return spec

    async def spec(self, store: Directory, digest: str) -> AgentSpec:
        """The spec of a digest.

        Raises:
            RuntimeError: The store has none under that digest.
        """
        spec = await self.find(store, digest)
        if spec is None:
            message = f"spec {digest} is not in the store"
            raise RuntimeError(message)
        return spec
