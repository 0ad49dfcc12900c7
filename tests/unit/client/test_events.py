"""Events as a client gives them: each of the class that belongs to its kind, recorded and live."""

import asyncio

import pytest
from stores import InMemory
from writer import Writer, begin, call, resolve, send, start

from holdfast import events as names
from holdfast.client import AsyncClient
from holdfast.client.stack_events import AHEAD
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approve
from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.live import LIVE_EVENTS
from holdfast.events import (
    ArgumentsDelta,
    CallSuspended,
    ConversationStarted,
    ModelAnswered,
    ProgressReported,
    ReasoningDelta,
    RunScheduled,
    SuspensionKind,
    TextDelta,
)
from holdfast.persistence import MemoryStore, codec

HOW_FAR = {"status": None, "loaded": None, "total": None}


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def conversation(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-1")


async def first(events, number):
    return [await anext(events) for _ in range(number)]


async def test_a_recorded_event_has_a_body_of_its_kinds_class_with_the_fields_of_its_data(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"order": 7}'), prompt="Refund 7?"), resolve(Approve()))

    events = await first(conversation.events(live=False), writer.state.seq)

    assert [event.seq for event in events] == list(range(1, writer.state.seq + 1))
    assert [event.body for event in events] == writer.events
    for event in events:
        assert (event.kind, event.at) == (event.body.kind, event.body.at)
        plain = {name: value for name, value in event.data.items() if name != "arguments"}
        assert {**plain, "kind": event.kind, "at": event.at} == event.body.model_dump(mode="json")


async def test_an_event_can_be_matched_by_its_class(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"order": 7}'), prompt="Refund 7?"), resolve(Approve()))
    seen = []

    for event in await first(conversation.events(live=False), writer.state.seq):
        match event.body:
            case ConversationStarted(agent=agent):
                seen.append(agent)
            case ModelAnswered(calls=(asked,)):
                seen.append(asked.name)
            case CallSuspended(suspension_kind=SuspensionKind.APPROVAL, prompt=prompt):
                seen.append((prompt, event.arguments))
            case RunScheduled(attempt=attempt):
                seen.append((attempt, event.arguments))

    assert seen == ["desk", "refund", ("Refund 7?", {"order": 7}), (1, None)]


async def test_live_events_are_of_classes_too_and_have_no_place_in_the_log(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    told = [
        codec.pack(["text_delta", "t1.m1", 1, 5, "hi"]),
        codec.pack(["reasoning_delta", "t1.m1", 2, 6, "hm"]),
        codec.pack(["progress", "call-1#1", 1, 7, '{"value":{"done":3},"message":"three"}']),
        codec.pack(["arguments_delta", "t1.m1", 1, 8, '{"index":1,"tool":"refund","text":"{\\"ord"}']),
        codec.pack(["progress", "call-1#1", 1, 9, '{"value":null,"message":null,"status":"saving","loaded":2,"total":2.5}']),
    ]
    unknown = [codec.pack(["weather", "t1.m1", 1, 5, "{}"]), codec.pack(["progress", "c#1", 1, 7, '{"value":1,"more":2}'])]

    reading = asyncio.ensure_future(first(conversation.events(after=writer.state.seq), 5))
    async with asyncio.timeout(20):
        while "c-1" not in store._listeners:
            await asyncio.sleep(0)
    for payload in (*unknown, *told):
        await store.publish("c-1", payload)
    events = await reading

    assert [event.body for event in events] == [
        TextDelta(at=5, effect_id="t1.m1", attempt=1, text="hi"),
        ReasoningDelta(at=6, effect_id="t1.m1", attempt=2, text="hm"),
        ProgressReported(at=7, effect_id="call-1#1", attempt=1, value={"done": 3}, message="three"),
        ArgumentsDelta(at=8, effect_id="t1.m1", attempt=1, index=1, tool="refund", text='{"ord'),
        ProgressReported(at=9, effect_id="call-1#1", attempt=1, status="saving", loaded=2, total=2.5),
    ]
    assert [(event.kind, event.seq, event.at) for event in events] == [
        ("text_delta", None, 5),
        ("reasoning_delta", None, 6),
        ("progress", None, 7),
        ("arguments_delta", None, 8),
        ("progress", None, 9),
    ]
    assert events[0].data == {"effect_id": "t1.m1", "attempt": 1, "text": "hi"}
    assert events[2].data == {"effect_id": "call-1#1", "attempt": 1, "value": {"done": 3}, "message": "three"} | HOW_FAR


async def test_events_are_read_only_a_little_ahead_of_who_takes_them(store, conversation, monkeypatch):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), *(send() for _ in range(90)))
    read, inner = [], store.read

    async def counted(conversation_id, **options):
        found = await inner(conversation_id, **options)
        read.extend(seq for seq, _ in found)
        return found

    monkeypatch.setattr(store, "read", counted)
    events = conversation.events(live=False)
    await anext(events)
    for _ in range(1000):
        await asyncio.sleep(0)

    assert max(read) <= 1 + 3 * AHEAD
    rest = await first(events, writer.state.seq - 1)
    assert [event.seq for event in rest] == list(range(2, writer.state.seq + 1))
    assert read == list(range(1, writer.state.seq + 1))
    await events.aclose()


def test_every_kind_of_event_is_in_the_module_for_users():
    assert {cls.__name__ for cls in (*EVENTS, *LIVE_EVENTS)} <= set(names.__all__)
