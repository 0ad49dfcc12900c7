"""The defaults that are taken from the machine, and the settings of log lines."""

import pytest

from holdfast import settings as module
from holdfast.errors import ConfigurationError
from holdfast.settings import LogForm, LogSettings, Settings, TraceContinuation, TraceSettings


@pytest.mark.parametrize(
    ("limit", "actors"),
    [("4000000000", 10), ("2000000000", 8), ("max", 60), ("", 60)],
    ids=["container", "small container", "no limit", "unreadable"],
)
def test_the_cap_of_live_actors_is_taken_from_the_memory_there_is(monkeypatch, tmp_path, limit, actors):
    found = tmp_path / "memory.max"
    found.write_text(limit)
    monkeypatch.setattr(module, "CGROUP_LIMITS", (found, tmp_path / "none"))
    monkeypatch.setattr(module.os, "sysconf", {"SC_PHYS_PAGES": 24_000_000_000 // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)

    assert Settings.of().max_actors == actors


def test_the_level_and_form_of_log_lines_are_settings(monkeypatch):
    assert Settings.of().log == LogSettings("INFO", None)
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "debug")
    monkeypatch.setenv("HOLDFAST_LOG_FORMAT", "json")
    assert Settings.of().log == LogSettings("DEBUG", LogForm.JSON)


@pytest.mark.parametrize(("name", "value"), [("log_level", "LOUD"), ("log_format", "xml")])
def test_a_level_or_form_that_is_none_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"HOLDFAST_{name.upper()}"):
        Settings.of(**{name: value})


def test_traces_are_off_and_without_content_unless_settings_say_otherwise(monkeypatch):
    assert Settings.of().tracing == TraceSettings(on=False, continuation=TraceContinuation.PARENT, content=False)
    for name, value in (("TRACES", "on"), ("TRACE_CONTINUATION", "link"), ("TRACE_CONTENT", "on")):
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    assert Settings.of().tracing == TraceSettings(on=True, continuation=TraceContinuation.LINK, content=True)


@pytest.mark.parametrize(("name", "value"), [("traces", "perhaps"), ("trace_continuation", "child"), ("trace_content", "some")])
def test_a_setting_of_traces_that_is_none_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"HOLDFAST_{name.upper()}"):
        Settings.of(**{name: value})
