"""Requests to an identity provider, within bounds of size and time."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from holdfast.conversation.text import jsontext

from .authentication import Issuer, is_safe

FETCH_S = 10
"""The time for one exchange with a provider, in seconds."""
MOST_BYTES = 1 << 18
DISCOVERY = "/.well-known/openid-configuration"


def connected() -> httpx.AsyncClient:
    """The HTTP client for providers; it follows no redirect."""
    return httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False)


async def document_of(http: httpx.AsyncClient, issuer: Issuer) -> dict[str, Any]:
    """The discovery document of an issuer.

    Raises:
        ValueError: The answer is no such document, or another issuer's.
        httpx.HTTPError: It cannot be fetched.
    """
    found = await json_of(http, "GET", issuer.url.rstrip("/") + DISCOVERY)
    if found.get("issuer") != issuer.url:
        said = f"its discovery document is that of {found.get('issuer')!r:.100}"
        raise ValueError(said)
    return found


def place_in(document: Mapping[str, Any], name: str, issuer: Issuer) -> str:
    """The URL of that name in a discovery document.

    Raises:
        ValueError: It is missing, or not safe from changes on the way (`is_safe`).
    """
    place = document.get(name)
    if not isinstance(place, str) or not is_safe(place) or urlsplit(place).scheme != urlsplit(issuer.url).scheme:
        said = f"its discovery document names no safe {name}"
        raise ValueError(said)
    return place


async def json_of(http: httpx.AsyncClient, method: str, url: str, **options: Any) -> dict[str, Any]:
    """The JSON object that a URL answers with.

    Raises:
        ValueError: The answer is something else, or too large.
        httpx.HTTPError: There is no answer.
    """
    text = bytearray()
    headers = {"Accept": "application/json"}
    async with http.stream(method, url, headers=headers, **options) as response:
        if response.status_code != 200:  # noqa: PLR2004 - OK
            said = f"{url} answers {response.status_code}"
            raise ValueError(said)
        async for chunk in response.aiter_bytes():
            text += chunk
            if len(text) > MOST_BYTES:
                said = f"{url} has more than {MOST_BYTES} bytes"
                raise ValueError(said)
    found = jsontext.loads(text.decode())
    if not isinstance(found, dict):
        said = f"{url} has no JSON object"
        raise ValueError(said)  # noqa: TRY004 - the answer is wrong, not an argument
    return found
