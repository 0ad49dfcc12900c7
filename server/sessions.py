"""Browser sessions: the cookie of a sign-in, and the sign-in link, which works once and ends with its process."""

import secrets
import time

from holdfast.client.access import TicketKind
from holdfast.errors import HoldfastError

from .caller import LOCAL, Caller
from .refusal import Refusal
from .tickets import Tickets, digest_of

LINK_S = 3600
"""How long a link is valid, in seconds."""
SESSION_S = 12 * 3600
"""How long a session lasts at most, in seconds."""


class Sessions:
    """The link of one process, and the sessions, which are tickets. Only digests are kept."""

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._links: dict[str, float] = {}
        self.linked = False
        """Whether this server issues links."""

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
        self._tickets.check_rate(TicketKind.SESSION, caller.account)
        secret, _ = await self._tickets.issue(TicketKind.SESSION, caller, SESSION_S)
        return secret


def cookie_of(scheme: str, host: str) -> str:
    """The cookie's name. Browsers share cookies between all ports of a host, so without TLS the name contains the port."""
    if scheme == "https":
        return "__Host-holdfast"
    port = host.rpartition(":")[2]
    return f"holdfast-{port if port.isdecimal() else '80'}"
