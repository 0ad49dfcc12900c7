"""Spans: their names and attributes, and how one continues a trace context from the log.

The names of OpenTelemetry's GenAI conventions are copied here, as these are still in development; names that they lack begin
with `holdfast.`. Without a tracer provider, a span is only the trace context of its parent. A sampler or processor that raises
loses the span, never the work.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags

from .work_context import checked_traceparent

logger = logging.getLogger("holdfast")

CONVERSATION = "gen_ai.conversation.id"
OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL = "gen_ai.tool.name"
CALL = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
INSTRUCTIONS = "gen_ai.system_instructions"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
ERROR = "error.type"

TURN = "holdfast.turn.id"
TURN_OUTCOME = "holdfast.turn.outcome"
EFFECT = "holdfast.effect.id"
ATTEMPT = "holdfast.attempt"
SUSPENDED = "holdfast.suspended"
TRIES = "holdfast.model.tries"
REASONING_TOKENS = "holdfast.model.reasoning_tokens"
COST_USD = "holdfast.model.cost_usd"
SUSPENSION = "holdfast.suspension.id"
WAIT_KIND = "holdfast.wait.kind"
WAIT_OUTCOME = "holdfast.wait.outcome"
PROOF = "holdfast.wait.decided_by.proof"
DECIDED_BY = "holdfast.wait.decided_by.id"
LINK = "holdfast.link"

Said: TypeAlias = str | bool | int | float | tuple[str, ...]


class _Named:
    """The tracer provider that the environment names; `broken` once loading it has failed in this process."""

    broken = False


_named = _Named()


def tracer_provider() -> trace.TracerProvider | None:
    """The tracer provider of this process; None if there is none, or the named one cannot be loaded."""
    if _named.broken:  # the getter would load it again
        found = trace._TRACER_PROVIDER  # noqa: SLF001 - what the program has set since, if anything
    else:
        try:
            found = trace.get_tracer_provider()
        except Exception:  # noqa: BLE001 - even a StopIteration
            _named.broken, found = True, None
            logger.warning("the tracer provider that OTEL_PYTHON_TRACER_PROVIDER names cannot be loaded: nothing is traced")
    return None if found is None or isinstance(found, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else found


def begin(
    name: str,
    said: Mapping[str, Said | None],
    *,
    parent: str | None,
    links: Mapping[str, str | None] | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    at_ms: int | None = None,
) -> Span:
    """A span that begins now, or at `at_ms` (ms UTC). The caller must end it; a span that is not ended is not exported.

    `said` are its attributes, of which those of None are left out; `parent` is its parent's trace context (None: it begins a
    new trace); `links` are the trace contexts that it links to, by the role of each.
    """
    provider = tracer_provider()
    if provider is None:
        return INVALID_SPAN if parent is None else trace.get_current_span(context_of(parent))
    context = context_of(parent)
    try:
        return provider.get_tracer("holdfast").start_span(
            name,
            context,
            kind,
            {key: _encodable(value) for key, value in said.items() if value is not None},
            [Link(one, {LINK: why}) for why, text in (links or {}).items() if (one := span_context(text)) is not None],
            None if at_ms is None else at_ms * 1_000_000,
        )
    except Exception:
        logger.exception("the span %s could not begin", name)
        return trace.get_current_span(context)


def end(span: Span, *, ok: bool | None = None, at_ms: int | None = None) -> None:
    """End a span, now or at `at_ms` (ms UTC). `ok` is None if the span has no notion of success."""
    try:
        if ok is not None:
            span.set_status(StatusCode.OK if ok else StatusCode.ERROR)
        span.end(None if at_ms is None else at_ms * 1_000_000)
    except Exception:
        logger.exception("a span could not end")


def failed(span: Span) -> None:
    """Mark the span as failed."""
    span.set_status(StatusCode.ERROR)


@contextmanager
def during(span: Span) -> Iterator[Span]:
    """The span as the current one; it ends with the block. Exception texts are kept out of it."""
    if span is INVALID_SPAN:
        yield span
        return
    token = attach(trace.set_span_in_context(span))
    try:
        yield span
    except BaseException as error:
        span.set_attribute(ERROR, type(error).__qualname__)
        failed(span)
        raise
    finally:
        detach(token)
        end(span)


def say(span: Span, said: Mapping[str, Said | None]) -> None:
    """Add attributes to a span; those of None are left out."""
    if not span.is_recording():
        return
    for name, value in said.items():
        if value is not None:
            span.set_attribute(name, _encodable(value))


def context_of(traceparent: str | None) -> Context:
    """A context whose current span is that of this trace context; an empty context for None."""
    parent = span_context(traceparent)
    return Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())


def span_context(traceparent: str | None) -> SpanContext | None:
    """The remote span of a trace context; None if it is invalid."""
    traceparent = checked_traceparent(traceparent)
    if traceparent is None:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _encodable(value: Said) -> Said:
    """The value without lone surrogates, which would make an exporter drop the whole batch of spans."""
    if isinstance(value, tuple):
        return tuple(one.encode("utf-8", "replace").decode() for one in value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and not value.isascii() else value
