"""Holding a recorded conversation again: what its user said and did, and whether it came out the same."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import recorded_app
from attached_client import attached

from holdfast.client import (
    Answer,
    Approve,
    AsyncClient,
    AsyncConversation,
    AsyncPendingCall,
    Decision,
    Receipt,
    Redispatch,
    StaleCall,
    Status,
    StoreUnavailable,
    SuspensionKind,
)
from holdfast.conversation import SettledBy

_T = TypeVar("_T")
AGAIN_S = 0.2


def plainly(_: AsyncPendingCall) -> Approve:
    """An approval of one call."""
    return Approve()


async def play(
    client: AsyncClient,
    name: str,
    recording: dict[str, Any],
    *,
    patience_s: float = 0,
    together: bool = False,
    approve: Callable[[AsyncPendingCall], Approve] = plainly,
    child: AsyncConversation | None = None,
    steer: bool = False,
    attach: bool = False,
) -> list[dict[str, Any]]:
    """Hold a recorded conversation: say what its user said, resolve what waits; the messages at its end.

    What waits at a time is decided one by one, or `together`; `approve` says how. What a grant has settled by then is left out.
    With patience, what cannot be read is read again for so long; what is asked for, the client repeats by itself.
    The name is the conversation's id: it says the recording and the agent, as `recorded_app` reads it. A `child` is held, which
    another conversation has started with what the user said, and which ends with its reply. With `steer`, each second text is
    sent while the model gives the last answer of the turn before, which it then joins. With `attach`, a client carries out the
    calls that wait for one.
    """
    messages = recording["messages"]
    texts = [message["content"] for message in messages if message["role"] == "user"]
    calls = recorded_app.calls_of(messages)
    answers = answers_of(messages)
    first = texts.pop(0)
    conversation = child or await client.start(recorded_app.agent_of(name), first, conversation_id=name)
    seq, within_s = 0 if child else conversation.receipt.seq, max(120, patience_s)
    answered: Counter[str] = Counter()
    steering = _steering(conversation, seq, answers[0], texts) if steer else None
    async with attached(conversation, recorded_app.handlers(name)) if attach else contextlib.nullcontext():
        while True:
            state = await _read(patience_s, lambda: conversation.wait(after=seq, timeout_s=within_s))  # noqa: B023 - at once
            match state.status:
                case Status.AWAITING_INPUT:
                    waiting = [call for call in state.pending if not attach or call.kind is not SuspensionKind.CLIENT_EXEC]
                    seq = state.seq if attach else seq
                    decisions = [(call, _decision(call, calls, answered, approve)) for call in waiting]
                    if together:
                        named = {call.suspension_id: decision for call, decision in decisions}
                        seq = (await conversation.resolve_many(named))[-1].seq
                    else:
                        for call, decision in decisions:
                            receipt = await _resolved(call, decision)
                            seq = seq if receipt is None else receipt.seq
                case Status.QUARANTINED if patience_s:
                    await conversation.retry()
                case Status.IDLE if steering is not None:
                    seq, steering = await steering, None
                case Status.IDLE if texts:
                    seq = (await conversation.send(texts.pop(0))).seq
                    steering = _steering(conversation, seq, answers[-len(texts) - 1], texts) if steer else None
                case Status.IDLE | Status.FAILED:
                    assert not texts
                    ends_early = messages[-1]["role"] == "tool"
                    assert (state.status is Status.FAILED) == ends_early, state
                    return await _read(patience_s, conversation.messages)
                case Status.ENDED if child:
                    return await _read(patience_s, conversation.messages)
                case _:
                    pytest.fail(f"{name} did not come to rest: {state}")


def answers_of(messages: list[dict[str, Any]]) -> list[int]:
    """How often the model answers each of the user's messages."""
    found: list[int] = []
    for message in messages:
        if message["role"] == "user":
            found.append(0)
        elif message["role"] == "assistant":
            found[-1] += 1
    return found


def _steering(conversation: AsyncConversation, seq: int, answers: int, texts: list[str]) -> "asyncio.Task[int] | None":
    """The next text, if there is one, sent as the last of a message's answers is given; the `seq` of the new message."""
    if not texts:
        return None
    text = texts.pop(0)

    async def steered() -> int:
        given, unresolved = 0, 0
        async for event in conversation.events(after=seq):
            if event.kind == "model_answered":
                given, unresolved = given + 1, unresolved + len(event.body.calls)
            elif event.kind == "call_resolved":
                unresolved -= 1
            if (event.kind == "turn_started" or given) and given >= answers - 1 and not unresolved:
                break
        return (await conversation.send(text, when="steer")).seq

    return asyncio.create_task(steered())


async def _resolved(call: AsyncPendingCall, decision: Decision) -> Receipt | None:
    """The receipt of a decision; None where a grant, given with one before, has settled the call."""
    try:
        return await call.resolve(decision)
    except StaleCall as stale:
        if stale.settled_by != SettledBy.GRANT:
            raise
        return None


def _decision(
    call: AsyncPendingCall,
    calls: list[dict[str, Any]],
    answered: Counter[str],
    approve: Callable[[AsyncPendingCall], Approve],
) -> Decision:
    """What the recording's people said of a call that waits."""
    match call.kind:
        case SuspensionKind.APPROVAL:
            return approve(call)
        case SuspensionKind.LOST:
            return Redispatch()
        case _:
            key = json.dumps([call.tool, call.arguments])
            found = recorded_app.result_of(calls, call.tool_call_id, call.tool, call.arguments, answered[key])
            answered[key] += 1
            return Answer(found)


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
