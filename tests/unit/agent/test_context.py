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


def test_progress_says_how_far_the_body_is():
    heard: list[object] = []
    listening = context(report=lambda value, message, **how_far: heard.append((value, message, how_far)))
    listening.report_progress(message="so far", status="downloading", loaded=3, total=7.5)
    listening.report_progress({"done": 1}, loaded=0)
    assert heard == [
        (None, "so far", {"status": "downloading", "loaded": 3, "total": 7.5}),
        ({"done": 1}, None, {"loaded": 0}),
    ]


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        *(("status", bad) for bad in ("", "x" * 65, 7)),
        *((field, bad) for field in ("loaded", "total") for bad in (-1, float("nan"), float("inf"), "3", True, 1 << 53)),
    ],
)
def test_what_says_not_how_far_the_body_is_is_refused(field, bad):
    heard: list[object] = []
    with pytest.raises(InvalidInput) as caught:
        context(report=lambda *given, **more: heard.append((given, more))).report_progress(1, **{field: bad})
    assert caught.value.field == field
    assert heard == []


def test_progress_has_a_bound_in_size_and_the_error_names_it():
    heard = []
    with pytest.raises(InvalidInput, match="65536 are allowed"):
        context(report=lambda *given: heard.append(given)).report_progress("x" * PROGRESS_BYTES)
    assert heard == []
