"""What the store in memory has that the others lack: a clock of one's own, and no way to write a half."""

import dataclasses

import pytest
from writer import DESK, Writer, begin, call, cancel, reply, start

from holdfast.conversation.records.events import MessageAccepted
from holdfast.errors import LeaseHeld
from holdfast.persistence import MemoryStore, TakeoverReason
from holdfast.persistence.access import STARTS, WINDOW_MS, Used, Want
from holdfast.persistence.conversations import PASSING_MS


class Clock:
    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        return self.now


async def test_leases_end_by_the_given_clock():
    clock = Clock()
    store = MemoryStore(clock=clock)
    writer = await Writer.of(store, "c-1", lease_ms=1000)
    await writer.do(start())
    clock.now += 999
    with pytest.raises(LeaseHeld) as refused:
        await Writer.of(store, "c-1", seen=writer.token, because=TakeoverReason.ASKED)
    assert refused.value.retry_after_ms == 1
    assert (await store.attention(10)).conversation_ids == []

    clock.now += 1

    assert (await store.attention(10)).conversation_ids == ["c-1"]
    await Writer.of(store, "c-1", seen=writer.token, because=TakeoverReason.ASKED)


async def test_deadlines_come_by_the_given_clock():
    clock = Clock()
    store = MemoryStore(clock=clock)
    writer = await Writer.of(store, "c-1")
    writer.spec = DESK.model_copy(update={"client_grace_s": None})
    await writer.do(start(), begin(), call("locate"))
    clock.now += 59_999
    assert (await store.attention(10)).conversation_ids == []
    clock.now += 1
    assert (await store.attention(10)).conversation_ids == ["c-1"]


async def test_what_cannot_be_encoded_is_not_half_written():
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start())
    write = writer.judged(begin(), now=1)
    broken = MessageAccepted(at=1, message_id="m-2", digest="d", text="\ud800")
    before = (await store.load("c-1"), (await store.conversations(limit=5)).items)

    with pytest.raises(UnicodeEncodeError):
        await store.append("c-1", dataclasses.replace(write, events=[*write.events, broken]))

    assert (await store.load("c-1"), (await store.conversations(limit=5)).items) == before
    await writer.do(begin())


async def test_what_a_key_has_used_is_over_after_a_day():
    clock = Clock()
    store, wants = MemoryStore(clock=clock), [Want(STARTS, 1, 1)]
    assert await store.use("k1", "r-1", wants) is None
    clock.now += WINDOW_MS - 1
    assert (await store.use("k1", "r-2", wants)).until == clock.now + 1
    clock.now += 1
    assert await store.used(["k1"]) == [Used()]
    assert await store.use("k1", "r-2", wants) is None
    assert (await store.use("k1", "r-1", wants)).until == clock.now + WINDOW_MS


async def test_what_is_known_of_requests_that_changed_nothing_is_forgotten():
    clock = Clock()
    store = MemoryStore(clock=clock)
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), reply())
    await writer.do(cancel("x-1"))
    clock.now += PASSING_MS - 1
    assert await store.known("c-1", ["x:x-1"])
    clock.now += 1
    assert not await store.known("c-1", ["x:x-1"])
