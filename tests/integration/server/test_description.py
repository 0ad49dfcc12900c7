"""Requests of every kind against the description of the API: what fits is taken, what does not is refused, nothing breaks."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from holdfast.persistence import AccessScope
from holdfast.server import Authentication
from holdfast.server.app import OPERATIONS

from .conftest import served

TOO_LONG = 414
"""The status of a query that is longer than any that fits; schemathesis does not count it as a refusal."""


@pytest.fixture(scope="module")
def server():
    """A server that lets in holders of keys alone."""
    with served(authentication=Authentication(), failures_burst=1_000_000) as running:
        running.waiting("c-1")
        yield running


@pytest.fixture(scope="module")
def bearer(server):
    _, text = server.run(server.client.access.create_key("ana", list(AccessScope)))
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture(scope="module")
def described(server):
    """The description, of which no proof of a caller is varied: each request is sent with the key of `bearer`."""
    config = schemathesis.config.SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}})
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_does_what_it_says(server, bearer, described, operation, mode):
    server.run(server.store.bind("cluster-1", "127.0.0.1:6379", 15_000))  # a sweeper would do so every moment
    asked = described[operation.path][operation.method]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query or "{" in operation.path):
        return  # there is nothing to get wrong

    @settings(
        max_examples=3 if operation.endless else 25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=asked.as_strategy(generation_mode=mode))
    def check(case):
        if operation.name == "pause" and isinstance(case.body, dict) and mode is GenerationMode.POSITIVE:
            case.body["agent"] = "nobody"  # each other pause takes a second to stand
        response = case.call(timeout=1 if operation.endless else 30, headers=bearer)
        if response.status_code == TOO_LONG:
            return
        # What fits the description may still name what there is not.
        case.validate_response(response, excluded_checks=[positive_data_acceptance])

    check()
