"""From a request to its caller, before its body is read: credentials are verified, and the result is kept for a moment."""

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence

from starlette.datastructures import Headers
from starlette.types import Scope

from holdfast.client import AsyncClient
from holdfast.client.access import TicketKind
from holdfast.errors import HoldfastError
from holdfast.single_flight import SingleFlight

from .arrived import last_of, network_of, peer_of, without_port
from .authentication import Authentication
from .authenticators import (
    ApiKeys,
    Authenticator,
    Credential,
    IssuedTokens,
    PageTokens,
    Presented,
    ProxyHeaders,
    SessionCookies,
    Verified,
    unauthenticated,
)
from .bounds import Bounds
from .caller import LOCAL, Caller
from .rates import Rates
from .refusal import Refusal, too_often
from .tickets import Tickets
from .tokens import InvalidToken, Tokens

FRESH_S = 5
"""Seconds for which a verified credential is trusted; a revoked key is refused at the latest after that."""
MOST_VERIFIED = 4096
MOST_LOOKING = 50
"""How many new credentials of one address are verified at once: they take nothing from its bucket until they fail."""
REQUEST_BYTES = 4 * 1024
"""Bytes of a body that count as one more request: reading them takes about as long as one."""
REPLY_BYTES = 16 * 1024
"""Bytes of a reply that count as one more request."""


class Callers:
    """The callers of one server process. Only digests of credentials are kept."""

    def __init__(
        self,
        client: AsyncClient,
        authentication: Authentication,
        tickets: Tickets,
        bounds: Bounds,
        authenticators: Sequence[Authenticator],
    ) -> None:
        self._authentication = authentication
        self._tickets = tickets
        self._clock = time.monotonic
        pages, issuer, proxy = PageTokens(tickets), authentication.issuer, authentication.proxy
        self._keys, self._cookies = ApiKeys(client.access), SessionCookies(pages)
        issued = [] if issuer is None else [IssuedTokens(Tokens(issuer), proxy.token_header)]
        own: list[Authenticator] = [self._keys, pages, self._cookies, *issued, ProxyHeaders(proxy)]
        self._chain = [*own, *authenticators]
        self._bounds = bounds
        self._rates = Rates(bounds.caller_per_s, bounds.caller_burst)
        self._failures = Rates(bounds.failures_per_s, bounds.failures_burst)
        self._verified: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()  # with the time until which it is trusted
        self._verifying: dict[bytes, SingleFlight[Verified]] = {}
        self._looking: Counter[str | None] = Counter()

    async def of(self, scope: Scope, *, narrow: bool = False) -> Caller:
        """The caller of a request. With `narrow`, a page token is accepted, and the code that asks checks its conversation."""
        if self._authentication.anyone:
            return LOCAL
        caller = await self._found(scope)
        if not narrow:
            caller.check_whole()
        if wait_s := self._rates.take(caller.account):
            raise self._too_often(caller, wait_s)
        return caller

    def charge(self, caller: Caller, count: int) -> None:
        """Charge a caller for work that counts as so many more requests; refuse it if that is too much for the moment."""
        bounds = self._bounds
        count = min(count, bounds.caller_burst - 1)  # the request itself is counted already, and again when repeated
        if not self._authentication.anyone and count > 0 and (wait_s := self._rates.take(caller.account, count)):
            raise self._too_often(caller, wait_s + 1 / bounds.caller_per_s)

    def spend_bytes(self, caller: Caller, size_bytes: int) -> None:
        """Charge a caller for the bytes of a reply. What exceeds the bucket is owed by the next requests."""
        if not self._authentication.anyone:
            self._rates.spend(caller.account, size_bytes // REPLY_BYTES)

    def _too_often(self, caller: Caller, wait_s: float) -> Refusal:
        return too_often("rate_limited", f"{caller.principal.id!r} sends too many requests", wait_s)

    async def known(self, scope: Scope) -> Caller | None:
        """The caller of a request that needs no credentials; None if it has no valid ones."""
        try:
            return await self.of(scope)
        except HoldfastError:  # also if the store does not answer
            return None

    def is_proxy(self, address: str) -> bool:
        """Whether a known proxy connects from this address."""
        return self._authentication.proxy.is_peer(address)

    async def stands(self, scope: Scope, caller: Caller) -> bool:
        """Whether an open request would still have the same caller; True while the store does not answer."""
        if self._authentication.anyone:
            return True
        try:
            return await self._found(scope, again=True) == caller
        except Refusal as refusal:
            return refusal.status == 503  # noqa: PLR2004 - the provider's keys cannot be fetched now
        except HoldfastError:
            return True

    async def of_key(self, scope: Scope, text: str) -> Caller:
        """The caller of an API key that a person typed in."""
        if (credential := self._keys.credential(text)) is None:
            raise unauthenticated("this is no API key", bad=True)
        return await self._verify(credential, self.address_of(scope))

    def session_of(self, scope: Scope) -> str | None:
        """The session cookie of a request; None if there is none, or cookies do not count."""
        arrived = scope["state"]["arrived"]
        request = Presented(Headers(scope=scope), arrived, peer_of(scope), None)
        return self._cookies.value_of(request) if arrived.ambient else None

    async def sign_out(self, value: str) -> None:
        """End a session: here at once, on other servers within `FRESH_S`."""
        digest = _digest(TicketKind.SESSION, value)
        self._verified.pop(digest, None)
        self._cookies.forget(value)
        await self._tickets.end(value)
        self._verified.pop(digest, None)  # a verification that was under way may have stored it

    async def _found(self, scope: Scope, *, again: bool = False) -> Caller:
        request = Presented.of(scope)
        payer = None if again else self.address_of(scope)  # an empty bucket must not keep a stream open
        refusal: Refusal | None = None
        for authenticator in self._chain:
            found = authenticator.found(request)
            if isinstance(found, Caller):
                return found
            if found is None:
                continue
            try:
                return await self._verify(found, payer)
            except Refusal as error:
                if not found.or_next:
                    raise
                refusal = error
        if request.bearer is not None:
            raise unauthenticated("this is neither an API key of this server nor a token that it accepts", bad=True)
        raise refusal or unauthenticated(
            "send an API key or a token as Authorization: Bearer; `holdfast keys create` makes a key"
        )

    async def _verify(self, credential: Credential, payer: str | None) -> Caller:
        """The caller of a credential, verified now or a moment ago.

        A failure takes a token from the address's bucket. While the bucket is empty, no attempt from that address gets a lookup
        of its own; credentials accepted before, or known to be good by shared data, are still let in. So failures of others
        behind the same address lock nobody out.
        """
        digest = _digest(credential.sort, credential.text)
        known = self._verified.get(digest)
        if known is not None and self._clock() < known[1]:
            self._verified.move_to_end(digest)
            return known[0]
        fresh = payer if known is None else None
        if fresh is not None and (refusal := self._too_many(fresh, digest)) is not None:
            if not await credential.is_good():
                raise refusal
            fresh = None
        flight, asked = self._verifying.get(digest), self._clock()
        if flight is None:
            flight = self._verifying[digest] = SingleFlight(credential.verified)
            self._looking[fresh] += 1
            flight.begin().add_done_callback(lambda _: self._looked(digest, fresh))
        try:
            caller, holds_s = await flight.result()
        except InvalidToken as error:
            self._verified.pop(digest, None)
            if payer is not None:
                self._failures.take(payer)
            raise unauthenticated(f"the credential is not accepted: {error}", bad=True) from None
        self._verified[digest] = caller, asked + min(FRESH_S, holds_s)
        self._verified.move_to_end(digest)
        if len(self._verified) > MOST_VERIFIED:
            self._verified.popitem(last=False)
        return caller

    def _too_many(self, payer: str, digest: bytes) -> Refusal | None:
        """The refusal of one more credential to be verified; None if it may be."""
        if wait_s := self._failures.wait_s(payer):
            return too_often("too_many_failures", "too many credentials from this address were refused", wait_s)
        if self._looking[payer] >= MOST_LOOKING and digest not in self._verifying:
            return too_often("too_many_failures", "too many credentials from this address are being verified", 1)
        return None

    def _looked(self, digest: bytes, payer: str | None) -> None:
        self._verifying.pop(digest, None)
        self._looking[payer] -= 1
        if not self._looking[payer]:
            del self._looking[payer]

    def address_of(self, scope: Scope) -> str:
        """The address whose bucket pays: the peer, or the client of a known proxy; for IPv6 a subscriber's network."""
        headers, peer = Headers(scope=scope), peer_of(scope)
        if self._authentication.proxy.is_peer(peer):
            peer = without_port(last_of(headers, "x-forwarded-for")) or peer
        return network_of(peer)


def _digest(sort: Hashable, credential: str) -> bytes:
    return hashlib.sha256(f"{sort} {credential}".encode()).digest()
