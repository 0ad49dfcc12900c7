"""The store: where conversations are kept, on Redis or, for unit tests, in memory."""

from .memory_store import MemoryStore
from .redis_store import RedisStore
from .store import (
    Acquired,
    Append,
    Appended,
    AppRecord,
    Because,
    Binding,
    Due,
    KnownIds,
    Listing,
    Moved,
    Owner,
    Row,
    Run,
    RunStatus,
    Store,
)

__all__ = [
    "Acquired",
    "AppRecord",
    "Append",
    "Appended",
    "Because",
    "Binding",
    "Due",
    "KnownIds",
    "Listing",
    "MemoryStore",
    "Moved",
    "Owner",
    "RedisStore",
    "Row",
    "Run",
    "RunStatus",
    "Store",
]
