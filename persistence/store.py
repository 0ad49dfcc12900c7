"""The protocol of a store, in Holdfast's own verbs.

Every method may raise `StoreUnavailable`; a write that raised it may or may not have happened (its outcome is unknown) and is
safe to repeat with the same ids. A read of a stored value may raise `CorruptStore`, or `NewerRecord` for a value that a newer
Holdfast wrote. `RedisStore` and `MemoryStore` pass the same conformance suite.
"""

from typing import Protocol

from .access import ApiKeys, QuotaStore, Tickets
from .changes import Changes
from .conversations import Conversations
from .directory import Directory
from .lists import Lists, Tallies
from .outbox import Outbox
from .presence import Presence
from .runs import Runs


class ConversationsAndRuns(Conversations, Runs, Protocol):
    """The part of a store that knows conversations and their work."""


class DirectoryAndRuns(Directory, Runs, Protocol):
    """The part of a store that knows the workers and their claims."""


class Store(Conversations, Runs, Lists, Directory, Changes, Tallies, ApiKeys, Tickets, QuotaStore, Outbox, Presence, Protocol):
    """The one place where conversations are kept.

    If payloads are encrypted, every method that reads or writes one may raise `CipherMissing` or `CipherFailed`. Lists raise
    neither: an unreadable row or problem says so in its place.
    """
