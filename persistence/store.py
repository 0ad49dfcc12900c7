"""The protocol of a store, in Holdfast's own verbs.

Every method may raise `StoreUnavailable`; a write that raised it may or may not have happened (its outcome is unknown) and is
safe to repeat with the same ids. A read of a stored value may raise `CorruptStore`, or `NewerRecord` where a newer Holdfast
wrote the value. `RedisStore` and `MemoryStore` pass the same conformance suite.
"""

from typing import Protocol

from .api_keys import ApiKeys
from .changes import Changes
from .conversations import Conversations
from .directory import Directory
from .lists import Lists
from .quotas import QuotaStore
from .runs import Runs
from .tallies import Tallies
from .tickets import Tickets


class ConversationsAndRuns(Conversations, Runs, Protocol):
    """The part of a store that tells how the work of a conversation stands."""


class DirectoryAndRuns(Directory, Runs, Protocol):
    """The part of a store that tells which workers there are and what they have claimed."""


class Store(Conversations, Runs, Lists, Directory, Changes, Tallies, ApiKeys, Tickets, QuotaStore, Protocol):
    """The one place where conversations are kept.

    Where payloads are encrypted, every method that reads or writes a payload may raise `CipherMissing` or `CipherFailed`. Lists
    raise neither: a row, or the text of a problem, says in its place that it cannot be read.
    """
