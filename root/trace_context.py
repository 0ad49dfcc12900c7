"""The caller's trace context: a checked W3C `traceparent`, found without importing OpenTelemetry."""

import re
import sys
from contextvars import ContextVar

HEADER = "traceparent"
"""The header that carries a trace context over HTTP."""
CALLER: ContextVar[str] = ContextVar("holdfast_traceparent", default="")
"""The trace context of the current HTTP request; empty if it has none."""
LONGEST = 512
"""How many characters a `traceparent` may have: later versions of the format may be longer than today's."""

_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FLAGS = 0b11
"""The flags that have a meaning: sampled, random."""


def checked(text: object) -> str | None:
    """The `traceparent` in the form of version 00; None if it is invalid (the W3C's rules ignore such a header)."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if found is None or (found[1] == "00" and found[5] is not None):
        return None
    return of(found[2], found[3], int(found[4], 16))


def of(trace_id: str, span_id: str, flags: int) -> str:
    """The `traceparent` of a span, by its ids in hexadecimal."""
    return f"00-{trace_id}-{span_id}-{flags & _FLAGS:02x}"


def trace_id_of(traceparent: str | None) -> str:
    """The id of the trace, in hexadecimal; empty if there is none."""
    return (traceparent or "")[3:35]


def current() -> str | None:
    """The caller's trace context: of OpenTelemetry's current span, else of the current HTTP request.

    Without OpenTelemetry imported there is no current span, and the check costs nothing.
    """
    api = sys.modules.get("opentelemetry.trace")
    current_span = getattr(api, "get_current_span", None)  # another thread may be importing it at this moment
    if current_span is not None:
        context = current_span().get_span_context()
        if context.is_valid:
            return of(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags)
    return CALLER.get() or None
