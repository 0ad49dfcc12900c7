"""The trace context of whoever calls: a W3C `traceparent`, checked, and found without an import of OpenTelemetry."""

import re
import sys
from contextvars import ContextVar

HEADER = "traceparent"
"""The header that carries a trace context over HTTP."""
CALLER: ContextVar[str] = ContextVar("holdfast_traceparent", default="")
"""The trace context that the HTTP request at work came with; empty where it came with none."""
LONGEST = 512
"""How many characters a `traceparent` may have: later versions of it may be longer than that of today."""

_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FLAGS = 0b11
"""The flags that have a meaning: sampled, random."""


def checked(text: object) -> str | None:
    """The `traceparent` in the form of its version 00; None for what is none, which is ignored, as the W3C's rules want."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if found is None or (found[1] == "00" and found[5] is not None):
        return None
    return of(found[2], found[3], int(found[4], 16))


def of(trace_id: str, span_id: str, flags: int) -> str:
    """The `traceparent` of a span, by its ids in hexadecimal."""
    return f"00-{trace_id}-{span_id}-{flags & _FLAGS:02x}"


def trace_id_of(traceparent: str | None) -> str:
    """The id of the trace, in hexadecimal; empty where there is none."""
    return (traceparent or "")[3:35]


def current() -> str | None:
    """The trace context of the caller: that of OpenTelemetry's current span, else that of the HTTP request at work.

    Where nobody has imported OpenTelemetry, there is no current span, and it costs nothing to say so.
    """
    api = sys.modules.get("opentelemetry.trace")
    current_span = getattr(api, "get_current_span", None)  # a thread may be importing it at this moment
    if current_span is not None:
        context = current_span().get_span_context()
        if context.is_valid:
            return of(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags)
    return CALLER.get() or None
