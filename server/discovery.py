"""Requests to an identity provider, within bounds of size and time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx

from holdfast.conversation.text import jsontext
from holdfast.redaction import PLAIN
from holdfast.single_flight import SingleFlight

from .authentication import Issuer, is_safe

FETCH_S = 10
MOST_BYTES = 1 << 18
DISCOVERY = "/.well-known/openid-configuration"
KEEP_S = 3600
"""The age at which what was fetched is fetched again, in seconds, so that a withdrawn key is no longer accepted."""
AGAIN_S = 30
"""The shortest time between two fetches, in seconds, whatever keys tokens name."""
FAILURES = (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError)
"""The errors of a request: there is no answer, or (`ValueError`) one that is refused."""

T = TypeVar("T")

logger = logging.getLogger("holdfast.server")


def connected() -> httpx.AsyncClient:
    """The HTTP client for providers; it follows no redirect."""
    return httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False)


class Fetched(Generic[T]):
    """Something that a provider publishes: fetched at first use, kept, and fetched again. `clock` gives seconds.

    A failed fetch is logged, as `failure` and the reason, and the known value stays in use.
    """

    def __init__(
        self,
        fetch: Callable[[httpx.AsyncClient], Awaitable[T]],
        failure: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        connected: Callable[[], httpx.AsyncClient] = connected,
    ) -> None:
        self._fetch = fetch
        self._failure = failure
        self._clock = clock
        self._connected = connected
        self._fetched_at = self._asked_at = float("-inf")
        self._fetching = SingleFlight(self._fetch_now)
        self.value: T | None = None

    @property
    def age_s(self) -> float:
        """The age of the value, in seconds; infinite without one."""
        return self._clock() - self._fetched_at

    async def renew(self) -> None:
        """Fetch the value again, unless that was tried a moment ago."""
        if self._fetching.under_way or self._clock() - self._asked_at >= AGAIN_S:
            await self._fetching.result()

    def begin(self) -> None:
        """Begin to fetch the value again, unless that was tried a moment ago."""
        if self._clock() - self._asked_at >= AGAIN_S:
            self._fetching.begin()

    async def _fetch_now(self) -> None:
        self._asked_at = self._clock()
        try:
            async with asyncio.timeout(FETCH_S), self._connected() as http:
                self.value = await self._fetch(http)
        except FAILURES as error:
            logger.warning("%s: %s", self._failure, PLAIN.said(error, 300))
        else:
            self._fetched_at = self._clock()


async def document_of(http: httpx.AsyncClient, issuer: Issuer) -> dict[str, Any]:
    """The discovery document of an issuer; one of another issuer is refused."""
    found = await json_of(http, "GET", issuer.url.rstrip("/") + DISCOVERY)
    if found.get("issuer") != issuer.url:
        raise ValueError(f"its discovery document is that of {found.get('issuer')!r:.100}")
    return found


def place_in(document: Mapping[str, Any], name: str, issuer: Issuer) -> str:
    """The URL of that name in a discovery document; one that is not safe from changes on the way (`is_safe`) is refused."""
    place = document.get(name)
    if not isinstance(place, str) or not is_safe(place) or urlsplit(place).scheme != urlsplit(issuer.url).scheme:
        raise ValueError(f"its discovery document names no safe {name}")
    return place


async def json_of(http: httpx.AsyncClient, method: str, url: str, **options: Any) -> dict[str, Any]:
    """The JSON object that a URL answers with; another answer, or a larger one, is refused."""
    text = bytearray()
    headers = {"Accept": "application/json"}
    async with http.stream(method, url, headers=headers, **options) as response:
        if response.status_code != 200:  # noqa: PLR2004 - OK
            raise ValueError(f"{url} answers {response.status_code}")
        async for chunk in response.aiter_bytes():
            text += chunk
            if len(text) > MOST_BYTES:
                raise ValueError(f"{url} has more than {MOST_BYTES} bytes")
    found = jsontext.loads(text.decode())
    if not isinstance(found, dict):
        raise ValueError(f"{url} has no JSON object")  # noqa: TRY004 - the answer is wrong, not an argument
    return found
