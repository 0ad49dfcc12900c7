"""HTTP requests to the outside: to checked addresses, bounded in time and size, without redirects, proxies or cookies."""

import asyncio
import contextlib
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from holdfast.actors.workers import DeliverAnswer, Delivered, Later, SetAside
from holdfast.backoff import now_s

from .addresses import Place, Refused, looked_up
from .wording import one_line

ANSWERS_S = 25.0
"""Seconds until the receiver must have answered, with its headers."""
READING_S = 5.0
"""Seconds for the beginning of the answer's body. It decides nothing, but a receiver is not cut off in the middle of a word."""
READ_BYTES = 64 * 1024
ANSWER_BYTES = 256 * 1024
"""The most bytes of a whole answer, interim ones (100 to 103) included: a receiver may send these without end."""
HEADERS = 64
HEADER_BYTES = 8 * 1024
KEPT_S, IDLE_S = 30.0, 2.0
"""Seconds for which the addresses that a URL leads to are kept, with connections to them, and a connection without requests."""
LONGEST_WAIT_S = 3600
"""The most seconds that a receiver's `Retry-After` counts for."""
AGAIN = frozenset({408, 409, 425, 429})
"""The statuses below 500 after which the request is made again."""
SAID = 200
"""How many characters of an error, or of an answer's body, are kept."""


class _Known(AbstractResolver):
    """Leads to the addresses that were checked, whatever the name leads to by now."""

    def __init__(self, places: Sequence[Place], port: int) -> None:
        self._places, self._port = places, port

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:  # noqa: ARG002
        return [
            ResolveResult(hostname=host, host=place.address, port=self._port, family=place.family, proto=0, flags=0)
            for place in self._places
        ]

    async def close(self) -> None:
        """Nothing is open."""


class _Bounded(ResponseHandler):
    """The connection's protocol: it ends with an answer's last permitted byte."""

    _left = ANSWER_BYTES

    def set_response_params(self, **params: Any) -> None:
        self._left = ANSWER_BYTES
        super().set_response_params(**params)

    def is_connected(self) -> bool:  # what nobody has asked for is no answer to the next request
        return super().is_connected() and not self.should_close

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left >= 0:
            super().data_received(data)
        elif self.transport is not None:
            self.transport.abort()


class _Connector(aiohttp.TCPConnector):
    """Makes connections of the bounded protocol to known addresses."""

    def __init__(self, known: _Known) -> None:
        super().__init__(resolver=known, use_dns_cache=False, keepalive_timeout=IDLE_S, ssl=tls())
        self._factory = partial(_bounded, asyncio.get_running_loop())


def _bounded(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Bounded(loop)


@dataclass(slots=True, eq=False)
class _Line:
    """The connections to the addresses that one URL led to, which were checked for it."""

    session: aiohttp.ClientSession
    until_s: float
    users: int = 0


class Outgoing:
    """The requests of a process to the outside. Those to one URL share connections."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, bool], _Line] = {}

    async def posted(
        self, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool, tells: bool = False
    ) -> DeliverAnswer:
        """Post a body to a URL that `checked_url` has let pass; what became of it. No error of the network is raised.

        With `tells`, the reason of a refusal has the beginning of the answer's body. That is for receivers of one kind, which
        say there what is wrong; any other body may be of a server that nobody who reads the reason has access to.
        """
        host, kept = urlsplit(url).hostname or "", (url, allow_private) in self._lines
        try:
            async with asyncio.timeout(ANSWERS_S) as bound:
                while True:
                    try:
                        async with self._line(url, allow_private=allow_private) as session:
                            response = await session.post(url, data=body, headers=headers, allow_redirects=False)
                            bound.reschedule(None)
                            return await _judged(response, host, tells=tells)
                    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                        if not kept:
                            raise
                        kept = False  # the receiver may have closed the connection meanwhile
        except Refused as error:
            return SetAside(str(error))
        except TimeoutError:
            return Later(f"{host} has not answered within {ANSWERS_S:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Later(f"{host} cannot be reached: {_said(error)}".replace(url, "its URL"))

    async def close(self) -> None:
        """Close the connections that serve no request; the others are closed after theirs."""
        lines = list(self._lines.values())
        self._lines.clear()
        await asyncio.gather(*(line.session.close() for line in lines if not line.users))

    @contextlib.asynccontextmanager
    async def _line(self, url: str, *, allow_private: bool) -> AsyncIterator[aiohttp.ClientSession]:
        """The session for a URL; after an error, the next request looks up anew what the URL leads to."""
        key, line = (url, allow_private), self._lines.get((url, allow_private))
        before = line
        if line is None or now_s() >= line.until_s:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            places = await looked_up(host, port, allow_private=allow_private)
            line, before = _Line(_session(_Connector(_Known(places, port))), now_s() + KEPT_S), self._lines.get(key)
            self._lines[key] = line
        line.users += 1
        try:
            if before is not None and before is not line and not before.users:
                await before.session.close()
            yield line.session
        except BaseException:
            if self._lines.get(key) is line:
                del self._lines[key]
            raise
        finally:
            line.users -= 1
            if not line.users and self._lines.get(key) is not line:
                await line.session.close()


def _session(connector: _Connector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),  # the bounds above count for everything
        headers={"User-Agent": "holdfast"},
        skip_auto_headers=("Accept-Encoding",),
        auto_decompress=False,
        trust_env=False,
        max_headers=HEADERS,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


@cache
def tls() -> ssl.SSLContext:
    """How servers prove who they are: by a certificate of this machine's authorities (`SSL_CERT_FILE`) for their names."""
    return ssl.create_default_context()


async def _judged(response: aiohttp.ClientResponse, host: str, *, tells: bool) -> DeliverAnswer:
    """The answer is judged by its status; the body, if it comes at all, can only explain it."""
    try:
        body = await _beginning(response)
    finally:
        response.close()  # a connection whose answer was read to its end is kept
    if 200 <= response.status < 300:  # noqa: PLR2004 - the class of success
        return Delivered()
    reason = f"{host} answered {response.status}"
    if 300 <= response.status < 400:  # noqa: PLR2004 - the class of redirects
        reason += ", and redirects are not followed"
    if tells and body:
        reason += f": {one_line(body[:SAID].decode('utf-8', 'replace'))}"
    if response.status in AGAIN or response.status >= 500:  # noqa: PLR2004 - the class of the server's errors
        return Later(reason, after_ms=after_ms(response.headers.get("Retry-After")))
    return SetAside(reason)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    read = bytearray()
    with contextlib.suppress(aiohttp.ClientError, OSError):  # a TimeoutError is an OSError
        async with asyncio.timeout(READING_S):
            while len(read) < READ_BYTES and (part := await response.content.read(READ_BYTES - len(read))):
                read += part
    return bytes(read)


def after_ms(header: str | None, now_s: float | None = None) -> int | None:
    """How long a `Retry-After` asks to wait, in ms and at most `LONGEST_WAIT_S`: a number of seconds, or a date."""
    text = (header or "").strip()
    if re.fullmatch(r"[0-9]+", text):
        wait_s = float(text[:300])  # so long a number is above the bound in any case
    else:
        try:
            wait_s = parsedate_to_datetime(text).timestamp() - (time.time() if now_s is None else now_s)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return int(1000 * min(max(wait_s, 0.0), LONGEST_WAIT_S))


def _said(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return "its answer is no HTTP, or too long"
    if isinstance(error, aiohttp.ClientConnectorError | OSError):
        return f"{type(error).__name__}: {error}"[:SAID]
    return type(error).__name__  # other messages show what was received
