"""Sessions of browsers: the cookie that signing in leads to, and the link that works once, which ends with its process."""

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
"""How long a link waits to be used, in seconds."""
SESSION_S = 12 * 3600
"""How long a session lasts at most, in seconds."""


class Sessions:
    """The link of one process, and sessions, which are tickets; it holds digests alone. `clock` gives seconds."""

    def __init__(self, tickets: Tickets, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tickets = tickets
        self._clock = clock
        self._links: dict[str, float] = {}
        self._gives_links = False

    @property
    def linked(self) -> bool:
        """Whether this server gives out a link."""
        return self._gives_links

    def link(self) -> str:
        """The token of a new link, which takes the place of an earlier one."""
        token = secrets.token_urlsafe(32)
        self._links = {_digest(token): self._clock() + LINK_S}
        self._gives_links = True
        return token

    def check_link(self, token: str) -> None:
        """Return if a link's token may be redeemed; that uses nothing up.

        Raises:
            Refusal: There is no such link, or not any more.
        """
        until = self._links.get(_digest(token), 0.0)  # digests: how long the look takes says nothing of the token
        if until <= self._clock():
            detail = "this link was used, or has expired, or was never made: start the server again for another one"
            raise Refusal(410, "link_used", detail)

    async def redeemed(self, token: str) -> str:
        """The cookie's value for a link's token, which is used up by that.

        Raises:
            Refusal: There is no such link, or not any more.
            HoldfastError: The session could not be stored; the link may be used again.
        """
        self.check_link(token)
        until = self._links.pop(_digest(token))  # before anything is awaited: who redeems it as well finds nothing
        try:
            return await self.opened(LOCAL)
        except HoldfastError:
            self._links.setdefault(_digest(token), until)
            raise

    async def opened(self, caller: Caller) -> str:
        """The cookie's value for a new session of a caller: a fresh one each time, so that nobody knows it beforehand.

        Raises:
            Refusal: The caller has opened too many of late.
            HoldfastError: The session could not be stored.
        """
        self._tickets.check_rate(TicketKind.SESSION, caller.account)
        secret, _ = await self._tickets.issue(TicketKind.SESSION, caller, SESSION_S)
        return secret


def cookie_of(scheme: str, host: str) -> str:
    """The cookie's name. Browsers give a cookie to every port of a host, so that without TLS the name has the port."""
    if scheme == "https":
        return "__Host-holdfast"
    port = host.rpartition(":")[2]
    return f"holdfast-{port if port.isdecimal() else '80'}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
