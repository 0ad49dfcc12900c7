"""All 200 recorded conversations, through the public client, on real Ray, real Redis and real litellm over HTTP."""

import asyncio
import json
import os
from collections import Counter

import pytest
import recorded_app
from stack_fixture import Scenarios, end_stack, start_stack

from holdfast.client import Answer, Approve, AsyncClient, Status, SuspensionKind
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


async def play(client: AsyncClient, name: str, recording: dict) -> list[dict]:
    """Hold a recorded conversation: say what its user said, resolve what waits; the messages at its end."""
    messages = recording["messages"]
    texts = [message["content"] for message in messages if message["role"] == "user"]
    calls = recorded_app.calls_of(messages)
    agent = name if "tools" in recording else "airline"
    conversation = await client.start(agent, texts.pop(0), conversation_id=name)
    receipt = conversation.receipt
    answered: Counter[str] = Counter()
    while True:
        state = await conversation.wait(after=receipt.seq, timeout_s=120)
        match state.status:
            case Status.AWAITING_INPUT:
                for call in state.pending:
                    if call.kind is SuspensionKind.APPROVAL:
                        receipt = await call.resolve(Approve())
                        continue
                    key = json.dumps([call.tool, call.arguments])
                    result = recorded_app.result_of(calls, call.tool_call_id, call.tool, call.arguments, answered[key])
                    answered[key] += 1
                    receipt = await call.resolve(Answer(result))
            case Status.IDLE if texts:
                receipt = await conversation.send(texts.pop(0))
            case Status.IDLE | Status.FAILED:
                assert not texts
                ends_early = messages[-1]["role"] == "tool"
                assert (state.status is Status.FAILED) == ends_early, state
                return await conversation.messages()
            case _:
                pytest.fail(f"{name} did not come to rest: {state}")


def shown(messages: list[dict], unique: set[str], *, recorded: bool) -> list:
    """What two transcripts must agree on: roles, contents, names, arguments, bare results, and ids where they were unique."""
    found = []
    for message in messages:
        content = message["content"]
        if message["role"] == "tool" and not recorded:
            envelope = json.loads(content)
            assert envelope.pop("ok") is True, envelope
            content = envelope.pop("result")
            assert envelope in ({}, {"untrusted": True})
        calls = [
            (
                call["id"] if call["id"] in unique else "-",
                call["function"]["name"],
                call["function"]["arguments"],
            )
            for call in message.get("tool_calls") or []
        ]
        call_id = message.get("tool_call_id")
        found.append((message["role"], content, message.get("name"), call_id if call_id in unique else "-", calls))
    return found


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
        unique = {call["id"] for call in recorded_app.calls_of(recording) if call["unique"]}
        assert shown(messages, unique, recorded=False) == shown(recording, unique, recorded=True), name
        log = stack.runs / name
        runs = [json.loads(line)["key"] for line in log.read_text().splitlines()] if log.exists() else []
        tools = recordings[name].get("tools") or json.loads((recorded_app.DATA / "airline.agent.json").read_text())["tools"]
        server = {tool["name"] for tool in tools if tool["executor"] == "server"}
        asked = [call for message in messages for call in message.get("tool_calls") or []]
        ran = [call["id"] for call in asked if call["function"]["name"] in server]
        assert sorted(runs) == sorted(ran), name
