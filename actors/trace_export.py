"""The export of this process's spans, as the `OTEL_*` variables of OpenTelemetry say."""

import asyncio
import logging
import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from opentelemetry import trace

from holdfast.daemon import in_daemon
from holdfast.redaction import PLAIN
from holdfast.settings import TraceSettings
from holdfast.traces import tracer_provider

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

EXPORTERS = "opentelemetry_traces_exporter"
"""The entry points of exporters."""
FLUSH_S = 3.0
"""How long a process that ends waits for its last spans to be sent."""
SERVICE = "holdfast"
"""The service that spans are of, where no `OTEL_*` variable names one."""

logger = logging.getLogger("holdfast.actor")


def export_spans(process: str, settings: TraceSettings) -> None:
    """Have this process export its spans, if that is on and no tracer provider is set up yet.

    Nothing here waits: a thread sends the spans, and those that find its queue full are dropped. An export that cannot be
    set up is a warning in the log, and what the process is for goes on.
    """
    if not settings.on or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        _set_up(process)
    except ModuleNotFoundError as error:
        logger.warning("spans are not exported: %s; install holdfast[tracing]", PLAIN.said(error, 300))
    except Exception as error:  # noqa: BLE001 - variables that OpenTelemetry refuses are no reason not to work
        logger.warning("spans are not exported: %s", PLAIN.said(error, 300))


async def flush_spans(within_s: float = FLUSH_S) -> None:
    """Send the spans that have ended, for so long at most: a collector that does not answer holds up nobody's end."""
    flush = getattr(tracer_provider(), "force_flush", None)
    if flush is None:
        return
    try:
        async with asyncio.timeout(within_s):
            await in_daemon(flush)
    except Exception as error:  # noqa: BLE001 - whatever the exporter raises
        logger.warning("the last spans were not sent: %s", PLAIN.said(error, 300))


def _set_up(process: str) -> None:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only processes that export have the SDK
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

    if tracer_provider() is not None or isinstance(trace._TRACER_PROVIDER, trace.NoOpTracerProvider):  # noqa: SLF001 - set so
        logger.info("spans go where the tracer provider that stands already sends them")
        return
    exporter = _exporter()
    if exporter is None:
        return
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    said = {"service.instance.id": process} | ({} if named else {"service.name": SERVICE})
    # What the SDK does at the interpreter's end may wait for the collector; `flush_spans` has a bound.
    provider = TracerProvider(resource=Resource.create(said), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _exporter() -> "SpanExporter | None":
    """The exporter that `OTEL_TRACES_EXPORTER` names, OTLP over HTTP if nothing else is; None for `none`."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if name == "none":
        return None
    if name == "otlp":
        protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        spoken = next(filter(None, map(os.environ.get, protocols)), "http/protobuf")
        name = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}.get(spoken, spoken)
    found = next(iter(entry_points(group=EXPORTERS, name=name)), None)
    if found is None:
        message = f"no package has the exporter {name}"
        raise ModuleNotFoundError(message)
    made: SpanExporter = found.load()()
    return made
