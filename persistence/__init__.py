"""The store of conversations: on Redis or, for unit tests, in memory."""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

from .access import AccessScope, ApiKey, ApiKeyList, Ticket, TicketKind, Tickets
from .app_record import AppRecord
from .changes import Change, ChangePage, Changes, Place, Suspended
from .conversations import (
    Acquired,
    Append,
    Appended,
    Blame,
    Conversations,
    Finding,
    KnownIds,
    Look,
    Moved,
    Owner,
    Quarantine,
    Takeover,
    TakeoverReason,
)
from .directory import EVERYWHERE, Binding, BrokenApp, Directory, Living
from .lists import (
    PAUSE_LAG_MS,
    Census,
    ConversationRow,
    Due,
    Listing,
    Lists,
    Overdue,
    Pause,
    Paused,
    Pausing,
    Rebuilt,
    Survey,
    Tallies,
    Trouble,
    Waiting,
)
from .runs import Late, Run, Runs, RunStatus
from .store import ConversationsAndRuns, DirectoryAndRuns, Store

if TYPE_CHECKING:
    from .memory_store import MemoryStore
    from .redis_store import RedisStore, opened

__all__ = [
    "EVERYWHERE",
    "PAUSE_LAG_MS",
    "AccessScope",
    "Acquired",
    "ApiKey",
    "ApiKeyList",
    "AppRecord",
    "Append",
    "Appended",
    "Binding",
    "Blame",
    "BrokenApp",
    "Census",
    "Change",
    "ChangePage",
    "Changes",
    "ConversationRow",
    "Conversations",
    "ConversationsAndRuns",
    "Directory",
    "DirectoryAndRuns",
    "Due",
    "Finding",
    "KnownIds",
    "Late",
    "Listing",
    "Lists",
    "Living",
    "Look",
    "MemoryStore",
    "Moved",
    "Overdue",
    "Owner",
    "Pause",
    "Paused",
    "Pausing",
    "Place",
    "Quarantine",
    "Rebuilt",
    "RedisStore",
    "Run",
    "RunStatus",
    "Runs",
    "Store",
    "Survey",
    "Suspended",
    "Takeover",
    "TakeoverReason",
    "Tallies",
    "Ticket",
    "TicketKind",
    "Tickets",
    "Trouble",
    "Waiting",
    "opened",
]


__getattr__ = lazily(__name__, {"memory_store": ("MemoryStore",), "redis_store": ("RedisStore", "opened")})
# `MemoryStore` is for tests, and commands start faster without it; the others import redis, which a client over HTTP lacks.
