"""The context of the current work: what its log lines are about, and its caller's trace context, a checked W3C `traceparent`.

Each is set where it is known. OpenTelemetry is not imported for it.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

CONVERSATION: ContextVar[str] = ContextVar("holdfast_conversation", default="")
EFFECT: ContextVar[str] = ContextVar("holdfast_effect", default="")
"""The id of the current effect: a model call or a run."""
REQUEST: ContextVar[str] = ContextVar("holdfast_request", default="")
"""The id of the HTTP request that led here; stored nowhere."""
TRACE: ContextVar[str] = ContextVar("holdfast_trace", default="")
"""The id of the current trace; empty if there is none."""
ABOUT: Mapping[str, ContextVar[str]] = {"conversation": CONVERSATION, "effect": EFFECT, "request": REQUEST, "trace": TRACE}

TRACE_HEADER = "traceparent"
"""The header that carries a trace context over HTTP."""
CALLER: ContextVar[str] = ContextVar("holdfast_traceparent", default="")
"""The trace context of the current HTTP request; empty if it has none."""
LONGEST = 512
"""How many characters a `traceparent` may have: later versions of the format may be longer than today's."""

_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FLAGS = 0b11
"""The flags that have a meaning: sampled, random."""


@contextmanager
def about(**values: str) -> Iterator[None]:
    """Set the context (names of `ABOUT`) of log lines written in this block, and in tasks started in it."""
    tokens = [(ABOUT[name], ABOUT[name].set(value)) for name, value in values.items()]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


def about_nothing() -> AbstractContextManager[None]:
    """Clear the context for tasks started in this block: they serve others besides the current work."""
    return about(**dict.fromkeys(ABOUT, ""))


def checked_traceparent(text: object) -> str | None:
    """The `traceparent` in the form of version 00; None if it is invalid (the W3C's rules ignore such a header)."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if found is None or (found[1] == "00" and found[5] is not None):
        return None
    return _traceparent(found[2], found[3], int(found[4], 16))


def _traceparent(trace_id: str, span_id: str, flags: int) -> str:
    return f"00-{trace_id}-{span_id}-{flags & _FLAGS:02x}"


def traceparent_of(span: Any) -> str | None:
    """The trace context of an OpenTelemetry span; None if nothing is traced."""
    context = span.get_span_context()
    ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return _traceparent(*ids, context.trace_flags) if context.is_valid else None


def trace_id_of(traceparent: str | None) -> str:
    """The id of the trace, in hexadecimal; empty if there is none."""
    return (traceparent or "")[3:35]


def caller_traceparent() -> str | None:
    """The caller's trace context: of OpenTelemetry's current span, else of the current HTTP request.

    Without OpenTelemetry imported there is no current span, and the check costs nothing.
    """
    api = sys.modules.get("opentelemetry.trace")
    current_span = getattr(api, "get_current_span", None)  # another thread may be importing it at this moment
    return (None if current_span is None else traceparent_of(current_span())) or CALLER.get() or None
