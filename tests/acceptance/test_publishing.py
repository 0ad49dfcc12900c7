"""Who publishes an app where a Redis is configured, and what somebody who writes to that Redis has workers do."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from stack_fixture import end_actors, results

from holdfast.actors.ray_launcher import find, named
from holdfast.client import Answer, AsyncClient, Status
from holdfast.conversation.text import jsontext
from holdfast.errors import ConversationNotFound
from holdfast.persistence import RedisStore
from holdfast.testing import ModelServer, call, calls

NAMESPACE = "published"
APP = "publish_app:app"
SOURCE = '''
from holdfast.agent import Agent, App, tool

@tool
def who() -> str:
    """Who runs this."""
    return "{who}"

@tool(executor="human")
def ask(question: str) -> str:
    """Ask the user."""

app = App(agents=[Agent(name="desk", instructions="{who}", tools=[who, ask])])
'''


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The app as production has it, and as a laptop has it."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("production", "laptop")}
    for name, folder in folders.items():
        (folder / "publish_app.py").write_text(SOURCE.format(who=name))
    return folders


@pytest.fixture
def configured(stack):
    """A way to run the command line where the Redis is configured, from somewhere, with a key."""

    async def run(folder: Path, *arguments: str, key: str = "sk-test", code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast.cli", *arguments),
            *("--redis-url", stack.redis_url, "--namespace", NAMESPACE, "--app", APP),
            cwd=folder,
            env={**os.environ, "OPENAI_API_KEY": key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == code, said.decode()
        return said.decode()

    return run


@pytest.fixture
async def published(stack):
    """The store of that namespace."""
    store = RedisStore(stack.redis_url, namespace=NAMESPACE)
    await store.open()
    yield store
    await store.close()


async def workers(settings):
    """The names of the workers that there are; those of code that was published before are about to end."""
    return {name for name in await asyncio.to_thread(named, settings.family) if ":worker:" in name}


@pytest.mark.gate
async def test_a_laptop_does_not_switch_production(stack, sources, configured, published):
    file = sources["laptop"] / "one.jsonl"
    text = stack.scenarios.add("laptop", calls(call("who", {})), "Done.")
    file.write_text(json.dumps({"agent": "desk", "messages": [text], "conversation_id": "laptop-1"}))

    # given an app that nobody has published, nobody starts anything with it
    said = await configured(sources["laptop"], "submit", str(file), code=2)
    assert f"nobody has published '{APP}'" in said
    assert f"holdfast up --app {APP}" in said
    with pytest.raises(ConversationNotFound):
        await published.load("laptop-1")

    # when production has published it, and a laptop with other code and another key runs something
    await configured(sources["production"], "up", key="sk-production")
    record = await published.app(APP)
    async with AsyncClient.connect(redis_url=stack.redis_url, namespace=NAMESPACE, timeout_s=60) as connected:
        settings = (await connected.gateway.stack.transport()).settings
        before = {name: await find(name).pid.remote() for name in await workers(settings)}
        said = await configured(sources["laptop"], "submit", str(file), key="sk-laptop")

        # then the laptop is told, and production is as it was
        assert "its code; its agents (desk); the variables OPENAI_API_KEY" in said
        assert f"holdfast up --app {APP}" in said
        assert "sk-" not in said
        assert await published.app(APP) == record
        assert {name: await find(name).pid.remote() for name in await workers(settings)} == before
        (result,) = results(await connected.conversation("laptop-1").messages())
        assert result == {"ok": True, "result": "production"}
        sent = stack.model.requests[-1]
        assert (sent.body["messages"][0]["content"], sent.authorization) == ("production", "Bearer sk-production")

        # and who has what production has is told nothing
        assert "published" not in await configured(sources["production"], "submit", str(file), key="sk-production")


async def test_whoever_writes_to_redis_neither_has_a_module_imported_nor_a_key_sent_elsewhere(
    stack, sources, configured, published, tmp_path
):
    await configured(sources["production"], "up")
    record = await published.app(APP)
    text = stack.scenarios.add("planted", calls(call("ask", {"question": "?"})), "Done.", "Again.")
    (tmp_path / "publish_app.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n{SOURCE.format(who='planted')}")
    with ModelServer(script=["stolen"] * 9) as elsewhere:
        async with AsyncClient.connect(redis_url=stack.redis_url, namespace=NAMESPACE, timeout_s=60) as client:
            settings = (await client.gateway.stack.transport()).settings
            conversation = await start(stack, sources["production"], configured, client, text)
            (shown,) = conversation.pending

            # given a spec with another address under the digest of the turn that waits, and a record with another path
            spec = await published.spec(record.agents["desk"])
            options = jsontext.dumps({"api_base": elsewhere.url})
            planted = spec.model_copy(update={"model_options": options, "instructions": "planted"}).stored_as(spec.digest)
            forged = record.model_copy(update={"python_path": (str(tmp_path), *record.python_path), "code": "planted"})
            before = await workers(settings)
            await published.put_app(forged, [planted])

            # when the turn goes on, and another is to begin
            receipt = await shown.resolve(Answer("yes"))
            there = client.conversation(shown.conversation_id)
            state = await there.wait(after=receipt.seq, timeout_s=60)
            assert (state.status, state.reply) == (Status.IDLE, "Done.")
            receipt = await there.send("and again")

            async def problem():
                return await published.problem(APP)

            # then it waits, and the app says why; nothing was imported, and nobody was called elsewhere
            await true(problem)
            assert "not signed by this cluster: run holdfast up --app publish_app:app" in await problem()
            assert (await there.state()).status is Status.GENERATING
            assert await workers(settings) <= before
            assert stack.model.requests[-1].body["messages"][0]["content"] == "production"

            said = await configured(sources["production"], "doctor", "--json", code=1)
            assert "is imported nowhere: its record in the store was not signed" in said

            # and goes on once somebody who may has published the app
            await configured(sources["production"], "up")
            state = await there.wait(after=receipt.seq, timeout_s=60)
            assert (state.status, state.reply) == (Status.IDLE, "Again.")
            assert await problem() is None
            await end_actors(client)
        assert not elsewhere.requests
    assert not (tmp_path / "imported").exists()


async def start(stack, folder, configured, client, text):
    """A conversation that was started from the command line, once it waits."""
    file = folder / "planted.jsonl"
    file.write_text(json.dumps({"agent": "desk", "messages": [text], "conversation_id": "planted-1"}))
    await configured(folder, "submit", str(file), code=5)
    return await client.conversation("planted-1").state()


async def true(condition):
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.05)
