"""Tickets: short-lived proofs of identity, stored under the digests of their secrets, never the secrets."""

from enum import StrEnum
from typing import Protocol

from pydantic import Field

from holdfast.conversation import Principal, SuspensionKind
from holdfast.conversation.record import Record

from .api_keys import AccessScope


class TicketKind(StrEnum):
    """The purpose of a ticket, the only one for which it is valid."""

    SESSION = "session"  # a signed-in browser
    PAGE = "page"  # a page of an application, for one conversation
    SIGNING_IN = "signing_in"  # a browser on its way to the identity provider and back


class Ticket(Record):
    """One ticket. Times in integer milliseconds UTC.

    It is stored under `digest`, the SHA-256 (hexadecimal) of a secret of 256 random bits. `principal` is the identity that it
    proves, and how that was proven; None before the sign-in. `scopes` are what it allows; `agents`, `conversation_id` and
    `kinds` (of suspensions to decide) narrow that, None being no bound. `key_id` is the API key without which it is invalid, if
    any. `maker` made a page's ticket: an API key by its id, or a principal with how it was proven. `next_path` is where the
    browser goes after the sign-in. The store forgets the ticket at `expires_at`.
    """

    digest: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    kind: TicketKind
    principal: Principal | None = None
    scopes: tuple[AccessScope, ...] = ()
    agents: tuple[str, ...] | None = None
    conversation_id: str | None = None
    kinds: tuple[SuspensionKind, ...] | None = None
    key_id: str | None = None
    maker: str = ""
    next_path: str = ""
    created_at: int
    expires_at: int


class Tickets(Protocol):
    """The verbs of a `Store` on tickets."""

    async def put_ticket(self, ticket: Ticket) -> None:
        """Store a ticket under its digest, until it expires by the store's clock."""

    async def ticket(self, digest: str) -> Ticket | None:
        """The ticket of that digest; None if there is none (any more)."""

    async def remove_ticket(self, digest: str) -> bool:
        """Remove a ticket. True for at most one caller; for none if the reply to the removal is lost."""
