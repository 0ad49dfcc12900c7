"""The public keys of an identity provider: fetched at first use, kept, and fetched again for an unknown key."""

import asyncio
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import httpx
from joserfc import jwk
from joserfc.errors import JoseError, SecurityWarning

from holdfast.redaction import PLAIN
from holdfast.single_flight import SingleFlight

from .authentication import Issuer
from .discovery import FETCH_S, connected, document_of, json_of, place_in
from .refusal import Refusal

KEEP_S = 3600
"""The age at which keys are fetched again, in seconds, so that a withdrawn one is no longer accepted."""
STALE_S = 24 * 3600
"""How long old keys are accepted while new ones cannot be fetched, in seconds."""
AGAIN_S = 30
"""The shortest time between two fetches, in seconds, whatever keys tokens name."""
MOST_KEYS = 100
SHORTEST_RSA_BITS = 2048

logger = logging.getLogger("holdfast.server")


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
        self._connected = connected
        self._clock = clock
        self._keys: list[Any] = []
        self._fetched_at: float | None = None
        self._asked_at: float | None = None
        self._fetching = SingleFlight(self._fetch)

    async def key(self, key_id: str | None) -> Any:
        """The key of that id, or the only key if a token names none; None if the issuer has no such key.

        Raises:
            Refusal: The keys are not known, and cannot be fetched.
        """
        found, now = self._found(key_id), self._clock()
        if found is not None and now - (self._fetched_at or 0) < KEEP_S:
            return found
        if self._fetching.under_way or self._asked_at is None or now - self._asked_at >= AGAIN_S:
            await self._fetching.result()
        if self._fetched_at is None or self._clock() - self._fetched_at >= STALE_S:
            detail = "the identity provider's keys cannot be fetched, so that no token can be verified"
            raise Refusal(503, "identity_provider_unavailable", detail, headers={"Retry-After": str(AGAIN_S)})
        return self._found(key_id)

    def held(self, key_id: str | None) -> Any:
        """The key of that id among the known ones. A fetch that is due begins, but is not awaited."""
        now, found = self._clock(), self._found(key_id)
        age_s = None if self._fetched_at is None else now - self._fetched_at
        if age_s is None or age_s >= STALE_S:
            found = None
        due = found is None or age_s is None or age_s >= KEEP_S
        if due and (self._asked_at is None or now - self._asked_at >= AGAIN_S):
            self._fetching.begin()
        return found

    def _found(self, key_id: str | None) -> Any:
        if key_id is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == key_id), None)

    async def _fetch(self) -> None:
        """Fetch the keys; a failure is logged, and the known ones stay in use."""
        self._asked_at = self._clock()
        try:
            async with asyncio.timeout(FETCH_S), self._connected() as http:
                place = self._issuer.jwks_url or place_in(await document_of(http, self._issuer), "jwks_uri", self._issuer)
                self._keys = _usable(await json_of(http, "GET", place))
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            logger.warning("the keys of %s cannot be fetched: %s", self._issuer.url, PLAIN.said(error, 300))
        else:
            self._fetched_at = self._clock()


def _usable(found: dict[str, Any]) -> list[Any]:
    """The keys of a set that verify signatures, without those of other uses and types."""
    listed = found.get("keys")
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        said = f"it is no set of at most {MOST_KEYS} keys"
        raise ValueError(said)
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
        said = "there is no key to verify signatures with"
        raise ValueError(said)
    return keys


_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
