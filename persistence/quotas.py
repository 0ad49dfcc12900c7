"""The use of quotas by API keys, counted in the store for a day from the first use on, across servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

WINDOW_MS = 24 * 3_600_000
"""How long (ms) use counts, from the first use on."""
NANOS = 1_000_000_000
"""Costs are counted in billionths of a US dollar."""
STARTS, CONVERSATIONS, TOKENS, COST = "starts_per_day", "conversations_per_day", "tokens_per_day", "cost_usd_per_day"


class Want(NamedTuple):
    """A request's use of a quota, and the quota's limit; a use of 0 asks whether anything is left."""

    quota: str
    amount: int
    most: int


@dataclass(frozen=True, slots=True)
class Used:
    """A key's use by quota, and when (ms UTC) it expires; all 0 if there was none of late."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    until: int = 0


class Exceeded(NamedTuple):
    """The quota that a request would exceed, its use so far, and when (ms UTC) that expires."""

    quota: str
    used: int
    until: int


class QuotaStore(Protocol):
    """The verbs of a `Store` on quotas."""

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        """Count a request's use, all or nothing: returns the first quota that it would exceed, None if it was counted.

        `request` makes this idempotent: a request counts once.
        """

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        """The use by each of these keys."""

    async def charge(self, conversation_id: str, key_id: str) -> None:
        """Charge the model calls of a conversation to a key; the first key named stays."""

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        """Count a model call for the conversation's key, if any. After `StoreUnavailable` a repetition may count it twice."""
