"""The store in memory, for unit tests. It passes `RedisStore`'s conformance suite, with the same codec."""

from .memory_access import MemoryAccess
from .memory_conversations import MemoryConversations
from .memory_directory import MemoryDirectory
from .memory_lists import MemoryLists
from .memory_runs import MemoryRuns


class MemoryStore(MemoryConversations, MemoryRuns, MemoryLists, MemoryDirectory, MemoryAccess):
    """The verbs of `Store`, in this process's memory."""
