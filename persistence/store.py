"""What Holdfast asks of a store, in its own verbs.

Every method may raise `StoreUnavailable`; a write that raised it may or may not have happened (its outcome is unknown) and is
safe to repeat with the same ids. `RedisStore` and `MemoryStore` pass the same conformance suite
(`holdfast.testing.conformance`).
"""

from typing import Protocol

from .conversations import Conversations
from .directory import Directory
from .lists import Lists
from .runs import Runs


class Store(Conversations, Runs, Lists, Directory, Protocol):
    """The one place where conversations are kept.

    Where payloads are encrypted, whatever reads or writes one may raise `CipherMissing` or `CipherFailed`. Lists, and texts
    that say what is wrong, say so in its place.
    """
