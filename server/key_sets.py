"""The public keys of an identity provider: fetched at first use, kept, and fetched again for an unknown key."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import httpx
from joserfc import jwk
from joserfc.errors import JoseError, SecurityWarning

from .authentication import Issuer
from .discovery import AGAIN_S, KEEP_S, Fetched, connected, document_of, json_of, place_in
from .refusal import Refusal

STALE_S = 24 * 3600
"""How long old keys are accepted while new ones cannot be fetched, in seconds."""
MOST_KEYS = 100
SHORTEST_RSA_BITS = 2048


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


_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
