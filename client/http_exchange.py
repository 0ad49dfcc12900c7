"""Requests to a server, each bounded, with a deadline, and sent again with the same key when the answer is lost."""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, TypeVar

import httpx

from holdfast import errors, work_context
from holdfast.actors import logs
from holdfast.backoff import Backoff
from holdfast.errors import ConfigurationError, HoldfastError, InvalidInput, OutcomeUnknown, ServerRefused, ServerUnavailable

from .http_address import Address
from .http_replies import JSON, NO_CONTENT, PROBLEM, Answer

ANSWER_BYTES = 64 * 1024 * 1024
REACH_S = 5.0
"""Seconds for which a server that takes no connection is tried, if it has never answered; else until the call's deadline."""
KEEP_S = 4.0
"""Seconds for which an idle connection is kept: less than the 5 s after which uvicorn closes it."""
FIRST_S, LONGEST_S, JITTER = 0.1, 2.0, 0.5
MOST_CUTS = 3
"""How often in a row a server may close the connection while a body is sent: it refuses one that is too large unread."""
FAILED = frozenset({500, 502, 504})
"""Statuses of a server that failed, perhaps after it carried the request out."""
JUDGED = (
    *(errors.InvalidMessage, errors.InvalidDecision, errors.InvalidConversationId),
    *(errors.ConversationNotFound, errors.ConversationExists, errors.ConversationEnded),
    *(errors.TurnNotFound, errors.MessageNotFound, errors.StaleCall, errors.BatchRefused),
)
"""Errors by which a conversation refuses a request with an unknown key: an earlier try of it did nothing either.

All other errors leave that open: they are raised before the key is looked up, or are temporary.
"""

logger = logging.getLogger("holdfast.client")
_T = TypeVar("_T")


@dataclass(slots=True)
class Asking:
    """One request, and what is known of the tries to send it.

    `path` is quoted, below the server's URL; `what` is what it asks for, in the words of an error. Without an idempotency
    `key`, only a GET is sent again once the server may have it. `sent` says whether the last try reached the server, `cut`
    whether the server closed the connection before it had the whole body, `doubtful` whether an earlier try may have been
    carried out.
    """

    method: str
    path: str
    what: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    key: str | None = None
    sent: bool = False
    cut: bool = False
    doubtful: bool = False

    async def trace(self, name: str, _: Mapping[str, Any]) -> None:
        """Note whether a try was sent; httpcore calls this with the name of each step."""
        self.sent = self.sent or name.endswith("send_request_headers.started")
        self.cut = self.cut or name.endswith("send_request_body.failed")

    def begin(self) -> None:
        """Begin another try."""
        self.sent = self.cut = False

    @property
    def repeatable(self) -> bool:
        """Whether the request may be sent again although the server may have carried it out."""
        return self.method == "GET" or self.key is not None

    def given_up(self, url: str, why: str) -> HoldfastError:
        """The error of a request that got no answer."""
        why = f"{url}: {why}"
        if self.method != "GET" and self.doubtful:
            if self.key is not None:
                return OutcomeUnknown(f"{self.what} ({why})", self.key)
            why = f"{why}; whether it did {self.what} is not known"
        return ServerUnavailable(why)


class Exchange:
    """The requests of one client to one server, over kept-alive connections that are opened on first use."""

    def __init__(self, address: Address, *, timeout_s: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        logs.guard("httpx")  # it logs each URL, and that of a link decides
        self.address = address
        self.timeout_s = timeout_s
        self._transport = transport
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._met = False
        self._pid = os.getpid()
        self._inherited: list[httpx.AsyncClient | None] = []

    async def get(self, path: str, what: str, *, longer_s: float = 0.0, **query: Any) -> Any:
        """The value at a quoted path; query fields that are None are left out.

        `longer_s` prolongs the deadline by the seconds that the server may wait for news. Raises the error that the server
        raised, or `ServerUnavailable` if it does not answer in time.
        """
        asking = Asking("GET", path, what, {name: _plain(one) for name, one in query.items() if one is not None})
        return (await self._answered(asking, self._whole, longer_s=longer_s)).value()

    async def post(
        self,
        path: str,
        what: str,
        body: Mapping[str, Any] | None,
        read: Callable[[Any], _T],
        *,
        key: str | None = None,
        longer_s: float = 0.0,
        method: str = "POST",
    ) -> _T:
        """The reply to a request that changes something, converted by `read`. Without an idempotency key it is sent once.

        `OutcomeUnknown` if the server may have carried it out and has not said so in time; `ServerUnavailable` if nothing was
        done, or the request has no key; else the error that the server raised.
        """
        asking = Asking(method, path, what, key=key)
        if body is not None:
            text = json.dumps(dict(body), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            asking.headers, asking.body = {"Content-Type": JSON}, text.encode("utf-8")
        try:
            return read((await self._answered(asking, self._whole, longer_s=longer_s)).value())
        except ServerRefused as error:
            done = error.http_status < 300 or error.http_status in FAILED  # noqa: PLR2004 - the class of these statuses
            if key is not None and (done or asking.doubtful):
                raise OutcomeUnknown(f"{what} ({error})", key) from error
            raise
        except HoldfastError as error:
            judged = isinstance(error, (*JUDGED, OutcomeUnknown)) or type(error) is InvalidInput
            if key is not None and asking.doubtful and not judged:
                raise OutcomeUnknown(f"{what} ({error})", key) from error
            raise

    async def opened(self, path: str, what: str, headers: Mapping[str, str], **query: Any) -> httpx.Response:
        """An answer to be read as it comes and closed by the caller; an answer that is no stream raises as in `get`."""
        given = {name: _plain(one) for name, one in query.items() if one is not None}
        return await self._answered(Asking("GET", path, what, given, headers), self._begun)

    async def aclose(self) -> None:
        """Close the connections. Those of another event loop cannot be closed here, and are dropped."""
        http, self._http = self._http, None
        if http is not None and self._pid == os.getpid() and self._loop is asyncio.get_running_loop():
            await http.aclose()

    async def _answered(self, asking: Asking, read: Callable[[Asking], Awaitable[_T]], *, longer_s: float = 0.0) -> _T:
        """The answer, converted by `read`; the request is sent again while that can lead to an answer."""
        now = asyncio.get_running_loop().time
        began = now()
        until, pauses, cuts = began + self.timeout_s + longer_s, Backoff(FIRST_S, LONGEST_S, jitter=JITTER), 0
        while True:
            asking.begin()
            at_least_s, final = 0.0, None
            try:
                async with asyncio.timeout_at(until):
                    found = await read(asking)
                self._met = True
                return found  # noqa: TRY300 - the loop goes on after an except
            except TimeoutError:
                asking.doubtful |= asking.sent
                raise asking.given_up(self.address.url, f"no answer within {self.timeout_s:g} s") from None
            except _ComeBack as later:
                why, at_least_s, final = str(later), later.at_least_s, later.error
                asking.doubtful |= final is None
            except httpx.TransportError as error:
                asking.doubtful |= asking.sent and not asking.cut
                why, cuts = said_of(error), cuts + 1 if asking.cut else 0
                if cuts == MOST_CUTS and not asking.doubtful:
                    problem = f"the server closes the connection while {len(asking.body or b'')} bytes are sent to it"
                    raise InvalidInput("body", problem, "send less: it takes no more") from error
            if asking.doubtful:
                final = None
            reached = self._met or asking.doubtful or final is not None
            pause_s = max(pauses.next_s(), at_least_s)
            late = now() + pause_s >= (until if reached else min(until, began + REACH_S))
            if late or (asking.doubtful and not asking.repeatable):
                raise final or asking.given_up(self.address.url, why)
            logger.debug("%s is asked for again in %.1f s: %s", asking.what, pause_s, why)
            await asyncio.sleep(pause_s)

    async def _whole(self, asking: Asking) -> Answer:
        return await _answer(await self._send(asking))

    async def _begun(self, asking: Asking) -> httpx.Response:
        response = await self._send(asking)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == NO_CONTENT or (response.is_success and kind == "text/event-stream"):
            return response
        answer = await _answer(response)
        answer.value()
        raise answer.error()

    async def _send(self, asking: Asking) -> httpx.Response:
        http = self._client()
        headers = dict(asking.headers)
        if self.address.token is not None:
            headers["Authorization"] = f"Bearer {self.address.token}"
        if asking.key is not None:
            headers["Idempotency-Key"] = asking.key
        traceparent = work_context.caller_traceparent()
        if traceparent is not None:
            headers[work_context.TRACE_HEADER] = traceparent
        request = http.build_request(
            asking.method,
            self.address.url + asking.path,
            params=dict(asking.query),
            headers=headers,
            content=asking.body,
            extensions={"trace": asking.trace},
        )
        return await http.send(request, stream=True)

    def _client(self) -> httpx.AsyncClient:
        if self._pid != os.getpid():  # the parent's connections stay the parent's: to close one would end it there
            self._inherited.append(self._http)
            self._pid, self._http = os.getpid(), None
        loop = asyncio.get_running_loop()
        if self._http is None:
            self._http, self._loop = self._made(), loop
        if self._loop is not loop:  # connections of another loop cannot be used here
            problem = "a client belongs to one event loop, and this one was used in another"
            raise ConfigurationError("loop", problem, "connect once in each loop, or use Client, which has a loop of its own")
        return self._http

    def _made(self) -> httpx.AsyncClient:
        try:
            return httpx.AsyncClient(
                headers={"User-Agent": f"holdfast/{metadata.version('holdfast')}", "Accept-Encoding": "identity"},
                transport=self._transport,
                timeout=None,  # noqa: S113 - each call has its deadline, which bounds all of it
                follow_redirects=False,
                trust_env=self.address.encrypted,  # a proxy would read what is sent to it unencrypted
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEP_S),
            )
        except (OSError, ValueError, ImportError) as error:  # whose text may hold the password of a proxy
            problem = f"the certificates or proxies that the environment names cannot be used ({type(error).__name__})"
            raise ConfigurationError("url", problem, "look at SSL_CERT_FILE, SSL_CERT_DIR, HTTPS_PROXY and ALL_PROXY") from None


class _ComeBack(Exception):
    """A temporary refusal."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"it answered {answer.status}")
        self.at_least_s = answer.retry_after_s
        self.error = answer.error() if answer.media_type == PROBLEM else None
        """The error by which Holdfast itself says that it did nothing; None if that is not known."""


def said_of(error: httpx.HTTPError) -> str:
    """The text of a transport error, or its type's name."""
    return str(error) or type(error).__name__


async def _answer(response: httpx.Response) -> Answer:
    """The answer, read whole; a temporary refusal raises `_ComeBack`."""
    try:
        answer = Answer(response.status_code, dict(response.headers), await _body(response))
    finally:
        await response.aclose()
    if answer.passing:
        raise _ComeBack(answer)
    return answer


async def _body(response: httpx.Response) -> bytes:
    """The body of an answer; `ServerRefused` if it is too large, or compressed without being asked for."""
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ServerRefused(response.status_code, "unreadable", "the answer is compressed, which was not asked for")
    found = bytearray()
    async for chunk in response.aiter_raw():
        found += chunk
        if len(found) > ANSWER_BYTES:
            raise ServerRefused(response.status_code, "too_large", f"the answer has more than {ANSWER_BYTES} bytes")
    return bytes(found)


def _plain(value: Any) -> str | list[str]:
    """A field of a query; one with several values is repeated."""
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
