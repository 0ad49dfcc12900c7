"""Holding a recorded conversation again: what its user said and did, and whether it came out the same."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import recorded_app

from holdfast.client import Answer, Approve, AsyncClient, Redispatch, Status, StoreUnavailable, SuspensionKind

_T = TypeVar("_T")
AGAIN_S = 0.2


async def play(client: AsyncClient, name: str, recording: dict[str, Any], *, patience_s: float = 0) -> list[dict[str, Any]]:
    """Hold a recorded conversation: say what its user said, resolve what waits; the messages at its end.

    With patience, what cannot be read is read again for so long; what is asked for, the client repeats by itself.
    """
    messages = recording["messages"]
    texts = [message["content"] for message in messages if message["role"] == "user"]
    calls = recorded_app.calls_of(messages)
    agent = name if "tools" in recording else "airline"
    conversation = await client.start(agent, texts.pop(0), conversation_id=name)
    receipt = conversation.receipt
    answered: Counter[str] = Counter()
    while True:
        state = await _read(patience_s, lambda: conversation.wait(after=receipt.seq, timeout_s=120))  # noqa: B023 - at once
        match state.status:
            case Status.AWAITING_INPUT:
                for call in state.pending:
                    match call.kind:
                        case SuspensionKind.APPROVAL:
                            receipt = await call.resolve(Approve())
                        case SuspensionKind.LOST:
                            receipt = await call.resolve(Redispatch())
                        case _:
                            key = json.dumps([call.tool, call.arguments])
                            found = recorded_app.result_of(calls, call.tool_call_id, call.tool, call.arguments, answered[key])
                            answered[key] += 1
                            receipt = await call.resolve(Answer(found))
            case Status.QUARANTINED if patience_s:
                await conversation.retry()
            case Status.IDLE if texts:
                receipt = await conversation.send(texts.pop(0))
            case Status.IDLE | Status.FAILED:
                assert not texts
                ends_early = messages[-1]["role"] == "tool"
                assert (state.status is Status.FAILED) == ends_early, state
                return await _read(patience_s, conversation.messages)
            case _:
                pytest.fail(f"{name} did not come to rest: {state}")


async def _read(patience_s: float, read: Callable[[], Awaitable[_T]]) -> _T:
    """What is read; where it cannot be read, again for as long as patience lasts."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + patience_s
    while True:
        try:
            return await read()
        except StoreUnavailable:
            if loop.time() > give_up:
                raise
        await asyncio.sleep(AGAIN_S)


def unique_ids(messages: list[dict[str, Any]]) -> set[str]:
    """The ids of calls that occur once in a recording; the others are made anew."""
    return {call["id"] for call in recorded_app.calls_of(messages) if call["unique"]}


def shown(messages: list[dict[str, Any]], unique: set[str], *, recorded: bool) -> list[Any]:
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
