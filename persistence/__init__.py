"""The store: where conversations are kept, on Redis or, for unit tests, in memory."""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

from .directory import EVERYWHERE, Binding
from .inspection import BrokenApp, Census, Overdue, Silent
from .pausing import PAUSE_LAG_MS, Pause, Paused
from .redis_store import RedisStore
from .store import (
    Acquired,
    Append,
    Appended,
    AppRecord,
    ConversationRow,
    Due,
    KnownIds,
    Late,
    Listing,
    Moved,
    Owner,
    Quarantine,
    Rebuilt,
    Run,
    RunStatus,
    Store,
    TakeoverReason,
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
    "Binding",
    "BrokenApp",
    "Census",
    "ConversationRow",
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
    "Run",
    "RunStatus",
    "Silent",
    "Store",
    "TakeoverReason",
    "Trouble",
]


__getattr__ = lazily(__name__, {"memory_store": ("MemoryStore",)})  # for tests; `holdfast pending` counts milliseconds
