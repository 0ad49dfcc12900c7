"""Every error has a status of its own in one table, and its public fields in the problem document."""

import json

import pytest
from errors_to_show import EXPORTED, REFUSED, SHOWN, as_told

from holdfast.error_codes import code_of, error_of
from holdfast.errors import (
    BatchRefused,
    LeaseHeld,
    OutcomeUnknown,
    Overloaded,
    QueueFull,
    StaleCall,
    StaleReason,
    StoreUnavailable,
    TooManyClients,
)
from holdfast.server.error_responses import response_of
from holdfast.server.refusal import Refusal


def document(error):
    response = response_of(error)
    return response, json.loads(response.body)


@pytest.mark.parametrize("error", EXPORTED, ids=lambda error: error.__name__)
def test_a_problem_has_the_fields_of_the_error_and_what_the_standard_asks_for(error):
    raised = SHOWN[error]
    response, problem = document(raised)

    assert response.media_type == "application/problem+json"
    assert (response.status_code, problem["status"]) == (error.http_code, error.http_code)
    assert (problem["code"], problem["title"]) == (code_of(error), error.__name__)
    assert problem["type"] == f"urn:holdfast:error:{problem['code']}"
    assert str(raised) in problem["detail"]
    told = vars(raised) | ({"errors": problem["errors"]} if error is BatchRefused else {})
    assert {name: problem[name] for name in vars(raised)} == told


@pytest.mark.parametrize("error", EXPORTED, ids=lambda error: error.__name__)
def test_a_problem_is_read_as_the_error_that_it_was_made_of(error):
    raised = SHOWN[error]
    _, problem = document(raised)

    read = error_of(problem)

    assert as_told(read) == as_told(raised)


def test_the_refusal_of_several_decisions_has_the_problem_of_each():
    _, problem = document(BatchRefused("c-1", REFUSED))
    assert [(one["suspension_id"], one["code"], one["status"]) for one in problem["errors"]] == [
        ("s-1", "stale_call", 409),
        ("s-2", "invalid_decision", 422),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"conversation_id": 7},
        {"errors": None},
        {"errors": {"s-1": {}}},
        {"errors": ["s-1"]},
        {"errors": [{"suspension_id": 7, "code": "stale_call"}]},
        {"errors": [{"suspension_id": "s-1", "code": "teapot"}]},
        {"errors": [{"suspension_id": "s-1", "code": "stale_call"}]},
        {"errors": [{"suspension_id": "s-1", "code": "batch_refused", "conversation_id": "c-1", "errors": []}]},
    ],
)
def test_a_refusal_of_several_decisions_that_cannot_be_read_is_none(changed):
    _, problem = document(BatchRefused("c-1", REFUSED))
    assert error_of(problem) is not None
    assert error_of(problem | changed) is None


def test_a_problem_that_no_error_fits_is_none():
    assert error_of({"code": "teapot", "detail": "short and stout"}) is None
    assert error_of({"code": "conversation_not_found"}) is None
    assert error_of({"code": ["conversation_not_found"]}) is None


def test_codes_tell_errors_apart():
    assert len({code_of(error) for error in EXPORTED}) == len(EXPORTED)
    assert code_of(StaleCall) == "stale_call"


def test_an_error_of_somebody_elses_class_has_the_status_of_its_base():
    class MyStoreIsFull(StoreUnavailable):
        """Another store's own error."""

    assert MyStoreIsFull("full").http_code == StoreUnavailable.http_code


def test_a_stale_call_says_what_settled_it():
    _, problem = document(StaleCall("c-1", "call_1", StaleReason.ALREADY_RESOLVED, "deny", 5))
    assert (problem["reason"], problem["settled_by"], problem["settled_at"]) == ("already_resolved", "deny", 5)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Overloaded("c-1", 2_500), "3"),
        (Overloaded("c-1", 0), "1"),
        (LeaseHeld("c-1", 900), "1"),
        (QueueFull("c-1", 100), "1"),
        (TooManyClients("c-1", 64), "1"),
    ],
)
def test_what_goes_through_later_says_when(error, seconds):
    assert response_of(error).headers["retry-after"] == seconds


def test_an_unknown_outcome_says_that_the_same_key_is_safe_and_names_it():
    _, problem = document(OutcomeUnknown("the message", "m-1"))
    assert problem["retry_id"] == "m-1"
    assert "safe to repeat the request with the same Idempotency-Key (m-1)" in problem["detail"]


def test_secrets_are_in_no_problem():
    _, problem = document(StoreUnavailable("redis://:hunter22@db:6379 does not answer"))
    assert "hunter22" not in json.dumps(problem)


def test_a_refusal_of_the_server_has_its_own_fields_and_headers():
    response, problem = document(Refusal(413, "body_too_large", "send less", {"limit": 3}, {"Connection": "close"}))
    assert (response.status_code, problem["code"], problem["limit"]) == (413, "body_too_large", 3)
    assert (problem["detail"], response.headers["connection"]) == ("send less", "close")
