"""The store of conversations: on Redis or, for unit tests, in memory."""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

from .api_keys import AccessScope, ApiKey, ApiKeyList
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
from .lists import Census, ConversationRow, Due, Listing, Lists, Overdue, Rebuilt, Trouble
from .pausing import PAUSE_LAG_MS, Pause, Paused, Pausing
from .runs import Late, Run, Runs, RunStatus
from .store import ConversationsAndRuns, DirectoryAndRuns, Store
from .tallies import Survey, Tallies, Waiting
from .tickets import Ticket, TicketKind, Tickets

if TYPE_CHECKING:
    from .memory_store import MemoryStore
    from .opening import opened
    from .redis_store import RedisStore

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


__getattr__ = lazily(__name__, {"memory_store": ("MemoryStore",), "opening": ("opened",), "redis_store": ("RedisStore",)})
# `MemoryStore` is for tests, and commands start faster without it; the others import redis, which a client over HTTP lacks.
