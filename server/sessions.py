"""Browser sessions: the cookie of a sign-in, and the sign-in link, which works once and ends with its process."""

import hashlib
import secrets
import time
from collections.abc import Callable

from holdfast.client.access import TicketKind
from holdfast.errors import HoldfastError

from .caller import LOCAL, Caller
from .refusal import Refusal
from .tickets import Tickets

LINK_S = 3600
"""How long a link is valid, in seconds."""
SESSION_S = 12 * 3600
"""How long a session lasts at most, in seconds."""


class Sessions:
    """The link of one process, and the sessions, which are tickets. Only digests are kept. `clock` gives seconds."""

    def __init__(self, tickets: Tickets, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tickets = tickets
        self._clock = clock
        self._links: dict[str, float] = {}
        self._gives_links = False

    @property
    def linked(self) -> bool:
        """Whether this server issues links."""
        return self._gives_links

    def link(self) -> str:
        """The token of a new link, which replaces an earlier one."""
        token = secrets.token_urlsafe(32)
        self._links = {_digest(token): self._clock() + LINK_S}
        self._gives_links = True
        return token

    def check_link(self, token: str) -> None:
        """Refuse a link's token that is unknown, used or expired; a check does not use it up."""
        until = self._links.get(_digest(token), 0.0)  # by digest, so that the lookup time reveals nothing of the token
        if until <= self._clock():
            detail = "this link was used, or has expired, or was never made: start the server again for another one"
            raise Refusal(410, "link_used", detail)

    async def redeemed(self, token: str) -> str:
        """The cookie's value for a link's token. That uses the link up, unless the session cannot be stored.

        Raises:
            Refusal: The link is unknown, used or expired.
        """
        self.check_link(token)
        until = self._links.pop(_digest(token))  # before anything is awaited: a second request finds nothing
        try:
            return await self.opened(LOCAL)
        except HoldfastError:
            self._links.setdefault(_digest(token), until)
            raise

    async def opened(self, caller: Caller) -> str:
        """The cookie's value for a new session of a caller: fresh each time, so that nobody can plant it (session fixation).

        Raises:
            Refusal: The caller has opened too many lately.
        """
        self._tickets.check_rate(TicketKind.SESSION, caller.account)
        secret, _ = await self._tickets.issue(TicketKind.SESSION, caller, SESSION_S)
        return secret


def cookie_of(scheme: str, host: str) -> str:
    """The cookie's name. Browsers share cookies between all ports of a host, so without TLS the name contains the port."""
    if scheme == "https":
        return "__Host-holdfast"
    port = host.rpartition(":")[2]
    return f"holdfast-{port if port.isdecimal() else '80'}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
