"""The server under a store: opening, identity, closing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .codec import Payloads


class Database(Protocol):
    """The verbs of a `Store` that concern its server; most parts of a store have them.

    `url` is the server's; `store_id` is None until it is known; `payloads` encodes payloads, with the cipher if there is one.
    """

    namespace: str
    url: str
    store_id: str | None
    payloads: "Payloads"

    async def open(self) -> str:
        """Check the server and this namespace's layout, create what is missing, and return the store's id.

        Raises:
            UnsupportedServer: The server is too old.
            WrongStore: The server holds another store than this object has seen before.
            NewerRecord: The layout was written by a newer Holdfast.
            CorruptStore: The layout cannot be read, or has another number of buckets.
        """

    async def identity(self) -> str | None:
        """The store's id; None if no store was ever opened here. Creates and checks nothing."""

    async def close(self) -> None:
        """Close the connections."""

    async def weaknesses(self) -> Sequence[str]:
        """The ways in which this store may lose acknowledged writes, one sentence each; empty if its settings are hidden."""

    async def encrypted(self) -> bool:
        """Whether some payloads are encrypted: a process without a cipher leaves such a store alone."""

    async def now(self) -> int:
        """The store's clock, in integer milliseconds UTC."""
