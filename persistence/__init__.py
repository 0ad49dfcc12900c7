"""The store: where conversations are kept, on Redis or, for unit tests, in memory."""

from typing import TYPE_CHECKING, Any

from .cipher import Cipher, CipherAt
from .directory import EVERYWHERE, Binding
from .inspection import BrokenApp, Census, Overdue, Silent
from .pausing import PAUSE_LAG_MS, Pause, Paused
from .redis_store import RedisStore
from .store import (
    Acquired,
    Append,
    Appended,
    AppRecord,
    Because,
    Due,
    KnownIds,
    Late,
    Listing,
    Moved,
    Owner,
    Quarantine,
    Rebuilt,
    Row,
    Run,
    RunStatus,
    Store,
)
from .supervision import Trouble

if TYPE_CHECKING:
    from .memory_store import MemoryStore

__all__ = [
    "EVERYWHERE",
    "PAUSE_LAG_MS",
    "Acquired",
    "AppRecord",
    "Append",
    "Appended",
    "Because",
    "Binding",
    "BrokenApp",
    "Census",
    "Cipher",
    "CipherAt",
    "Due",
    "KnownIds",
    "Late",
    "Listing",
    "MemoryStore",
    "Moved",
    "Overdue",
    "Owner",
    "Pause",
    "Paused",
    "Quarantine",
    "Rebuilt",
    "RedisStore",
    "Row",
    "Run",
    "RunStatus",
    "Silent",
    "Store",
    "Trouble",
]


def __getattr__(name: str) -> Any:
    if name == "MemoryStore":  # only tests need it, and `holdfast pending` counts milliseconds
        from .memory_store import MemoryStore  # noqa: PLC0415 - see above

        return MemoryStore
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
