"""The record of every request: its id, its outcome and its time. Queries and headers are never written down."""

import logging
import re
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast import metrics
from holdfast.counting import Counts
from holdfast.work_context import CALLER, REQUEST, TRACE, TRACE_HEADER, checked_traceparent, trace_id_of

from .rates import Rates

logger = logging.getLogger("holdfast.server.access")

HEADER = "X-Request-Id"
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
UNKNOWN = "-"
"""The path of a request without a route, and the sender of one whose caller was not identified."""
BROKEN_OFF = 499
"""The status of a request that ended without an answer, because its client left."""
STRANGERS_PER_S, STRANGERS_BURST = 2.0, 100
"""How many log lines a second requests without a known caller get, in the long run and at once."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Watch:
    """ASGI middleware before all other: it gives each request an id, counts it in `counts` and logs a line about it.

    Requests without a known caller share a limit of lines a second; the number of lines left out is logged. `clock` gives
    seconds.
    """

    def __init__(self, app: ASGIApp, *, counts: Counts, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._counts = counts
        self._strangers = Rates(STRANGERS_PER_S, STRANGERS_BURST, clock=clock)
        self._left_out = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and record it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER.lower(), "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        began_s = time.perf_counter()
        status, begins_s = BROKEN_OFF, None

        async def noted(message: Message) -> None:
            nonlocal status, begins_s
            if message["type"] == "http.response.start":
                status, begins_s = message["status"], time.perf_counter() - began_s
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        headers = Headers(scope=scope).getlist(TRACE_HEADER)
        traceparent = (checked_traceparent(headers[0]) or "") if len(headers) == 1 else ""
        tokens = REQUEST.set(request_id), TRACE.set(trace_id_of(traceparent)), CALLER.set(traceparent)
        try:
            await self._app(scope, receive, noted)
        finally:
            took_s = time.perf_counter() - began_s
            path = state.get("path", UNKNOWN)
            method = scope["method"] if scope["method"] in METHODS else UNKNOWN
            self._counts.add(metrics.REQUESTS, method, path, str(status))
            self._counts.observe(metrics.REQUEST_S, took_s if begins_s is None else begins_s, path)
            caller = getattr(state.get("caller"), "name", UNKNOWN)
            if self._is_told(caller):
                logger.info("%s %s %d %.1f ms by %s", method, path, status, took_s * 1000, caller)
            REQUEST.reset(tokens[0])
            TRACE.reset(tokens[1])
            CALLER.reset(tokens[2])

    def _is_told(self, caller: str) -> bool:
        """Whether a line is logged: strangers cannot fill the log; omitted lines are counted."""
        if caller != UNKNOWN:
            return True
        if self._strangers.take(UNKNOWN):
            self._left_out += 1
            return False
        if self._left_out:
            logger.info("%d requests without a known caller were left out here", self._left_out)
            self._left_out = 0
        return True
