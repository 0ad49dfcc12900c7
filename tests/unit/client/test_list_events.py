"""Events of the lists as a client gives them: what they say, how many listeners share one reader, and who falls behind."""

import asyncio
from collections import deque
from contextlib import aclosing

import pytest
from stores import InMemory, WithActors
from writer import Writer, assign, begin, call, cancel, reply, resolve, start

from holdfast.client import AsyncClient, ListEventKind, list_feed
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Answer, Deny, Principal
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.persistence import MemoryStore

WAIT_S = 20


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def client(store):
    return AsyncClient(StackGateway(WithActors(store), timeout_s=30))


async def suspended(store, name, *calls):
    writer = await Writer.of(store, name)
    await writer.do(start(), begin(), call(*calls))
    return writer


async def until(events, fits):
    """The events up to the first that fits."""
    found = []
    async with asyncio.timeout(WAIT_S):
        async for event in events:
            found.append(event)
            if fits(event):
                return found
    raise AssertionError(found)


async def test_what_opens_is_told_with_its_call_and_what_closes_with_what_settled_it(store, client):
    async with aclosing(client.acting_as(Principal("ana")).events()) as events:
        assert (await anext(events)).kind == "following"
        writer = await suspended(store, "c-1", ("refund", '{"order": 7}'), "ask")
        seen = await until(events, lambda one: one.data.get("pending") == 2)
        opened = [one for one in seen if one.kind is ListEventKind.PENDING]
        assert [(one.call.tool, one.call.arguments) for one in opened] == [
            ("refund", {"order": 7}),
            ("ask", opened[1].call.arguments),
        ]
        assert [one.data["suspension_id"] for one in opened] == [one.call.suspension_id for one in opened]
        assert [one.cursor is None for one in seen[-3:]] == [True, True, False]
        assert seen[-1].data == {"status": "awaiting_input", "pending": 2}

        client.gateway.stack.writers["c-1"] = writer
        await opened[0].call.resolve(Deny("no"))
        settled, status = await until(events, lambda one: one.kind is ListEventKind.STATUS)
        assert settled.kind is ListEventKind.SETTLED
        assert settled.data == {
            "suspension_id": opened[0].call.suspension_id,
            "suspension_kind": "approval",
            "tool_call_id": opened[0].call.tool_call_id,
            "by": "deny",
            "decision": "deny",
            "principal": {"id": "ana", "roles": [], "proof": "stated"},
            "grants": [],
        }
        assert status.data["pending"] == 1

        await writer.do(cancel())
        (settled, *_) = await until(events, lambda one: one.kind is ListEventKind.STATUS)
        assert (settled.data["suspension_kind"], settled.data["decision"]) == ("elicitation", None)


async def test_what_others_say_of_a_call_is_told_with_the_call(store, client):
    writer = await suspended(store, "c-1", "ask")
    async with aclosing(client.events(kind="elicitation")) as events, aclosing(client.events(kind="approval")) as others:
        await anext(events)
        await anext(others)
        await writer.do(assign("ana"))
        (noted,) = await until(events, lambda one: one.kind is ListEventKind.NOTED)
        assert (noted.call.assigned, noted.data["assigned"]) == ("ana", "ana")
        assert noted.data["suspension_id"] == noted.call.suspension_id == writer.suspension_ids[0]
        assert noted.cursor
        await suspended(store, "c-2", "refund")
        assert (await anext(others)).conversation_id == "c-2", "it is about an elicitation"


async def test_many_listeners_share_one_reader(store, client, monkeypatch):
    asked = []
    real = store.changes

    def changes(place=None, *, block_ms=0):
        if block_ms:
            asked.append(block_ms)
        return real(place, block_ms=block_ms)

    monkeypatch.setattr(store, "changes", changes)
    listeners = [client.events() for _ in range(200)]
    for one in listeners:
        await anext(one)
    reading = [asyncio.create_task(until(one, lambda event: event.data.get("pending") == 1)) for one in listeners]
    await asyncio.sleep(0.05)
    asked.clear()

    await suspended(store, "c-1", "ask")
    found = await asyncio.gather(*reading)

    assert len({tuple((one.kind, one.seq, one.cursor) for one in seen) for seen in found}) == 1
    assert len(asked) <= 4
    for one in listeners:
        await one.aclose()
    await asyncio.sleep(0)
    assert not client.gateway.feed._followers
    assert client.gateway.feed._reading.cancelling()


async def test_who_falls_behind_reads_by_itself_and_misses_nothing(store, client, monkeypatch):
    monkeypatch.setattr(list_feed, "AHEAD", 3)
    slow, quick = client.events(), client.events()
    for one in (slow, quick):
        await anext(one)
    writer = await suspended(store, "c-0", "ask")
    await until(slow, lambda event: event.conversation_id == "c-0" and event.cursor)
    for number in range(1, 40):
        await suspended(store, f"c-{number}", "ask")
        await until(quick, lambda event, number=number: event.conversation_id == f"c-{number}" and event.cursor)

    seen = await until(slow, lambda event: event.conversation_id == "c-39" and event.cursor)

    opened = [one.conversation_id for one in seen if one.kind is ListEventKind.PENDING]
    assert sorted(opened) == sorted(f"c-{number}" for number in range(1, 40))
    assert writer.state.seq
    await slow.aclose()
    await quick.aclose()


async def test_resumed_after_each_cursor_nothing_is_missing(store, client):
    async with aclosing(client.events()) as events:
        await anext(events)
        for number in range(8):
            writer = await suspended(store, f"c-{number}", "ask")
            await writer.do(resolve(Answer("blue")), reply())
        seen = await until(events, lambda one: one.conversation_id == "c-7" and one.data.get("status") == "idle")
    whole = [(one.kind, one.conversation_id, one.seq) for one in seen]
    for place, event in enumerate(seen):
        if event.cursor is not None and event is not seen[-1]:
            async with aclosing(client.events(after=event.cursor)) as rest:
                found = await until(rest, lambda one: one.conversation_id == "c-7" and one.data.get("status") == "idle")
            assert [(one.kind, one.conversation_id, one.seq) for one in found] == whole[place + 1 :]


async def test_who_was_away_for_too_long_is_told_so_and_goes_on(store, client, monkeypatch):
    store._changes = deque(maxlen=30)
    async with aclosing(client.events()) as events:
        cursor = (await anext(events)).cursor
    writer = await suspended(store, "c-1", "ask")
    for number in range(40):
        await store.strike("c-1", writer.token if not number else "", process=f"a-{number}", reason="it broke", limit=1)
        await store.retry("c-1")

    async with aclosing(client.events(after=cursor)) as events:
        assert (await anext(events)).kind is ListEventKind.MISSED
        assert (await until(events, lambda one: one.data.get("status") == "awaiting_input"))[-1].cursor

    later = f"{await store.now() + 10_000_000}"
    async with aclosing(client.events(after=later)) as events:
        event = await anext(events)
        assert (event.kind, event.cursor is not None) == (ListEventKind.MISSED, True)


async def test_a_store_that_goes_away_is_an_error_and_one_that_comes_back_is_followed_again(store, client, monkeypatch):
    real = store.changes
    first, second = client.events(), client.events()
    for one in (first, second):
        await anext(one)
    waiting = [asyncio.create_task(anext(one)) for one in (first, second)]
    await asyncio.sleep(0.05)

    async def gone(*_, **__):
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(store, "changes", gone)
    await suspended(store, "c-1", "ask")
    await asyncio.wait(waiting, timeout=WAIT_S)
    await suspended(store, "c-2", "ask")
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, StoreUnavailable) or one.conversation_id == "c-1" for one in found)
    monkeypatch.setattr(store, "changes", real)
    async with aclosing(client.events()) as events:
        assert (await anext(events)).kind == "following"


async def test_what_cannot_be_followed_is_refused_at_once(store):
    client = AsyncClient(StackGateway(InMemory(store), timeout_s=30))
    for bad in ({"after": "yesterday"}, {"after": 5}, {"kind": "approvals"}, {"agent": 5}):
        with pytest.raises(InvalidInput):
            client.events(**bad)


async def test_what_comes_while_a_follower_is_busy_with_what_it_was_told_is_told_without_another_change(
    store, client, monkeypatch
):
    monkeypatch.setattr(list_feed, "AHEAD", 5)
    busy, quick = client.events(kind="elicitation"), client.events()
    for one in (busy, quick):
        await anext(one)
    waiting = asyncio.create_task(anext(busy))
    await asyncio.sleep(0.05)
    await suspended(store, "c-0", "ask")
    assert (await waiting).conversation_id == "c-0"  # it stands at what the feed told it
    for number in range(1, 30):
        await suspended(store, f"c-{number}", "ask")
        await until(quick, lambda event, number=number: event.conversation_id == f"c-{number}" and event.cursor)

    told = set()
    async with asyncio.timeout(WAIT_S):
        while len(told) < 29:
            told.add((await anext(busy)).conversation_id)
    await busy.aclose()
    await quick.aclose()


async def test_a_client_that_is_closed_ends_those_who_follow(store, client):
    first = client.events()
    await anext(first)
    waiting = asyncio.create_task(anext(first))
    await asyncio.sleep(0.05)
    await client.gateway.feed.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(waiting, WAIT_S)


async def test_a_mistake_of_the_reader_is_told_and_the_next_who_follows_has_a_reader_again(store, client, monkeypatch):
    first = client.events()
    await anext(first)
    waiting = asyncio.create_task(anext(first))
    await asyncio.sleep(0.05)
    real = store.pending_at

    async def broken(_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(store, "pending_at", broken)
    await suspended(store, "c-1", "ask")
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(until(first, lambda _: False) if waiting.done() else _all(waiting, first), WAIT_S)
    monkeypatch.setattr(store, "pending_at", real)
    async with aclosing(client.events()) as events:
        await anext(events)
        await suspended(store, "c-2", "ask")
        assert (await until(events, lambda one: one.cursor))[-1].conversation_id == "c-2"


async def _all(waiting, events):
    await waiting
    await until(events, lambda _: False)


async def test_who_wants_nothing_of_what_changes_looks_nothing_up_and_is_given_a_cursor(store, client, monkeypatch):
    cursor = (await store.changes()).place.cursor
    for number in range(15):
        await suspended(store, f"c-{number}", "ask")
    looked_up = []
    real = store.pending_at
    monkeypatch.setattr(store, "pending_at", lambda places: looked_up.extend(places) or real(places))
    monkeypatch.setattr(list_feed, "PASSED_S", 0)

    async with aclosing(client.events(after=cursor, agent=["another", "third"])) as events:
        passed = await anext(events)

    assert (passed.kind, passed.conversation_id, looked_up) == (ListEventKind.PASSED, "", [])
    async with aclosing(client.events(after=passed.cursor)) as events:
        await suspended(store, "c-last", "ask")
        assert (await until(events, lambda one: one.cursor))[-1].conversation_id == "c-last"


async def test_nothing_is_passed_over_between_missed_and_what_is_left(store, client, monkeypatch):
    store._changes = deque(maxlen=30)
    monkeypatch.setattr(list_feed, "PASSED_S", 0)
    cursor = (await store.changes()).place.cursor
    writer = await suspended(store, "c-1", "ask")
    for number in range(40):
        await store.strike("c-1", writer.token if not number else "", process=f"a-{number}", reason="it broke", limit=1)
        await store.retry("c-1")
    async with aclosing(client.events(after=cursor)) as events:
        seen = await until(events, lambda one: one.kind is ListEventKind.STATUS)
    assert [one.kind for one in seen] == [ListEventKind.MISSED, ListEventKind.STATUS]
