"""The export of this process's spans, configured by OpenTelemetry's `OTEL_*` variables."""

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
FLUSH_S = 3.0
"""Seconds that an ending process waits for its last spans to be sent."""
SERVICE = "holdfast"
"""The service name of spans, unless an `OTEL_*` variable sets one."""

logger = logging.getLogger("holdfast.actor")


def export_spans(process: str, settings: TraceSettings) -> None:
    """Have this process export its spans, if that is on and no tracer provider is set up yet.

    Nothing waits here: a thread sends the spans, and a full queue drops further ones. A failed setup is logged as a warning,
    and the process works on.
    """
    if not settings.on or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        _set_up(process)
    except ModuleNotFoundError as error:
        logger.warning("spans are not exported: %s; install holdfast[tracing]", PLAIN.said(error, 300))
    except Exception as error:  # noqa: BLE001 - a process works even if OpenTelemetry refuses its variables
        logger.warning("spans are not exported: %s", PLAIN.said(error, 300))


async def flush_spans(within_s: float = FLUSH_S) -> None:
    """Send the spans that have ended, within `within_s`: a collector that does not answer must not delay the process's end."""
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
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - only processes that export have the SDK
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - only processes that export have the SDK

    if tracer_provider() is not None or isinstance(trace._TRACER_PROVIDER, trace.NoOpTracerProvider):  # noqa: SLF001 - the app has turned tracing off
        logger.info("a tracer provider is set up already, and exports the spans")
        return
    exporter = _exporter()
    if exporter is None:
        return
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    said = {"service.instance.id": process} | ({} if named else {"service.name": SERVICE})
    # At exit the SDK may wait for the collector without limit; `flush_spans` has a time limit.
    provider = TracerProvider(resource=Resource.create(said), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _exporter() -> "SpanExporter | None":
    """The exporter named by `OTEL_TRACES_EXPORTER`, by default OTLP over HTTP; None for `none`."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if name == "none":
        return None
    if name == "otlp":
        protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        spoken = next(filter(None, map(os.environ.get, protocols)), "http/protobuf")
        name = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}.get(spoken, spoken)
    found = next(iter(entry_points(group=EXPORTERS, name=name)), None)
    if found is None:
        raise ModuleNotFoundError(f"no package has the exporter {name}")
    made: SpanExporter = found.load()()
    return made
