"""All 200 recorded conversations, through the public client, on real Ray, real Redis and real litellm over HTTP."""

import asyncio
import contextlib
import json
import os

import pytest
import recorded_app
from recorded_play import play, shown, unique_ids
from stack_fixture import Scenarios, end_stack, start_stack

from holdfast.client import AsyncClient
from holdfast.persistence import RedisStore
from holdfast.registry.inventory import processes
from holdfast.registry.pool import RESERVE
from holdfast.testing import ModelServer

AT_ONCE = 12
MODEL_S = 0.3
TWO_ACTORS = {"HOLDFAST_MAX_ACTORS": "2", "HOLDFAST_PARK_S": "0.01"}
"""Settings with which a conversation is left wherever its model is slower than that."""

pytestmark = pytest.mark.skipif(
    not recorded_app.DATA.is_dir() and not os.environ.get("CI"), reason="the recordings are not beside the checkout"
)


@pytest.fixture(scope="module")
def recordings():
    return recorded_app.recordings()


@contextlib.contextmanager
def replaying(recordings, **settings):
    """A stack whose model replays the recordings."""
    with ModelServer(replay=[recording["messages"] for recording in recordings.values()]) as model:
        stack = start_stack(model, Scenarios(), **settings)
        recorded_app.RUNS = stack.runs
        try:
            yield stack
        finally:
            end_stack(stack)


def asked_of_the_model(recording):
    """How often the model is asked in a recording; where it ends with a tool's message, once in vain."""
    roles = [message["role"] for message in recording["messages"]]
    return roles.count("assistant") + (roles[-1] == "tool")


async def held(client, recordings, **how):
    """All recorded conversations, held again; their transcripts by name."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> list[dict]:
        async with slots:
            return await play(client, name, recordings[name], **how)

    names = sorted(recordings)
    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


def equal(stack, recordings, transcripts):
    """Each conversation ended with its own transcript, and each run happened once."""
    for name, messages in transcripts.items():
        recording = recordings[name]["messages"]
        unique = unique_ids(recording)
        assert shown(messages, unique, recorded=False) == shown(recording, unique, recorded=True), name
        log = stack.runs / name
        runs = [json.loads(line)["key"] for line in log.read_text().splitlines()] if log.exists() else []
        tools = recordings[name].get("tools") or json.loads((recorded_app.DATA / "airline.agent.json").read_text())["tools"]
        server = {tool["name"] for tool in tools if tool["executor"] == "server"}
        asked = [call for message in messages for call in message.get("tool_calls") or []]
        ran = [call["id"] for call in asked if call["function"]["name"] in server]
        assert sorted(runs) == sorted(ran), name


@pytest.mark.gate
@pytest.mark.timeout(900)
async def test_every_recorded_conversation_ends_with_its_own_transcript_and_each_run_happened_once(recordings):
    with replaying(recordings) as stack:
        async with AsyncClient.connect("recorded_app:app", timeout_s=120) as client:
            transcripts = await held(client, recordings)
        equal(stack, recordings, transcripts)


@pytest.mark.gate
@pytest.mark.timeout(900)
async def test_calls_that_wait_for_one_another_and_are_decided_together_lead_to_the_same_transcripts(recordings):
    with replaying(recordings) as stack:
        async with AsyncClient.connect("recorded_app:in_turn", timeout_s=120) as client:
            transcripts = await held(client, recordings, together=True)
        equal(stack, recordings, transcripts)


@pytest.mark.gate
@pytest.mark.timeout(900)
async def test_on_two_actors_which_leave_each_conversation_while_its_model_works_the_transcripts_are_the_same(recordings):
    with replaying(recordings, **TWO_ACTORS) as stack:
        stack.model.slow(first_token_s=MODEL_S)
        async with AsyncClient.connect("recorded_app:app", timeout_s=120) as client:
            transcripts = await held(client, recordings)
            settings = (await client._stack.transport()).settings
            actors = [process for process in await asyncio.to_thread(processes, settings) if ":actor:" in process.name]
        equal(stack, recordings, transcripts)
        store = RedisStore(stack.redis_url)
        await store.open()
        epochs = [(await store.owner(name)).epoch for name in transcripts]
        await store.close()
        assert len(actors) <= int(TWO_ACTORS["HOLDFAST_MAX_ACTORS"]) + RESERVE
        requests = sum(map(asked_of_the_model, recordings.values()))
        assert len(stack.model.requests) == requests  # each model call was made once,
        assert sum(epochs) > requests  # and for most of them the conversation was left and taken up again
