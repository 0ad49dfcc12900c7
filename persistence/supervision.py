"""What supervision asks of a store: which conversation an actor hosts, what is postponed, and what is in trouble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.conversation.idempotency import IdempotencyRecord

TROUBLES = 1000
"""How many conversations in trouble a store names; the others are supervised all the same."""
TROUBLE_MS = 300_000
"""How long a trouble stands that nobody has met again: it ended without the sweeper, or moved on."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a conversation that needs attention cannot be taken up, and since when (ms UTC)."""

    conversation_id: str
    reason: str
    since: int


class Supervision(Protocol):
    """The verbs of a `Store` by which what hangs or fails is found, set aside and named."""

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        """What is known of these ids, beside the log; it needs neither the owner nor the state."""
        ...

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """Note which conversation an actor is about to take over, or that it hosts none, for whoever finds that it hangs."""
        ...

    async def hosted(self, actor: str) -> str | None:
        """The conversation that an actor hosts, as far as it has said so; None once it is deregistered."""
        ...

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        """Have a conversation that is overdue looked at again in `delay_ms`; its next write says anew when it must be.

        A conversation that needs no attention (any more), or of which there is nothing, leaves the index.
        """
        ...

    async def troubled(self, conversation_id: str, reason: str) -> int:
        """Note why a conversation cannot be taken up; since how many ms that is so."""
        ...

    async def untroubled(self, conversation_id: str) -> None:
        """Forget a conversation's trouble."""
        ...

    async def troubles(self) -> Sequence[Trouble]:
        """The conversations in trouble, the longest first; at most `TROUBLES`."""
        ...
