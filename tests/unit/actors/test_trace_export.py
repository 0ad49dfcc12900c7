"""The export of spans: set up where it is on, and never a reason to fail or to wait."""

import asyncio
import logging
import os
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from holdfast import traces
from holdfast.actors import trace_export
from holdfast.actors.trace_export import export_spans, flush_spans
from holdfast.settings import TraceSettings

ON = TraceSettings(on=True)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def providers(monkeypatch):
    """The providers that were set up, each of which is shut down."""
    found = []
    monkeypatch.setattr(trace, "set_tracer_provider", found.append)
    yield found
    for provider in found:
        provider.shutdown()


class Hanging(SpanExporter):
    """An exporter whose collector never answers."""

    def __init__(self):
        self.over = threading.Event()
        self.asked = threading.Event()

    def export(self, spans):
        self.asked.set()
        self.over.wait(30)
        return SpanExportResult.FAILURE

    def shutdown(self):
        self.over.set()


@pytest.fixture
def hanging(monkeypatch):
    exporter, provider = Hanging(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    exporter.over.set()
    provider.shutdown()


def test_nothing_is_set_up_unless_it_is_on(providers, monkeypatch):
    export_spans("actor:a1", TraceSettings())
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    export_spans("actor:a1", ON)

    assert providers == []


def test_spans_are_exported_over_otlp_as_those_of_this_process(providers):
    export_spans("actor:a1", ON)

    (provider,) = providers
    assert provider.resource.attributes["service.name"] == "holdfast"
    assert provider.resource.attributes["service.instance.id"] == "actor:a1"
    (processor,) = provider._active_span_processor._span_processors
    assert type(processor.span_exporter).__module__ == "opentelemetry.exporter.otlp.proto.http.trace_exporter"


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_SERVICE_NAME", "shop"), ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=shop")]
)
def test_the_service_has_the_name_that_a_variable_gives(providers, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    export_spans("actor:a1", ON)

    assert providers[0].resource.attributes["service.name"] == "shop"


@pytest.mark.parametrize(("name", "count"), [("console", 1), ("none", 0)])
def test_another_exporter_can_be_named(providers, monkeypatch, name, count):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", name)
    export_spans("actor:a1", ON)

    assert len(providers) == count


def test_a_provider_that_an_app_has_set_up_stays(providers, monkeypatch):
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))
    export_spans("actor:a1", ON)

    assert providers == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_TRACES_EXPORTER", "nonsense", "install holdfast[tracing]"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "otlp_proto_grpc"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "max_queue_size"),
    ],
)
def test_what_cannot_be_set_up_is_a_warning(providers, monkeypatch, caplog, name, value, said):
    monkeypatch.setenv(name, value)
    export_spans("actor:a1", ON)

    assert providers == []
    assert "spans are not exported" in caplog.text
    assert said in caplog.text


async def test_a_collector_that_does_not_answer_holds_up_no_work_and_no_end(hanging, caplog):
    caplog.set_level(logging.WARNING)
    async with asyncio.timeout(20):
        for _ in range(5000):  # more than the queue holds
            traces.end(traces.begin("work", {}, parent=None))
        await asyncio.to_thread(hanging.asked.wait, 10)
        await flush_spans(0.01)

    assert "the last spans were not sent: TimeoutError" in caplog.text


async def test_where_nothing_is_exported_there_is_nothing_to_flush():
    await flush_spans(0.01)

    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert trace_export.FLUSH_S > 0


def test_where_the_sdk_is_not_installed_there_is_a_warning_with_the_fix(providers, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    export_spans("actor:a1", ON)

    assert providers == []
    assert "install holdfast[tracing]" in caplog.text


@pytest.mark.parametrize("named", ["", "no_such_provider"])
def test_a_tracer_provider_that_cannot_be_loaded_is_a_warning_and_no_more(named):
    program = """
import asyncio, logging
logging.basicConfig()
from holdfast import traces
from holdfast.actors.trace_export import flush_spans
for _ in range(3):
    span = traces.begin("turn", {"a": 1}, parent=None)
    traces.end(span, ok=True)
asyncio.run(flush_spans())
print("done")
"""
    env = {**os.environ, "OTEL_PYTHON_TRACER_PROVIDER": named}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
    assert done.stderr.count("cannot be loaded: nothing is traced") == 1


def test_a_program_may_set_its_own_tracer_provider_after_one_that_cannot_be_loaded():
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from holdfast import traces
assert traces.tracer_provider() is None
own = TracerProvider()
trace.set_tracer_provider(own)
assert traces.tracer_provider() is own
"""
    env = {**os.environ, "OTEL_PYTHON_TRACER_PROVIDER": ""}
    subprocess.run([sys.executable, "-c", program], env=env, check=True)
