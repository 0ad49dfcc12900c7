"""The outbox in Redis: values that Holdfast never wrote stop nothing else, and what owes nothing writes nothing more."""

import asyncio
import re
from dataclasses import replace

import pytest
from store_suite.outbox import AUDIT, OPS, ids, lease, one_leased, owe, owe_more
from writer import Writer, begin, end, reply, start

from holdfast.conversation.log.owed import Envelope, lane_of, own_target
from holdfast.errors import CorruptStore
from holdfast.persistence import Lane, OutboxState, Verdict
from holdfast.persistence.keys import Keys, bucket_of
from holdfast.persistence.outbox import outbox_id

NAME = "c-1"
BUCKET = bucket_of(NAME)


@pytest.fixture
def keys(store):
    return Keys(store.namespace)


def of_outbox(raw):
    """The keys that the outbox has."""
    return [key for key in raw.every_key() if re.search(rb":(owed|owing|aside)\b", key)]


async def test_what_owes_nothing_writes_no_key_and_no_field_more(store, raw, keys):
    writer = await Writer.of(store, NAME)
    await writer.do(start(), begin(), reply(), end())
    assert not of_outbox(raw)
    assert b"owes" not in raw.redis.hgetall(keys.head(NAME))


async def test_a_delivered_queue_leaves_no_key(store, raw):
    await owe(store, NAME, "suspended", "ended")
    assert len(of_outbox(raw)) == 4
    await store.acknowledge(await one_leased(store), Verdict.ASIDE, reason="no")
    await store.acknowledge(await one_leased(store), Verdict.DELIVERED)
    (aside,) = await ids(store, OutboxState.SET_ASIDE)
    await store.drop_owed(aside)
    assert not of_outbox(raw)


async def test_several_acknowledgements_at_once_are_one_round_trip_and_each_has_its_own_answer(store, raw, keys, monkeypatch):
    for number in range(5):
        await owe(store, f"c-{number}", "suspended")
    first, corrupt, stale, later, last = sorted(await lease(store), key=lambda one: one.conversation_id)
    raw.redis.delete(keys.queue(corrupt.conversation_id, OPS))
    raw.redis.set(keys.queue(corrupt.conversation_id, OPS), "nonsense")
    raw.redis.script_flush()
    trips, pipe = [], store._redis.pipeline
    monkeypatch.setattr(store._redis, "pipeline", lambda **more: trips.append(more) or pipe(**more))
    found = await asyncio.gather(
        store.acknowledge(first, Verdict.DELIVERED),
        store.acknowledge(corrupt, Verdict.DELIVERED),
        store.acknowledge(replace(stale, nonce="other"), Verdict.DELIVERED),
        store.acknowledge(later, Verdict.LATER, reason="it answers 503", after_ms=3_600_000),
        store.acknowledge(last, Verdict.ASIDE, reason="it answers 410"),
        return_exceptions=True,
    )
    assert [*found[:1], *found[2:]] == [Verdict.DELIVERED, None, Verdict.LATER, Verdict.ASIDE]
    assert isinstance(found[1], CorruptStore)
    assert len(trips) == 1
    assert [row.conversation_id for row in (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items] == [
        last.conversation_id
    ]


async def test_an_envelope_that_cannot_be_read_is_set_aside_and_the_next_one_goes(store, raw, keys):
    await owe(store, NAME, "suspended")
    queue = keys.queue(NAME, OPS)
    texts = [
        b"\xff\x00 nonsense",
        b"1|2",
        b"1234567890123456|0|ended|5",
        b"1|0|ended|1234567890123456",
        b"1|0|\xff|5",
        b"1|0|a.b|5",
    ]
    raw.redis.zadd(queue, dict.fromkeys(texts, 0))
    await owe(store, "c-2", "ended")
    found = [one for _ in range(1 + len(texts)) for one in await lease(store)]
    assert sorted((one.conversation_id, one.envelope.kind) for one in found) == [("c-1", "suspended"), ("c-2", "ended")]
    rows = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
    assert {(row.conversation_id, row.envelope.kind) for row in rows} == {(NAME, "unreadable")}
    for row in rows:
        assert await store.drop_owed(outbox_id(NAME, row.envelope))


@pytest.mark.parametrize("state", OutboxState)
async def test_a_page_reads_its_rows_alone_and_what_it_skips_ends_no_listing(store, raw, keys, monkeypatch, state):
    names = [f"c-{number}" for number in range(9)]
    for name in names:
        await owe(store, name, "suspended")
    lane = "owing"
    if state is OutboxState.SET_ASIDE:
        lane = "aside"
        for leased in await lease(store):
            await store.acknowledge(leased, Verdict.ASIDE, reason="no")
    gone = {f"gone-{number}|{OPS}": number for number in range(10)}  # older than all others
    raw.redis.zadd(keys.lane(bucket_of(names[0]), lane, OPS), gone)
    read, asked = {}, []
    for verb in ("_owed_rows", "_aside_rows"):
        read[verb] = getattr(store, verb)

        async def counted(members, verb=verb):
            asked.append(len(members))
            return await read[verb](members)

        monkeypatch.setattr(store, verb, counted)
    listed, after = [], ""
    while after is not None:
        page = await store.outbox(state, limit=3, after=after or None)
        listed += [row.conversation_id for row in page.items]
        after = page.next
    assert sorted(listed) == names
    assert max(asked) == 3


@pytest.mark.parametrize("member", [b"", b"|", b"c-9", b"c-9|notice:ops:shop.app:app", b"c-9|own:x", b"\xff\xfe", b"a|b|c"])
async def test_a_member_that_is_no_queue_is_forgotten(store, raw, keys, member):
    for name in ("owed", "owing"):
        raw.redis.zadd(keys.lane(BUCKET, name, OPS), {member: 1})
    raw.redis.zadd(keys.owed(BUCKET), {OPS: 1})
    await owe(store, NAME, "ended")
    found = [one for _ in range(2) for one in await lease(store, most=1)]
    assert [one.conversation_id for one in found] == [NAME]
    await store.acknowledge(found[0], Verdict.DELIVERED)
    assert (await store.outbox(OutboxState.OWED, limit=10)).items == []
    assert (await store.lanes())[1] == []


@pytest.mark.parametrize(("conversation", "target"), [(b"c-\xff", OPS), (b"c 1", OPS), (b"c-1", "own:\udcff")])
async def test_a_queue_of_no_conversation_is_dropped_and_the_next_one_goes(store, raw, keys, conversation, target):
    """Its text would be another one once it is read: nobody could acknowledge it."""
    target, lane = target.encode(errors="surrogateescape"), lane_of(target)
    member = conversation + b"|" + target
    queue = f"{keys.bucket(BUCKET)}c:".encode() + conversation + b":owed|" + target
    raw.redis.zadd(queue, {b"1|0|ended|5": 1000})
    for name in ("owed", "owing"):
        raw.redis.zadd(keys.lane(BUCKET, name, lane), {member: 1})
    await owe(store, NAME, "ended", target=OPS if lane == OPS else own_target("c-2"))
    found = await store.lease(Lane(BUCKET, lane, 0), most=10, lease_ms=60_000)
    assert ([one.conversation_id for one in found.leased], found.dropped) == ([NAME], 1)
    await store.acknowledge(found.leased[0], Verdict.DELIVERED)
    assert (await store.lanes())[1] == []


async def test_a_lane_that_holds_nothing_is_forgotten(store, raw, keys):
    raw.redis.zadd(keys.owed(BUCKET), {OPS: 1, b"\xff": 1})
    await lease(store)
    assert [lane.name for lane in (await store.lanes())[1]] == ["\ufffd"]


async def test_a_queue_whose_member_is_gone_is_found_by_its_next_append(store, raw, keys):
    writer = await owe(store, NAME, "suspended")
    raw.redis.delete(keys.lane(BUCKET, "owed", OPS), keys.owed(BUCKET))
    assert await lease(store) == []
    await owe_more(writer, "ended")
    assert (await one_leased(store)).envelope.kind == "suspended"


@pytest.mark.parametrize("target", [OPS, own_target("head")])
async def test_a_rebuild_finds_queues_that_their_lanes_do_not_know(store, raw, keys, target):
    await owe(store, NAME, "suspended", target=target)
    lane = lane_of(target)
    before = raw.contents()
    raw.redis.delete(keys.lane(BUCKET, "owed", lane), keys.lane(BUCKET, "owing", lane), keys.owed(BUCKET))
    assert await lease(store, lane) == []
    assert [one.problems for one in [found async for found in store.reindex()] if one.problems] == []
    assert raw.contents().keys() == before.keys()
    (row,) = (await store.outbox(OutboxState.OWED, limit=10)).items
    leased = await one_leased(store, lane)
    assert (leased.envelope, leased.envelope.kind) == (row.envelope, "suspended")
    assert [one.problems for one in [found async for found in store.reindex()] if one.problems] == []
    assert await lease(store, lane) == []  # it is leased, also after a rebuild


async def test_tries_that_cannot_be_read_count_anew(store, raw, keys):
    await owe(store, NAME, "suspended")
    raw.redis.hset(keys.tries(NAME), OPS, "nonsense")
    leased = await one_leased(store)
    assert leased.tries == 1
    assert await store.acknowledge(leased, Verdict.DELIVERED) is Verdict.DELIVERED


def outbox_keys(keys):
    return {
        "queue": keys.queue(NAME, OPS),
        "tries": keys.tries(NAME),
        "owed": keys.owed(BUCKET),
        "aside": keys.aside(BUCKET),
        **{f"{name}:": keys.lane(BUCKET, name, OPS) for name in ("owed", "owing", "aside")},
    }


@pytest.mark.parametrize("name", ["queue", "tries", "owed", "aside", "owed:", "owing:", "aside:"])
async def test_a_key_of_another_type_refuses_what_owes_and_nothing_else(store, raw, keys, name):
    """An append that owes changes nothing; one that owes nothing, or another target in another conversation, goes on."""
    writer = await Writer.of(store, NAME)
    await writer.do(start())
    raw.redis.set(outbox_keys(keys)[name], "else")
    write = writer.judged(begin(), now=await store.now())
    with raw.unchanged(), pytest.raises(CorruptStore, match="the outbox"):
        await store.append(NAME, replace(write, owed=[Envelope("ended", OPS, 3, 0, 0)]))
    await store.append(NAME, write)
    elsewhere = next(one for number in range(999) if bucket_of(one := f"n-{number}") != BUCKET)
    await owe(store, elsewhere, "ended", target=AUDIT)
    assert (await one_leased(store, AUDIT)).conversation_id == elsewhere
    assert await store.strike(NAME, writer.token, process="p", reason="r", limit=1) is None


async def test_a_quarantine_comes_even_if_nobody_can_be_told(store, raw, keys):
    writer = await Writer.of(store, NAME)
    write = writer.judged(start(), now=await store.now())
    await store.append(NAME, replace(write, quarantine_owes=[OPS, AUDIT]))
    raw.redis.set(keys.lane(BUCKET, "owed", OPS), "else")
    assert await store.strike(NAME, writer.token, process="p", reason="r", limit=1) is None
    assert (await one_leased(store, AUDIT)).envelope.kind == "quarantined"


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x91\x01", b"\x81\xa1a\x01", b"nonsense"])
async def test_a_quarantine_comes_whatever_the_head_says_it_owes(store, raw, keys, value):
    writer = await Writer.of(store, NAME)
    await writer.do(start())
    raw.redis.hset(keys.head(NAME), "owes", value)
    assert await store.strike(NAME, writer.token, process="p", reason="r", limit=1) is None
    assert (await store.lanes())[1] == []


async def test_a_redis_that_was_set_back_is_delivered_from_again(store, raw, keys):
    """What was acknowledged after the older state is delivered again, and the old lease acknowledges nothing."""
    await owe(store, NAME, "suspended", "ended")
    older = {key: raw.redis.dump(key) for key in raw.every_key()}
    first = await one_leased(store)
    await store.acknowledge(first, Verdict.DELIVERED)
    for key in raw.every_key():
        raw.redis.delete(key)
    for key, value in older.items():
        raw.redis.restore(key, 0, value)
    assert await store.acknowledge(first, Verdict.DELIVERED) is None
    again = await one_leased(store)
    assert again.envelope == first.envelope
    assert await store.acknowledge(again, Verdict.DELIVERED) is Verdict.DELIVERED
    assert (await one_leased(store)).envelope.kind == "ended"
