import pytest

from holdfast.agent import ToolContext
from holdfast.agent.context import PROGRESS_BYTES
from holdfast.errors import InvalidInput


def context(**more):
    return ToolContext(conversation_id="c-1", turn_id="t-1", tool_call_id="call_1", **more)


def test_a_context_needs_no_more_than_its_ids():
    found = context()
    assert (found.attempt, found.context, found.resources) == (1, None, None)


def test_progress_without_a_listener_names_the_fix():
    with pytest.raises(RuntimeError, match="streaming=True"):
        context().report_progress(1)


@pytest.mark.parametrize("value", [float("nan"), object(), {1: 2}, "\ud800"])
def test_progress_that_is_not_json_is_refused_and_not_reported(value):
    heard: list[object] = []
    with pytest.raises(InvalidInput) as caught:
        context(report=lambda *given: heard.append(given)).report_progress(value)
    assert caught.value.field == "progress"
    assert heard == []


def test_falsy_progress_is_progress():
    heard: list[object] = []
    context(report=lambda value, _message: heard.append(value)).report_progress(None)
    assert heard == [None]


def test_progress_has_a_bound_in_size_and_the_error_names_it():
    heard = []
    with pytest.raises(InvalidInput, match="65536 are allowed"):
        context(report=lambda *given: heard.append(given)).report_progress("x" * PROGRESS_BYTES)
    assert heard == []
