import asyncio
import contextlib
from pathlib import Path

import folder_stack
import pytest
from collector import Collector
from stack_fixture import Scenarios, end_other_namespaces, end_stack, start_stack

from holdfast.client import AsyncClient
from holdfast.errors import HoldfastError
from holdfast.persistence import RedisStore
from holdfast.testing import ModelServer

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    folder_stack.after(item, nextitem)


@pytest.fixture(scope="module", autouse=True)
def others_end(request):
    """The namespaces that the tests of a file have had for themselves end with it: idle ones slow the other tests down."""
    yield
    if folder_stack.is_open(request.session, FOLDER):
        with contextlib.suppress(HoldfastError, AssertionError):
            asyncio.run(end_other_namespaces())


@pytest.fixture(scope="session")
def collector():
    taking = Collector()
    yield taking
    taking.close()


@pytest.fixture(scope="session")
def stack(collector, request):
    scenarios = Scenarios()
    exports = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}  # to those who trace
    with folder_stack.ends_with_folder(request, FOLDER) as opened:
        running = start_stack(opened.enter_context(ModelServer(script=scenarios)), scenarios, **exports)
        opened.callback(end_stack, running)
        yield running


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
