"""The ways to identify the caller of a request, one small object each. `create_app(authenticators=)` takes more of them.

An authenticator only reads the request and looks nothing up: `Callers` verifies the credential it found, keeps the result for a
moment, and bounds the number of attempts.
"""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from holdfast.background import Background
from holdfast.client.access import API_KEY, Access, ApiKey, TicketKind, fits
from holdfast.conversation import Principal, Proof
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.redaction import PLAIN
from holdfast.single_flight import SingleFlight

from .arrived import Arrived, peer_of
from .authentication import Proxy
from .caller import Caller
from .rates import Rates
from .refusal import Refusal
from .tickets import PAGE_TOKEN, SECRET, Tickets, cookie_of, digest_of
from .tokens import InvalidToken, Tokens

TICKET_LOOKS_PER_S = 20
"""Lookups of new tickets per second for addresses with too many failures: no table lists all tickets, as one does for keys."""
MOST_GONE = 4096
"""How many ended sessions are remembered."""
TABLE_S = 1.0
"""Seconds for which the table of the keys is kept."""
NOTED_MS = 3_600_000
"""The recorded use of a key is renewed once it is older than this (ms)."""
MOST_NOTING = 16
LONGEST = 20_000
"""The most characters of a header with credentials."""

logger = logging.getLogger("holdfast.server")

Verified: TypeAlias = tuple[Caller, float]
"""A caller, and the seconds for which the credential is still valid."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A request before its body is read.

    `peer` is the address from which it comes ('' if there is none), `bearer` the credential in its header `Authorization`.
    """

    headers: Headers
    arrived: Arrived
    peer: str
    bearer: str | None

    @classmethod
    def of(cls, scope: Scope) -> "Presented":
        """What a request presents; another header `Authorization` than one bearer is refused."""
        headers, bearer = Headers(scope=scope), None
        if given := headers.getlist("authorization"):
            kind, _, credential = given[0].partition(" ")
            if len(given) > 1 or kind.lower() != "bearer" or len(given[0]) > LONGEST:
                raise unauthenticated("send one header Authorization: Bearer, with an API key or a token")
            bearer = credential.strip()
        return cls(headers, scope["state"]["arrived"], peer_of(scope), bearer)

    @property
    def is_ambient(self) -> bool:
        """Whether cookies and proxy headers count. They do not beside a bearer."""
        return self.bearer is None and self.arrived.ambient

    def only(self, name: str) -> str | None:
        """The value of a header; None if it is absent. One that is repeated or too long is refused."""
        found = self.headers.getlist(name)
        if len(found) > 1 or any(len(value) > LONGEST for value in found):
            raise unauthenticated(f"the header {name} is repeated, or too long", bad=True)
        return found[0].strip() if found else None


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential that a request presents, and how to verify it.

    Attributes:
        sort: Tells it apart from a credential of another sort with the same text.
        text: The text; only its digest is kept.
        verified: Verifies it; raises `InvalidToken` if it is not valid.
        is_good: Whether it is valid by shared data, without a lookup of its own: asked for addresses with too many failures.
        or_next: Whether the next authenticator is asked if this credential is not valid.
    """

    sort: Hashable
    text: str
    verified: Callable[[], Coroutine[Any, Any, Verified]]
    is_good: Callable[[], Awaitable[bool]]
    or_next: bool = False


class Authenticator(Protocol):
    """One way to identify the caller of a request."""

    def found(self, request: Presented) -> Credential | Caller | None:
        """The credential that a request presents in this way; its caller if nothing is left to verify; None for neither."""


class ApiKeys:
    """API keys, as a bearer.

    A table of all keys, read at most once in `TABLE_S` and only on demand, tells good ones without a lookup for each.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._clock = time.monotonic
        self._table: Mapping[str, ApiKey] = {}
        self._read_at = float("-inf")
        self._reading = SingleFlight(self._read)
        self._noting = Background()

    def found(self, request: Presented) -> Credential | None:
        """See `Authenticator.found`."""
        return None if request.bearer is None else self.credential(request.bearer)

    def credential(self, text: str) -> Credential | None:
        """The credential in a text; None if the text is no API key."""
        if (parts := API_KEY.fullmatch(text)) is None:
            return None
        pair = parts[1], parts[2]
        return Credential(Proof.KEY, text, partial(self._verified, *pair), partial(self._has, *pair))

    async def _verified(self, key_id: str, secret: str) -> Verified:
        key, now = await self._access.key(key_id), time.time()
        if key is None or not fits(key, secret):
            raise InvalidToken("no such key exists, or it was revoked")
        holds_s = math.inf if key.expires_at is None else key.expires_at / 1000 - now
        if holds_s <= 0:
            raise InvalidToken("the key has expired")
        self._note(key, round(now * 1000))
        agents = None if key.agents is None else frozenset(key.agents)
        try:
            principal = Principal(key.name, roles=key.roles, proof=Proof.KEY).check_visible()
        except InvalidInput as error:
            raise InvalidToken(f"the key's holder cannot be a principal: {error.field}: {error.problem}") from None
        caller = Caller(principal, frozenset(key.scopes), agents, key_id=key.key_id, ends_at=key.expires_at, quotas=key.quotas)
        return caller, holds_s

    async def _has(self, key_id: str, secret: str) -> bool:
        """Whether the table has such a key. One that was made within the last second may be missing."""
        if self._clock() - self._read_at >= TABLE_S:
            await self._reading.result()
        key = self._table.get(key_id)
        return key is not None and fits(key, secret)

    async def _read(self) -> None:
        began = self._clock()
        self._table = {key.key_id: key for key in await self._access.keys()}
        self._read_at = began

    def _note(self, key: ApiKey, now: int) -> None:
        """Record that a key was used, about once an hour, without making the request wait."""
        if (key.used_at is not None and now - key.used_at < NOTED_MS) or len(self._noting) >= MOST_NOTING:
            return
        self._noting.start(self._noted(key.key_id, now))

    async def _noted(self, key_id: str, now: int) -> None:
        try:
            await self._access.note_use(key_id, now)
        except HoldfastError as error:
            logger.warning("the use of the API key %s was not noted: %s", key_id, PLAIN.said(error, 300))


class PageTokens:
    """The tokens of pages, as a bearer. Lookups of all tickets are limited for addresses with too many failures."""

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._looks = Rates(TICKET_LOOKS_PER_S, TICKET_LOOKS_PER_S)

    def found(self, request: Presented) -> Credential | None:
        """See `Authenticator.found`."""
        token = PAGE_TOKEN.fullmatch(request.bearer or "")
        return None if token is None else self.credential(TicketKind.PAGE, token[1])

    def credential(self, kind: TicketKind, secret: str) -> Credential:
        """The credential of a ticket's secret."""
        return Credential(kind, secret, partial(self._tickets.caller, kind, secret), partial(self._is_good, kind, secret))

    async def _is_good(self, kind: TicketKind, secret: str) -> bool:
        if self._looks.take(None):  # one budget of lookups a second for all addresses together
            return False
        try:
            await self._tickets.caller(kind, secret)
        except InvalidToken:
            return False
        return True


class SessionCookies:
    """The cookies of signed-in browsers. An ended session costs one lookup: browsers go on sending its cookie for long."""

    def __init__(self, pages: PageTokens) -> None:
        self._pages = pages
        self._gone: OrderedDict[str, None] = OrderedDict()

    def found(self, request: Presented) -> Credential | None:
        """See `Authenticator.found`."""
        value = self.value_of(request) if request.is_ambient else None
        if value is None or digest_of(value) in self._gone:
            return None
        ticket = self._pages.credential(TicketKind.SESSION, value)

        async def verified() -> Verified:
            try:
                return await ticket.verified()
            except InvalidToken:
                self.forget(value)
                raise

        return replace(ticket, verified=verified, or_next=True)

    def value_of(self, request: Presented) -> str | None:
        """The value of the session cookie; None if there is none."""
        arrived = request.arrived
        cookies = cookie_parser("; ".join(request.headers.getlist("cookie"))[:LONGEST])
        found = cookies.get(cookie_of(arrived.scheme, arrived.host))
        return found if found is not None and SECRET.fullmatch(found) else None

    def forget(self, value: str) -> None:
        """Remember that a session has ended; an ended session never comes back."""
        self._gone[digest_of(value)] = None
        if len(self._gone) > MOST_GONE:
            self._gone.popitem(last=False)


class IssuedTokens:
    """The tokens of an identity provider: as a bearer, or in the header of a proxy that signs in with it."""

    def __init__(self, tokens: Tokens, header: str | None) -> None:
        self._tokens = tokens
        self._header = header

    def found(self, request: Presented) -> Credential | None:
        """See `Authenticator.found`."""
        if request.bearer is not None:
            is_token = request.bearer.count(".") == 2  # noqa: PLR2004 - header, claims, signature
            return self._credential(request.bearer, Proof.OIDC) if is_token else None
        token = request.only(self._header) if self._header is not None and request.is_ambient else None
        return self._credential(token, Proof.PROXY) if token else None

    def _credential(self, token: str, proof: Proof) -> Credential:
        return Credential(proof, token, partial(self._verified, token, proof), partial(self._tokens.holds, token))

    async def _verified(self, token: str, proof: Proof) -> Verified:
        caller, until = await self._tokens.caller(token, proof)
        return replace(caller, ends_at=round(until * 1000)), until - time.time()


class ProxyHeaders:
    """The plain headers of a proxy that authenticates. They count only from its own addresses."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def found(self, request: Presented) -> Caller | None:
        """See `Authenticator.found`."""
        proxy = self._proxy
        if proxy.user_header is None or not request.is_ambient or not proxy.is_peer(request.peer):
            return None
        if not (name := request.only(proxy.user_header)):
            return None
        listed = request.only(proxy.roles_header) if proxy.roles_header is not None else None
        roles = tuple(dict.fromkeys(role.strip() for role in (listed or "").split(",") if role.strip()))
        try:
            principal = Principal(name, roles=roles, proof=Proof.PROXY).check_visible()
        except InvalidInput as error:
            raise unauthenticated(f"the proxy's headers name nobody: {error.problem}", bad=True) from None
        return Caller(principal, frozenset(proxy.scopes))


def unauthenticated(detail: str, *, bad: bool = False) -> Refusal:
    """The refusal of a request whose caller is unknown; `bad`: it had credentials."""
    challenge = 'Bearer realm="holdfast"' + (', error="invalid_token"' if bad else "")
    return Refusal(401, "unauthenticated", detail, headers={"WWW-Authenticate": challenge})
