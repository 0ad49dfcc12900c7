"""A server for the tests of a module."""

import pytest
from served import served


@pytest.fixture(scope="module")
def server():
    with served() as running:
        running.waiting("c-1")
        yield running
