"""Tickets: short-lived credentials of a caller, for a browser's session or a page. All servers share them."""

import hashlib
import math
import re
import secrets
import time
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

from holdfast.client.access import Access, Quotas, Ticket, TicketKind
from holdfast.errors import HoldfastError

from .caller import LOCAL, Caller
from .rates import Rates
from .refusal import Refusal, too_often
from .tokens import InvalidToken

SECRET = re.compile(r"[0-9a-f]{64}")
"""The secret of a ticket: 256 bits."""
PAGE_TOKEN = re.compile(r"hfp_([0-9a-f]{64})")
ISSUED: Mapping[TicketKind, tuple[float, float]] = MappingProxyType(
    {TicketKind.SESSION: (0.2, 20), TicketKind.PAGE: (20, 200), TicketKind.SIGNING_IN: (0.2, 20)}
)
"""The tickets of a kind that one holder gets, per second in the long run and at once: each takes room in the store."""

_KEPT, _SETS = ("principal", "conversation_id", "tree", "key_id", "maker"), ("scopes", "agents", "kinds")
"""The fields of a caller that its ticket has too: as they are, and sets as sorted tuples."""
LINK_S = 3600
SESSION_S = 12 * 3600


class Tickets:
    """The tickets of a namespace, as one server process issues and reads them, and the process's own sign-in link."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._links: dict[str, float] = {}
        self.linked = False
        """Whether this server issues links."""
        self._issued = {kind: Rates(per_s, burst) for kind, (per_s, burst) in ISSUED.items()}

    def check_rate(self, kind: TicketKind, holder: Hashable) -> None:
        """Refuse one more ticket if the holder has got too many."""
        if wait_s := self._issued[kind].take(holder):
            raise too_often("rate_limited", "too many sessions or tokens were requested", wait_s)

    async def issue(self, kind: TicketKind, caller: Caller, holds_s: float) -> tuple[str, Ticket]:
        """The secret of a new ticket for a caller, and the ticket. It ends no later than the caller's credential."""
        sets = {name: None if (one := getattr(caller, name)) is None else tuple(sorted(one)) for name in _SETS}
        return await self._put(kind, holds_s, caller.ends_at, **sets, **{name: getattr(caller, name) for name in _KEPT})

    async def begun(self, next_path: str, holds_s: float) -> str:
        """The secret of a new ticket for a browser that begins a sign-in."""
        secret, _ = await self._put(TicketKind.SIGNING_IN, holds_s, next_path=next_path)
        return secret

    async def _put(self, kind: TicketKind, holds_s: float, latest: int | None = None, **more: Any) -> tuple[str, Ticket]:
        now, secret = await self._access.now(), secrets.token_hex(32)
        ends_at = now + round(holds_s * 1000)
        until = ends_at if latest is None else min(ends_at, latest)
        ticket = Ticket(digest=digest_of(secret), kind=kind, created_at=now, expires_at=until, **more)
        await self._access.put_ticket(ticket)
        return secret, ticket

    async def used_up(self, secret: str) -> Ticket | None:
        """Use up the ticket of a sign-in, which only one caller gets; None if it is unknown or expired."""
        ticket = await self._access.ticket(digest_of(secret))
        if ticket is None or ticket.kind is not TicketKind.SIGNING_IN:
            return None
        return ticket if await self._access.remove_ticket(ticket.digest) else None

    async def caller(self, kind: TicketKind, secret: str) -> tuple[Caller, float]:
        """The caller of a ticket, and for how many seconds it is still valid; `InvalidToken` if it is not."""
        ticket, now = await self._access.ticket(digest_of(secret)), time.time() * 1000
        if ticket is None or ticket.kind is not kind or ticket.principal is None:
            raise InvalidToken("it has ended, or never existed")
        holds_ms: float = ticket.expires_at - now
        quotas: Quotas | None = None
        if ticket.key_id is not None:
            key = await self._access.key(ticket.key_id)
            if key is None or (key.expires_at is not None and key.expires_at <= now):
                raise InvalidToken("the API key that it came from was revoked, or has expired")
            quotas = key.quotas
            holds_ms = min(holds_ms, math.inf if key.expires_at is None else key.expires_at - now)
        sets: dict[str, Any] = {name: None if (one := getattr(ticket, name)) is None else frozenset(one) for name in _SETS}
        kept: dict[str, Any] = {name: getattr(ticket, name) for name in _KEPT}
        caller = Caller(**sets, **kept, ends_at=ticket.expires_at, quotas=quotas)
        return caller, max(holds_ms / 1000, 0.0)  # the store's clock decides when it ends; this one may be ahead

    async def end(self, secret: str) -> None:
        """End a ticket, on every server within seconds."""
        await self._access.remove_ticket(digest_of(secret))

    def link(self) -> str:
        """The token of a new link, which replaces an earlier one."""
        token = secrets.token_urlsafe(32)
        self._links = {digest_of(token): time.monotonic() + LINK_S}
        self.linked = True
        return token

    def check_link(self, token: str) -> None:
        """Refuse a link's token that is unknown, used or expired; a check does not use it up."""
        until = self._links.get(digest_of(token), 0.0)  # by digest, so that the lookup time reveals nothing of the token
        if until <= time.monotonic():
            detail = "this link was used, has expired, or never existed: start the server again for a new one"
            raise Refusal(410, "link_used", detail)

    async def redeemed(self, token: str) -> str:
        """The cookie's value for a link's token. That uses the link up, unless the session cannot be stored."""
        self.check_link(token)
        until = self._links.pop(digest_of(token))  # before anything is awaited: a second request finds nothing
        try:
            return await self.opened(LOCAL)
        except HoldfastError:
            self._links.setdefault(digest_of(token), until)
            raise

    async def opened(self, caller: Caller) -> str:
        """The cookie's value for a new session of a caller: fresh each time, so that nobody can plant it (session fixation)."""
        self.check_rate(TicketKind.SESSION, caller.account)
        secret, _ = await self.issue(TicketKind.SESSION, caller, SESSION_S)
        return secret


def cookie_of(scheme: str, host: str) -> str:
    """The cookie's name. Browsers share cookies between all ports of a host, so without TLS the name contains the port."""
    if scheme == "https":
        return "__Host-holdfast"
    port = host.rpartition(":")[2]
    return f"holdfast-{port if port.isdecimal() else '80'}"


def digest_of(secret: str) -> str:
    """The digest under which a ticket, or a link, is stored."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
