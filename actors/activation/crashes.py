"""The crash count: processes that died of a conversation's work, and unrecordable outcomes, since its log last got further."""

import logging
import uuid
from typing import Protocol

from holdfast.errors import StoreError
from holdfast.persistence import Blame, Conversations, Runs
from holdfast.redaction import PLAIN

logger = logging.getLogger("holdfast.actor")


class ConversationsAndRuns(Conversations, Runs, Protocol):
    """The part of a store that counts crashes, and knows how many claims a process had."""


class Crashes:
    """The crash count of one conversation, as this activation last heard it; the store keeps the count.

    Args:
        store: The store, which counts the strikes.
        conversation_id: The conversation that the strikes count against.
        allowed: The crash count at which the conversation is put in quarantine.
    """

    def __init__(self, store: ConversationsAndRuns, conversation_id: str, *, allowed: int) -> None:
        self.blame = Blame()
        self._store = store
        self._conversation_id = conversation_id
        self._allowed = allowed

    async def add(self, token: str, what: str, *, process: str | None = None, limit: int | None = None) -> bool:
        """Count a strike; true if that put the conversation in quarantine. The death of one process counts once."""
        what = PLAIN.redacted(what)
        logger.warning("conversation %s: %s", self._conversation_id, what)
        limit = self._allowed if limit is None else limit
        try:
            claims = await self._store.company(process) if process is not None else 1
            blame = await self._store.strike(
                self._conversation_id, token, process=process or uuid.uuid4().hex, reason=what, limit=limit, claims=claims
            )
        except StoreError as error:
            logger.warning("conversation %s: a strike is not counted: %s", self._conversation_id, error)
            return False
        if blame is None:
            logger.warning("conversation %s is in quarantine: %s", self._conversation_id, what)
            return True
        self.blame = blame
        return False
