import pytest
from stack_fixture import Scenarios, end_stack, start_stack

from holdfast.testing import ModelServer


@pytest.fixture(scope="session")
def stack():
    scenarios = Scenarios()
    with ModelServer(script=scenarios) as model:
        running = start_stack(model, scenarios)
        yield running
        end_stack(running)
