"""The spans that a process has ended, kept in memory, and what stands in them."""

from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import traces

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CALLERS_TRACE = CALLER[3:35]


class Begun(SpanProcessor):
    """The names of the spans that have begun."""

    def __init__(self):
        self.names = []

    def on_start(self, span, parent_context=None):
        self.names.append(span.name)


class Spans:
    """The spans that have ended, in the order of their ends; `begun` are the names of those that have begun."""

    def __init__(self):
        self._exporter, begun = InMemorySpanExporter(), Begun()
        self.begun = begun.names
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.provider.add_span_processor(begun)

    @contextmanager
    def collected(self, monkeypatch):
        """What is traced meanwhile is traced here."""
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", self.provider)
        yield self

    def all(self):
        return self._exporter.get_finished_spans()

    def named(self, beginning):
        return [span for span in self.all() if span.name.startswith(beginning)]

    def one(self, beginning):
        (found,) = self.named(beginning)
        return found


def trace_of(span):
    return f"{span.context.trace_id:032x}"


def parent_of(span):
    """The id of a span's parent, in hexadecimal; None of a root."""
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def id_of(span):
    return f"{span.context.span_id:016x}"


def links_of(span):
    """The ids of the spans that a span links to, by what each is to it."""
    return {link.attributes[traces.LINK]: f"{link.context.span_id:016x}" for link in span.links}
