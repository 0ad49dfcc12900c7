"""What every part of a store says of the server under it."""

from collections.abc import Sequence
from typing import Protocol


class Database(Protocol):
    """The verbs of a `Store` by which it is opened, known and closed; each of its parts has them."""

    namespace: str

    async def open(self) -> str:
        """Check the server and this namespace's layout, create what is missing; the store's id.

        Raises:
            UnsupportedServer: The server is too old.
            WrongStore: It is another store than this object has seen before.
            NewerRecord: The layout was written by a newer Holdfast.
        """
        ...

    async def identity(self) -> str | None:
        """The store's id, None where nothing was ever opened; unlike `open`, it creates and checks nothing."""
        ...

    async def close(self) -> None:
        """Give up the connections."""
        ...

    async def weaknesses(self) -> Sequence[str]:
        """In which cases this store may lose what it acknowledged, one sentence each; none if it tells nothing of itself."""
        ...

    async def encrypted(self) -> bool:
        """Whether some of its payloads are encrypted: whoever has no cipher leaves it to those that have one."""
        ...

    async def now(self) -> int:
        """The store's clock, in integer milliseconds UTC."""
        ...
