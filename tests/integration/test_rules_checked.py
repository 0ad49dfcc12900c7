"""A check of published rules needs Redis alone: neither Ray nor the app's code."""

import asyncio

import pytest
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import Agent, App, Rules, tool
from holdfast.client import AsyncClient, Client
from holdfast.client.publishing import Here
from holdfast.persistence import RedisStore

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.client.DurabilityWarning")  # a server of a test keeps nothing


@tool(primary="command", approval=lambda arguments: "install" in arguments["command"])
def bash(command: str) -> str:
    """Run a command."""
    return command


@pytest.fixture
async def url():
    """A Redis to which one app is published, under a path that leads to no module."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer() as server:
        store = RedisStore(server.url)
        await store.open()
        app = App(agents=[Agent(name="coder", tools=[bash])], rules=Rules(allow=["bash(npm *)"], deny=["bash(rm *)"]))
        here = await Here.of(app, "holdfast.cli.demo_app:app")
        record = here.record(b"k" * 32, StoreAddress(server.url, "holdfast", "store-1"))
        texts = {rules.digest: rules.to_json() for rules in here.rules.values()}
        await store.put_app(record.model_copy(update={"app": "elsewhere:app"}), here.specs, texts)
        await store.close()
        yield server.url


async def test_what_is_published_is_judged_by_a_client_without_the_app(url):
    commands = {"npm install": "allow", "npm test; rm -rf ~": "deny", "make": "ask"}  # the function would let make run
    async with AsyncClient.connect(app="elsewhere:app", redis_url=url) as client:
        found = {one: (await client.check_rules("coder", "bash", {"command": one})).effect for one in commands}
    assert found == commands

    def blocking():
        with Client.connect(redis_url=url) as client:
            return client.check_rules("coder", "bash", {"command": "rm x"}, app="elsewhere:app")

    denied = await asyncio.to_thread(blocking)
    assert (denied.effect, denied.rule, denied.by) == ("deny", "bash(rm *)", "rule")
