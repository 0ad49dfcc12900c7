"""Sessions of people at this machine: a link that works once, and the cookie that it leads to. They end with the process."""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from .refusal import Refusal

LINK_S = 3600
"""How long a link waits to be used, in seconds."""
SESSION_S = 12 * 3600
"""How long a session lasts, in seconds."""
MOST = 100
"""How many sessions there are at most; the oldest one ends first."""


class Sessions:
    """The link and the sessions of one process; it holds digests alone. `clock` gives seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[str, float] = {}
        self._sessions: OrderedDict[str, float] = OrderedDict()

    def link(self) -> str:
        """The token of a new link, which takes the place of an earlier one."""
        token = secrets.token_urlsafe(32)
        self._links = {_digest(token): self._clock() + LINK_S}
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

    def redeemed(self, token: str) -> str:
        """The cookie's value for a link's token, which is used up by that.

        Raises:
            Refusal: There is no such link, or not any more.
        """
        self.check_link(token)
        del self._links[_digest(token)]
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = self._clock() + SESSION_S
        if len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        return value

    def stands(self, value: str) -> bool:
        """Whether the value of a cookie is that of a session which has not ended."""
        return self._sessions.get(_digest(value), 0.0) > self._clock()


def cookie_of(scheme: str, host: str) -> str:
    """The cookie's name. Browsers give a cookie to every port of a host, so that without TLS the name has the port."""
    if scheme == "https":
        return "__Host-holdfast"
    port = host.rpartition(":")[2]
    return f"holdfast-{port if port.isdecimal() else '80'}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
