"""Tokens of an identity provider (JWT): verified with its public keys, and read for the caller and their permissions.

The keys are fetched at first use, kept, and fetched again for an unknown key.
"""

import base64
import binascii
import hmac
import math
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import httpx
from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError, SecurityWarning

from holdfast.client.access import AccessScope
from holdfast.conversation import Principal, Proof
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput

from .authentication import Issuer
from .caller import Caller
from .discovery import AGAIN_S, KEEP_S, Fetched, connected, document_of, json_of, place_in
from .refusal import Refusal

LONGEST = 16_384
LEEWAY_S = 30
"""The tolerated difference between the clocks of the issuer and of this machine, in seconds."""
TYPES = ("", "jwt", "at+jwt", "application/at+jwt")
"""The accepted types of tokens: those that identify a caller, unlike a logout token."""
STALE_S = 24 * 3600
"""How long old keys are accepted while new ones cannot be fetched, in seconds."""
MOST_KEYS = 100
SHORTEST_RSA_BITS = 2048
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_MAIL = re.compile(r"(.*[./:]|)email")
"""A claim with an e-mail address, also within an object or a namespace; `email_verified` stands beside it."""


class InvalidToken(Exception):
    """A token that is not accepted; the text says why, and reveals nothing of the token."""


class KeySet:
    """The keys of one issuer. `clock` gives seconds, `connected` the HTTP client."""

    def __init__(
        self,
        issuer: Issuer,
        *,
        clock: Callable[[], float] = time.monotonic,
        connected: Callable[[], httpx.AsyncClient] = connected,
    ) -> None:
        self._issuer = issuer
        failure = f"the keys of {issuer.url} cannot be fetched"
        self._keys = Fetched(self._fetch, failure, clock=clock, connected=connected)

    async def key(self, key_id: str | None) -> Any:
        """The key of that id, or the only key if a token names none; None if the issuer has no such key."""
        if self._found(key_id) is None or self._keys.age_s >= KEEP_S:
            await self._keys.renew()
        if self._keys.age_s >= STALE_S:
            detail = "the identity provider's keys cannot be fetched, so that no token can be verified"
            raise Refusal(503, "identity_provider_unavailable", detail, headers={"Retry-After": str(AGAIN_S)})
        return self._found(key_id)

    def held(self, key_id: str | None) -> Any:
        """The key of that id among the known ones. A fetch that is due begins, but is not awaited."""
        age_s = self._keys.age_s
        found = None if age_s >= STALE_S else self._found(key_id)
        if found is None or age_s >= KEEP_S:
            self._keys.begin()
        return found

    def _found(self, key_id: str | None) -> Any:
        keys = self._keys.value or ()
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.kid == key_id), None)

    async def _fetch(self, http: httpx.AsyncClient) -> list[Any]:
        place = self._issuer.jwks_url or place_in(await document_of(http, self._issuer), "jwks_uri", self._issuer)
        return _usable(await json_of(http, "GET", place))


def _usable(found: dict[str, Any]) -> list[Any]:
    """The keys of a set that verify signatures, without those of other uses and types."""
    listed = found.get("keys")
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ValueError(f"it is no set of at most {MOST_KEYS} keys")
    keys = []
    for one in listed:
        if not isinstance(one, dict) or one.get("kty") not in ("RSA", "EC", "OKP") or one.get("use", "sig") != "sig":
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)  # keys that are too weak are left out below
                key: Any = jwk.import_key({name: value for name, value in one.items() if name not in _PRIVATE})
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if key.key_type != "RSA" or key.raw_value.key_size >= SHORTEST_RSA_BITS:
            keys.append(key)
    if not keys:
        raise ValueError("there is no key to verify signatures with")
    return keys


class Tokens:
    """The tokens of one issuer. `clock` gives seconds since 1970."""

    def __init__(self, issuer: Issuer, keys: KeySet | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._issuer = issuer
        self._keys = keys or KeySet(issuer)
        self._clock = clock

    async def caller(self, token: str, proof: Proof, *, nonce: str | None = None) -> tuple[Caller, float]:
        """The caller of a token, and until when the token is valid (seconds since 1970).

        With a `nonce` it must be an ID token, made for the sign-in with this nonce and for this audience. A token that is not
        accepted raises `InvalidToken`.
        """
        claims, algorithm, key_id = self._stated(token)
        ends = self._verify(token, await self._keys.key(key_id), algorithm, claims)
        if nonce is not None:
            _check_sign_in(claims, nonce, self._issuer.audience)
        return self._read(claims, proof), ends + LEEWAY_S

    async def holds(self, token: str) -> bool:
        """Whether a token is valid by the known keys of the issuer. It waits for no fetch; a due one begins."""
        try:
            claims, algorithm, key_id = self._stated(token)
            self._verify(token, self._keys.held(key_id), algorithm, claims)
        except InvalidToken:
            return False
        return True

    def _stated(self, token: str) -> tuple[dict[str, Any], str, str | None]:
        """The claims of a token, its algorithm and the id of its key, unverified."""
        header, claims = _parts(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._issuer.algorithms:
            raise InvalidToken("its signature algorithm is not accepted")
        if "crit" in header or str(header.get("typ", "")).lower() not in TYPES:
            raise InvalidToken("it is a token of another type")
        if key_id is not None and not isinstance(key_id, str):
            raise InvalidToken("the id of its key is no text")
        return claims, str(algorithm), key_id

    def _verify(self, token: str, key: Any, algorithm: str, claims: dict[str, Any]) -> float:
        """Check the signature and the claims about the token itself; returns when it expires."""
        if key is None or key.alg not in (None, algorithm):
            raise InvalidToken("its issuer has no such key")
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        registry.max_header_length = LONGEST
        must = jwt.JWTClaimsRegistry(
            now=lambda: int(self._clock()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self._issuer.url},
            aud={"essential": True, "value": self._issuer.audience},
            exp={"essential": True},
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)  # about the name EdDSA, which issuers use
                jwt.decode(token, key, algorithms=[algorithm], registry=registry)
            must.validate(claims)
            ends = float(claims["exp"])
        except JoseError as error:
            raise InvalidToken(_SAID.get(type(error).__name__, f"it does not hold ({type(error).__name__})")) from None
        except OverflowError:
            raise InvalidToken("one of its times is not a time") from None
        except (ValueError, TypeError, KeyError):  # a key that does not fit the signature
            raise InvalidToken("its signature does not hold") from None
        if not math.isfinite(ends):
            raise InvalidToken("one of its times is not a time")
        return ends

    def _read(self, claims: dict[str, Any], proof: Proof) -> Caller:
        issuer = self._issuer
        name = _at(claims, issuer.id_claim)
        if not isinstance(name, str):
            raise InvalidToken(f"its claim {issuer.id_claim!r} names nobody")
        place = _MAIL.fullmatch(issuer.id_claim)
        if place is not None and _at(claims, f"{place[1]}email_verified") is not True:
            raise InvalidToken("its e-mail address was not verified (email_verified)")
        given = _names(_at(claims, issuer.scope_claim), spaced=True)
        known = {f"{issuer.scope_prefix}{scope.value}": scope for scope in AccessScope}
        scopes = frozenset({*issuer.scopes, *(known[one] for one in given if one in known)})
        agents = None if issuer.agents_claim is None else frozenset(_names(_at(claims, issuer.agents_claim)))
        try:
            principal = Principal(name, roles=tuple(_names(_at(claims, issuer.roles_claim))), proof=proof).check_visible()
        except InvalidInput as error:
            raise InvalidToken(f"it cannot be a principal: {error.field}: {error.problem}") from None
        return Caller(principal, scopes, agents)


_SAID = {
    "BadSignatureError": "its signature does not hold",
    "ExpiredTokenError": "it has expired",
    "InvalidClaimError": "it is not for this server, not from the issuer, or not yet valid",
    "MissingClaimError": "it lacks one of iss, aud, exp",
}


def _check_sign_in(claims: dict[str, Any], nonce: str, audience: str) -> None:
    said, party = claims.get("nonce"), claims.get("azp")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode("utf-8", "replace"), nonce.encode()):
        raise InvalidToken("it belongs to another sign-in")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if party != audience and (several or party is not None):
        raise InvalidToken("it was made for another party")


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token, unverified. Strict JSON: a duplicate name could be read in two ways."""
    parts = token.split(".")
    if len(token) > LONGEST or len(parts) != 3 or not token.isascii():  # noqa: PLR2004 - header, claims, signature
        raise InvalidToken("it is no signed token within bounds")
    try:
        header, claims = (
            jsontext.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True).decode())
            for part in parts[:2]
        )
    except (jsontext.NotJson, binascii.Error, ValueError):
        raise InvalidToken("it is no signed token") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise InvalidToken("it is no signed token")
    return header, claims


def _at(claims: dict[str, Any], path: str) -> Any:
    """The claim of that name, or else the value at that dotted path; None if there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _names(value: Any, *, spaced: bool = False) -> list[str]:
    """The names in a claim: a list, or a text, which holds several if `spaced`."""
    if isinstance(value, str):
        return value.split() if spaced else [value]
    if isinstance(value, list):
        return list(dict.fromkeys(one for one in value if isinstance(one, str)))
    return []
