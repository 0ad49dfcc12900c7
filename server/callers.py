"""From a request to its caller: by an API key, a token, a proxy's header or a session's cookie, before its body is read."""

import asyncio
import hashlib
import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from holdfast.client import AsyncClient
from holdfast.client.access import API_KEY, Access, ApiKey, TicketKind, fits
from holdfast.conversation import Principal, Proof
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.redaction import PLAIN
from holdfast.single_flight import SingleFlight

from .arrived import last_of, peer_of, without_port
from .authentication import Authentication
from .bounds import Bounds
from .caller import LOCAL, Caller
from .key_table import KeyTable
from .peers import network_of
from .rates import Rates
from .refusal import Refusal, too_often
from .sessions import cookie_of
from .tickets import PAGE_TOKEN, SECRET, Tickets
from .tokens import InvalidToken, Tokens

FRESH_S = 5
"""For how many seconds a verified key or token is taken as it is: so long after its revocation, a key is refused."""
MOST_VERIFIED = 4096
TICKET_LOOKS_PER_S = 20
"""How many new tickets a second are looked at of addresses that have failed too often: they stand in no list of all."""
MOST_LOOKING = 50
"""How many new credentials from one address are looked at at once: until they fail, they take nothing from its bucket."""
REQUEST_BYTES = 4 * 1024
"""How many bytes of a body count as one more request: reading so much takes about as long as one."""
REPLY_BYTES = 16 * 1024
"""How many bytes of a reply do."""
NOTED_MS = 3_600_000
"""How old (ms) the noted use of a key may be before it is noted again."""
LONGEST = 20_000
"""How many characters a header with credentials may have."""

logger = logging.getLogger("holdfast.server")


@dataclass(frozen=True, slots=True)
class _Verified:
    caller: Caller
    until: float


class Callers:
    """Who sends requests to one server process. Credentials are held as digests alone. `clock` gives seconds."""

    def __init__(
        self,
        client: AsyncClient,
        authentication: Authentication,
        tickets: Tickets,
        bounds: Bounds,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access: Access = client.access
        self._authentication = authentication
        self._tickets = tickets
        self._clock = clock
        self._tokens = None if authentication.issuer is None else Tokens(authentication.issuer)
        self._bounds = bounds
        self._rates = Rates(bounds.caller_per_s, bounds.caller_burst, clock=clock)
        self._failures = Rates(bounds.failures_per_s, bounds.failures_burst, clock=clock)
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._verifying: dict[bytes, SingleFlight[tuple[Caller, float]]] = {}
        self._looking: Counter[str | None] = Counter()
        self._table = KeyTable(self._access, clock=clock)
        self._looks = Rates(TICKET_LOOKS_PER_S, TICKET_LOOKS_PER_S, clock=clock)
        self._gone: OrderedDict[bytes, None] = OrderedDict()
        self._noting: set[asyncio.Task[None]] = set()

    async def of(self, scope: Scope, *, narrow: bool = False) -> Caller:
        """The caller of a request.

        Args:
            scope: The request's scope.
            narrow: Whether somebody may send it who may touch one conversation alone: whoever asks so looks at which it is.

        Raises:
            Refusal: Nobody known sends it, or it is one too many of them, or a page token is too narrow for it.
            HoldfastError: The store does not answer.
        """
        caller = LOCAL if self._authentication.anyone else await self._found(scope)
        if self._authentication.anyone:
            return caller
        if not narrow:
            caller.check_whole()
        if wait_s := self._rates.take(caller.account):
            raise self._too_often(caller, wait_s)
        return caller

    def charge(self, caller: Caller, count: int) -> None:
        """Count what one request does in place of as many more.

        Raises:
            Refusal: It is more than may be for the moment.
        """
        bounds = self._bounds
        count = min(count, bounds.caller_burst - 1)  # the request itself was counted, and counts again when it comes back
        if not self._authentication.anyone and count > 0 and (wait_s := self._rates.take(caller.account, count)):
            raise self._too_often(caller, wait_s + 1 / bounds.caller_per_s)

    def charge_bytes(self, caller: Caller, size_bytes: int) -> None:
        """Count the bytes of a body in place of as many more requests.

        Raises:
            Refusal: It is more than may be for the moment.
        """
        self.charge(caller, size_bytes // REQUEST_BYTES)

    def spend_bytes(self, caller: Caller, size_bytes: int) -> None:
        """Count the bytes of a reply in place of as many more requests; what is too much is owed by the next ones."""
        if not self._authentication.anyone:
            self._rates.spend(caller.account, size_bytes // REPLY_BYTES)

    def _too_often(self, caller: Caller, wait_s: float) -> Refusal:
        return too_often("rate_limited", f"{caller.principal.id!r} sends more requests than may be", wait_s)

    async def known(self, scope: Scope) -> Caller | None:
        """The caller of a request that may do without one; None where none is found."""
        try:
            return await self.of(scope)
        except HoldfastError:  # also where the store does not answer
            return None

    def is_proxy(self, address: str) -> bool:
        """Whether an address is one from which a known proxy connects."""
        return self._authentication.proxy.is_peer(address)

    async def stands(self, scope: Scope, caller: Caller) -> bool:
        """Whether a request that is still open would find the same caller again; so it is while the store does not answer."""
        if self._authentication.anyone:
            return True
        try:
            return await self._found(scope, again=True) == caller
        except Refusal as refusal:
            return refusal.status == 503  # noqa: PLR2004 - the provider's keys are not to be had
        except HoldfastError:
            return True

    async def of_key(self, scope: Scope, text: str) -> Caller:
        """The caller of an API key that a person has typed in.

        Raises:
            Refusal: It is none, or not any more, or too many were tried from there.
            HoldfastError: The store does not answer.
        """
        if API_KEY.fullmatch(text) is None:
            raise unauthenticated("this is no API key", bad=True)
        return await self._bearer(text, self.address_of(scope))

    def session_of(self, scope: Scope) -> str | None:
        """The value of the session's cookie that a request brings; None where there is none, or cookies do not count."""
        headers, arrived = Headers(scope=scope), scope["state"]["arrived"]
        if not arrived.ambient:
            return None
        found = cookie_parser("; ".join(headers.getlist("cookie"))[:LONGEST]).get(cookie_of(arrived.scheme, arrived.host))
        return found if found is not None and SECRET.fullmatch(found) else None

    async def sign_out(self, value: str) -> None:
        """End a session: here at once, on other servers within `FRESH_S`.

        Raises:
            HoldfastError: The store does not answer.
        """
        digest = _digest(TicketKind.SESSION, value)
        self._verified.pop(digest, None)
        self._forget(digest)
        await self._tickets.end(value)
        self._verified.pop(digest, None)  # a look that was under way may have found it

    async def _found(self, scope: Scope, *, again: bool = False) -> Caller:
        headers, arrived, proxy = Headers(scope=scope), scope["state"]["arrived"], self._authentication.proxy
        peer = peer_of(scope)
        payer = None if again else self.address_of(scope)  # a stream is not kept open by an empty bucket
        if given := headers.getlist("authorization"):
            kind, _, credential = given[0].partition(" ")
            if len(given) > 1 or kind.lower() != "bearer" or len(given[0]) > LONGEST:
                raise unauthenticated("send one header Authorization: Bearer, with an API key or a token")
            return await self._bearer(credential.strip(), payer)
        refusal: Refusal | None = None
        if arrived.ambient:
            try:
                if (caller := await self._signed_in(scope, payer)) is not None:
                    return caller
            except Refusal as error:  # a proxy may name somebody nevertheless
                refusal = error
            if proxy.token_header is not None and (token := _only(headers, proxy.token_header)):
                return await self._verify_token(token, Proof.PROXY, payer)
            if proxy.user_header is not None and proxy.is_peer(peer) and (name := _only(headers, proxy.user_header)):
                return self._named(name, headers)
        raise refusal or unauthenticated(
            "send an API key or a token as Authorization: Bearer; `holdfast keys create` makes a key"
        )

    async def _bearer(self, credential: str, payer: str | None) -> Caller:
        if found := API_KEY.fullmatch(credential):
            work, good = partial(self._by_key, found[1], found[2]), partial(self._table.has, found[1], found[2])
            return await self._verify(credential, Proof.KEY, payer, work, good)
        if found := PAGE_TOKEN.fullmatch(credential):
            return await self._by_ticket(TicketKind.PAGE, found[1], payer)
        if self._tokens is not None and credential.count(".") == 2:  # noqa: PLR2004 - as in a token
            return await self._verify_token(credential, Proof.OIDC, payer)
        raise unauthenticated("this is no API key of the server's, and no token that it takes", bad=True)

    async def _verify_token(self, token: str, proof: Proof, payer: str | None) -> Caller:
        return await self._verify(token, proof, payer, partial(self._by_token, token, proof), partial(self._holds, token))

    async def _verify(
        self,
        credential: str,
        sort: Proof | TicketKind,
        payer: str | None,
        work: Callable[[], Coroutine[Any, Any, tuple[Caller, float]]],
        good: Callable[[], Awaitable[bool]],
    ) -> Caller:
        """The caller of a credential, as verified a moment ago or now.

        A failure takes a token from the bucket of whom it comes from. Without one, what is tried from there costs no look of
        its own: let in are credentials that were taken before, and those that are `good` by what is looked up for all together.
        So failures of others keep nobody out.
        """
        digest = _digest(sort, credential)
        known = self._verified.get(digest)
        if known is not None and self._clock() < known.until:
            self._verified.move_to_end(digest)
            return known.caller
        fresh = payer if known is None else None
        if fresh is not None and (refusal := self._too_many(fresh, digest)) is not None:
            if not await good():
                raise refusal
            fresh = None
        flight, asked = self._verifying.get(digest), self._clock()
        if flight is None:
            flight = self._verifying[digest] = SingleFlight(work)
            self._looking[fresh] += 1
            flight.begin().add_done_callback(lambda _: self._looked(digest, fresh))
        try:
            caller, holds_s = await flight.result()
        except InvalidToken as error:
            self._verified.pop(digest, None)
            if sort is TicketKind.SESSION:
                self._forget(digest)
            if payer is not None:
                self._failures.take(payer)
            raise unauthenticated(f"the credential is not taken: {error}", bad=True) from None
        self._verified[digest] = _Verified(caller, asked + min(FRESH_S, holds_s))
        self._verified.move_to_end(digest)
        if len(self._verified) > MOST_VERIFIED:
            self._verified.popitem(last=False)
        return caller

    def _too_many(self, payer: str, digest: bytes) -> Refusal | None:
        """The refusal of one more credential that is to be looked at; None where it may be."""
        if wait_s := self._failures.wait_s(payer):
            return too_often("too_many_failures", "too many credentials from there were refused", wait_s)
        if self._looking[payer] >= MOST_LOOKING and digest not in self._verifying:
            return too_often("too_many_failures", "many credentials from there are looked at already", 1)
        return None

    def _looked(self, digest: bytes, payer: str | None) -> None:
        self._verifying.pop(digest, None)
        self._looking[payer] -= 1
        if not self._looking[payer]:
            del self._looking[payer]

    async def _by_key(self, key_id: str, secret: str) -> tuple[Caller, float]:
        key, now = await self._access.key(key_id), time.time()
        if key is None or not fits(key, secret):
            raise InvalidToken("there is no such key, or not any more")
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

    async def _by_token(self, token: str, proof: Proof) -> tuple[Caller, float]:
        if self._tokens is None:
            raise InvalidToken("no tokens are taken")
        caller, until = await self._tokens.caller(token, proof)
        return replace(caller, ends_at=round(until * 1000)), until - time.time()

    async def _holds(self, token: str) -> bool:
        return self._tokens is not None and self._tokens.holds(token)

    async def _by_ticket(self, kind: TicketKind, secret: str, payer: str | None) -> Caller:
        work = partial(self._tickets.caller, kind, secret)
        return await self._verify(secret, kind, payer, work, partial(self._is_ticket, kind, secret))

    async def _is_ticket(self, kind: TicketKind, secret: str) -> bool:
        """Whether a ticket stands, for addresses that have failed too often: so many looks a second, for all together."""
        if self._looks.take(None):
            return False
        try:
            await self._tickets.caller(kind, secret)
        except InvalidToken:
            return False
        return True

    async def _signed_in(self, scope: Scope, payer: str | None) -> Caller | None:
        """The caller of the session's cookie. One that has ended costs one look: browsers send it for a long time."""
        value = self.session_of(scope)
        if value is None or _digest(TicketKind.SESSION, value) in self._gone:
            return None
        return await self._by_ticket(TicketKind.SESSION, value, payer)

    def _forget(self, digest: bytes) -> None:
        """Remember that a session has ended: it never comes back."""
        self._gone[digest] = None
        if len(self._gone) > MOST_VERIFIED:
            self._gone.popitem(last=False)

    def _named(self, name: str, headers: Headers) -> Caller:
        proxy = self._authentication.proxy
        listed = _only(headers, proxy.roles_header) if proxy.roles_header is not None else None
        roles = tuple(dict.fromkeys(role.strip() for role in (listed or "").split(",") if role.strip()))
        try:
            principal = Principal(name, roles=roles, proof=Proof.PROXY).check_visible()
        except InvalidInput as error:
            raise unauthenticated(f"the proxy's headers name nobody: {error.problem}", bad=True) from None
        return Caller(principal, frozenset(proxy.scopes))

    def address_of(self, scope: Scope) -> str:
        """Whose bucket an attempt is on: the peer, or whom a known proxy speaks for; of IPv6 the network of one subscriber."""
        headers, peer = Headers(scope=scope), peer_of(scope)
        if self._authentication.proxy.is_peer(peer):
            peer = without_port(last_of(headers, "x-forwarded-for")) or peer
        return network_of(peer)

    def _note(self, key: ApiKey, now: int) -> None:
        """Note that a key was used, once an hour or so, without anybody waiting for it."""
        if key.used_at is not None and now - key.used_at < NOTED_MS:
            return
        if len(self._noting) >= 16:  # noqa: PLR2004 - the next use is noted as well
            return
        task = asyncio.create_task(_noted(self._access, key.key_id, now))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)


async def _noted(access: Access, key_id: str, now: int) -> None:
    try:
        await access.note_use(key_id, now)
    except HoldfastError as error:
        logger.warning("the use of the API key %s was not noted: %s", key_id, PLAIN.said(error, 300))


def unauthenticated(detail: str, *, bad: bool = False) -> Refusal:
    """The refusal of a request whose caller is not known; `bad` says that it had credentials."""
    challenge = 'Bearer realm="holdfast"' + (', error="invalid_token"' if bad else "")
    return Refusal(401, "unauthenticated", detail, headers={"WWW-Authenticate": challenge})


def _digest(sort: Proof | TicketKind, credential: str) -> bytes:
    return hashlib.sha256(f"{sort} {credential}".encode()).digest()


def _only(headers: Headers, name: str) -> str | None:
    """The value of a header that stands once; None where it is absent."""
    found = headers.getlist(name)
    if len(found) > 1 or any(len(value) > LONGEST for value in found):
        raise unauthenticated(f"the header {name} stands there more than once, or is too long", bad=True)
    return found[0].strip() if found else None
