"""What API keys have used of their quotas: counted for a day from the first use on, in the store, whatever server it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

WINDOW_MS = 24 * 3_600_000
"""How long (ms) what was used counts, from the first of it on."""
NANOS = 1_000_000_000
"""A cost is counted in billionths of a US dollar."""
STARTS, CONVERSATIONS, TOKENS, COST = "starts_per_day", "conversations_per_day", "tokens_per_day", "cost_usd_per_day"


class Want(NamedTuple):
    """What a request would use of a quota, and the most that may be used; 0 asks that there is something left."""

    quota: str
    amount: int
    most: int


@dataclass(frozen=True, slots=True)
class Used:
    """What a key has used by quota, and when (ms UTC) that is over; all of it is 0 where nothing was used of late."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    until: int = 0


class Exceeded(NamedTuple):
    """The quota that a request would exceed, what was used of it, and when (ms UTC) that is over."""

    quota: str
    used: int
    until: int


class QuotaStore(Protocol):
    """The verbs of a `Store` on quotas."""

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        """Count what a request uses, all of it or nothing: the first quota that does not allow it, None if all do.

        A request that was counted is counted once: `request` names it.
        """

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        """What each of these keys has used."""

    async def charge(self, conversation_id: str, key_id: str) -> None:
        """Have the model calls of a conversation count for a key; the first one that is named stays."""

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        """Count a model call for the key that the conversation is charged to, if there is one.

        After `StoreUnavailable` it may have been counted: who says it again may count it twice.
        """
