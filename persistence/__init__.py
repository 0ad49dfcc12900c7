"""The store of conversations: on Redis or, for unit tests, in memory.

Names are imported at their first use: those of the store on Redis import redis, which a client over HTTP lacks.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

if TYPE_CHECKING:
    from .access import *  # noqa: F403 - the table below lists the names
    from .app_record import *  # noqa: F403 - the table below lists the names
    from .changes import *  # noqa: F403 - the table below lists the names
    from .conversations import *  # noqa: F403 - the table below lists the names
    from .directory import *  # noqa: F403 - the table below lists the names
    from .lists import *  # noqa: F403 - the table below lists the names
    from .memory_store import *  # noqa: F403 - the table below lists the names
    from .outbox import *  # noqa: F403 - the table below lists the names
    from .redis_store import *  # noqa: F403 - the table below lists the names
    from .runs import *  # noqa: F403 - the table below lists the names
    from .store import *  # noqa: F403 - the table below lists the names

__getattr__ = lazily(
    __name__,
    {
        "access": ("AccessScope", "ApiKey", "ApiKeyList", "Ticket", "TicketKind", "Tickets"),
        "app_record": ("AppRecord",),
        "changes": ("Change", "ChangePage", "Changes", "Place", "Suspended"),
        "conversations": (
            *("Acquired", "Append", "Appended", "Blame", "Conversations", "KnownIds", "Moved", "Owner"),
            *("Quarantine", "Takeover", "TakeoverReason", "Visited"),
        ),
        "directory": ("Binding", "BrokenApp", "Directory", "EVERYWHERE", "Living", "OpenBreakers"),
        "lists": (
            *("Census", "ConversationRow", "Due", "Listing", "Lists", "Overdue", "PAUSE_LAG_MS", "Pause", "Paused", "Pausing"),
            *("Rebuilt", "Survey", "Tallies", "Trouble", "Waiting"),
        ),
        "memory_store": ("MemoryStore",),
        "outbox": (
            "Lane",
            "Leased",
            "Leases",
            "Outbox",
            "OutboxFigures",
            "OutboxRow",
            "OutboxState",
            "OwedFigures",
            "TRIED_MS",
            "Verdict",
        ),
        "redis_store": ("RedisStore", "opened"),
        "runs": ("Late", "Run", "RunStatus", "Runs"),
        "store": ("ConversationsAndRuns", "DirectoryAndRuns", "Store"),
    },
)
