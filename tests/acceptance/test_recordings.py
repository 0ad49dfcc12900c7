"""All 200 recorded conversations, through the public client, on real Ray, real Redis and real litellm over HTTP."""

import asyncio
import json
import os

import pytest
import recorded_app
from recorded_play import play, shown, unique_ids
from stack_fixture import Scenarios, end_stack, start_stack

from holdfast.client import AsyncClient
from holdfast.testing import ModelServer

AT_ONCE = 12

pytestmark = pytest.mark.skipif(
    not recorded_app.DATA.is_dir() and not os.environ.get("CI"), reason="the recordings are not beside the checkout"
)


@pytest.fixture(scope="module")
def replaying():
    """A stack whose model replays the recordings."""
    recordings = recorded_app.recordings()
    with ModelServer(replay=[recording["messages"] for recording in recordings.values()]) as model:
        stack = start_stack(model, Scenarios())
        recorded_app.RUNS = stack.runs
        yield stack, recordings
        end_stack(stack)


@pytest.mark.gate
@pytest.mark.timeout(900)
async def test_every_recorded_conversation_ends_with_its_own_transcript_and_each_run_happened_once(replaying):
    stack, recordings = replaying
    slots = asyncio.Semaphore(AT_ONCE)

    async with AsyncClient.connect("recorded_app:app", timeout_s=120) as client:

        async def one(name: str) -> list[dict]:
            async with slots:
                return await play(client, name, recordings[name])

        names = sorted(recordings)
        transcripts = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

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
