import pytest
from collector import Collector
from stack_fixture import Scenarios, end_stack, start_stack

from holdfast.client import AsyncClient
from holdfast.persistence import RedisStore
from holdfast.testing import ModelServer


@pytest.fixture(scope="session")
def collector():
    taking = Collector()
    yield taking
    taking.close()


@pytest.fixture(scope="session")
def stack(collector):
    scenarios = Scenarios()
    exports = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}  # to those who trace
    with ModelServer(script=scenarios) as model:
        running = start_stack(model, scenarios, **exports)
        yield running
        end_stack(running)


@pytest.fixture
async def client(stack):
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as connected:
        yield connected


@pytest.fixture
async def store(stack):
    opened = RedisStore(stack.redis_url)
    await opened.open()
    yield opened
    await opened.close()
