"""Trace contexts: what is one, who calls, and how spans follow from one."""

import subprocess
import sys

import pytest
from spans import CALLER, Spans, links_of, parent_of, trace_of

from holdfast import traces, work_context

OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


@pytest.fixture
def spans(monkeypatch):
    with Spans().collected(monkeypatch) as collected:
        yield collected


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (CALLER, CALLER),
        (CALLER[:-2] + "00", CALLER[:-2] + "00"),
        (CALLER[:-2] + "03", CALLER[:-2] + "03"),
        (CALLER[:-2] + "ff", CALLER[:-2] + "03"),
        ("cc" + CALLER[2:] + "-what-comes-later", CALLER),
        ("cc" + CALLER[2:], CALLER),
    ],
    ids=["sampled", "not sampled", "random", "unknown flags", "a later version", "a later version of today's length"],
)
def test_a_trace_context_is_kept_in_the_form_of_today(given, found):
    assert work_context.checked_traceparent(given) == found


@pytest.mark.parametrize(
    "given",
    [
        "",
        None,
        7,
        "nonsense",
        CALLER + "-more",
        CALLER + "\n",
        CALLER.upper(),
        "ff" + CALLER[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        CALLER[:-1],
        "cc" + CALLER[2:] + "." + "x",
        "cc" + CALLER[2:] + "-" + "x" * 600,
    ],
)
def test_what_is_none_is_ignored(given):
    assert work_context.checked_traceparent(given) is None
    assert traces.span_context(given) is None


def test_the_caller_is_the_current_span_else_what_the_request_came_with(spans):
    assert work_context.caller_traceparent() is None
    token = work_context.CALLER.set(OTHER)
    try:
        assert work_context.caller_traceparent() == OTHER
        span = traces.begin("mine", {}, parent=CALLER)
        with traces.during(span):
            assert work_context.caller_traceparent() == work_context.traceparent_of(span)
        assert work_context.caller_traceparent() == OTHER
    finally:
        work_context.CALLER.reset(token)
    assert trace_of(spans.one("mine")) == CALLER[3:35]


def test_whoever_has_not_imported_opentelemetry_does_not_import_it_to_say_who_calls():
    code = "import sys; from holdfast.work_context import caller_traceparent as of; print(of(), 'opentelemetry' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert said.stdout.strip() == "None False"


def test_a_span_has_parent_links_and_times(spans):
    links = {"before": OTHER, "nobody": None, "bad": "bad"}
    span = traces.begin("wait", {"a": 1, "b": None}, parent=CALLER, links=links, at_ms=1_700_000_000_123)
    traces.end(span, ok=True, at_ms=1_700_000_086_400)

    wait = spans.one("wait")
    assert (parent_of(wait), links_of(wait)) == (CALLER[36:52], {"before": OTHER[36:52]})
    assert (wait.start_time, wait.end_time) == (1_700_000_000_123_000_000, 1_700_000_086_400_000_000)
    assert dict(wait.attributes) == {"a": 1}


def test_the_text_of_an_exception_does_not_get_into_a_span(spans):
    def failing():
        message = "the password is hunter2"
        raise ValueError(message)

    with pytest.raises(ValueError, match="hunter2"), traces.during(traces.begin("work", {}, parent=None)):
        failing()

    work = spans.one("work")
    assert work.attributes["error.type"] == "ValueError"
    assert "hunter2" not in work.to_json()


def test_without_a_provider_a_span_is_the_context_of_its_parent():
    assert work_context.traceparent_of(traces.begin("x", {}, parent=CALLER)) == CALLER
    assert work_context.traceparent_of(traces.begin("x", {}, parent=None)) is None
