"""Tickets as a store keeps them: short-lived proofs of who calls, under the digests of their secrets, never the secrets."""

from enum import StrEnum
from typing import Protocol

from pydantic import Field

from holdfast.conversation import Principal, SuspensionKind
from holdfast.conversation.record import Record

from .api_keys import AccessScope


class TicketKind(StrEnum):
    """What a ticket is for. One of another kind does not count."""

    SESSION = "session"  # a browser in which somebody has signed in
    PAGE = "page"  # a page of an application, for one conversation
    SIGNING_IN = "signing_in"  # a browser that was sent to the identity provider, and is to come back


class Ticket(Record):
    """One ticket. Times in integer milliseconds UTC.

    Attributes:
        digest: The SHA-256 of the secret, in hexadecimal, under which the ticket is found. The secret has 256 random bits.
        kind: What the ticket is for.
        principal: Whoever acts with it, and how that was proven; None while nobody has signed in.
        scopes: What the ticket allows.
        agents: The agents whose conversations may be touched; None for all.
        conversation_id: The one conversation that may be touched; None for all.
        kinds: What the ticket may decide, by what the calls wait for; None for all.
        key_id: The API key from which the ticket came, and without which it does not count; None if it came from none.
        maker: Who made a page's ticket: an API key by its id, or a principal with how it was proven.
        next_path: Where the browser goes once somebody has signed in.
        created_at: When the ticket was made.
        expires_at: When the store forgets it.
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
        """The ticket of that digest; None if there is none, or not any more."""

    async def remove_ticket(self, digest: str) -> bool:
        """Remove a ticket. True for one caller at most: where the reply to a removal is lost, for nobody."""
