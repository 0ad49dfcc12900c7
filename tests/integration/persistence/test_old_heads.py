"""Heads of index version 1, with the list of their open suspensions: read as they are, and moved over by what is written."""

import contextlib

import msgpack
import pytest
from history import CONVERSATION, history
from writer import DESK, Writer, begin, call, cancel, end, reply, send, start

from holdfast.conversation import State, Status, SuspensionKind, evolve
from holdfast.conversation.log.index import pending_entries
from holdfast.errors import CorruptStore, NewerRecord
from holdfast.persistence import AppRecord, RedisStore, codec
from holdfast.persistence.keys import BUCKETS, Keys, bucket_of
from holdfast.persistence.redis_values import INDEX_VERSION

STEPS = [step for version in (1, 2) for step in history(version).steps]
BUCKET = bucket_of(CONVERSATION)
each_step = pytest.mark.parametrize("step", STEPS, ids=str)


class Older:
    """What an older release left behind: the keys of its conversations, its index entries, its layout."""

    def __init__(self, raw):
        self.redis = raw.redis
        self.keys = Keys(raw.namespace)
        self.redis.hset(self.keys.meta("layout"), mapping={"version": 1, "buckets": BUCKETS, "indexes": 1})
        self.redis.hdel(self.keys.meta("layout"), "complete")

    def has(self, name, packed):
        """Enter a conversation into the indexes, as its packed head says."""
        agent, status, created_at, waiting = msgpack.unpackb(packed)
        bucket = bucket_of(name)
        for by_agent in (None, agent):
            for by_status in (None, status):
                key = self.keys.conversations(bucket, by_agent, by_status)
                self.redis.zadd(key, {f"{created_at:015d}|{name}": 0})
            for opened_at, suspension_id, kind, seq in waiting:
                for by_kind in (None, kind):
                    key = self.keys.pending(bucket, by_agent, by_kind)
                    self.redis.zadd(key, {f"{opened_at:015d}|{suspension_id}|{name}|{seq}": 0})

    def left(self, step):
        """Put everything there that lay in the store after a recorded step."""
        recorded, kept = history(step.version), step.kept
        for seq, entry in enumerate(kept.log, 1):
            self.redis.xadd(self.keys.log(CONVERSATION), {"e": entry}, id=f"{seq}-0")
        for key, fields in ((self.keys.head, kept.head), (self.keys.known, kept.known), (self.keys.runs, kept.runs)):
            if fields:
                self.redis.hset(key(CONVERSATION), mapping=fields)
        app = codec.decode(AppRecord, recorded.app)
        self.redis.hset(self.keys.meta("apps"), app.app, recorded.app)
        self.redis.hset(self.keys.meta("specs"), app.agents["desk"], recorded.spec)
        self.has(CONVERSATION, kept.head["index"])
        return self

    @property
    def head(self):
        return self.keys.head(CONVERSATION)

    def made_older(self, name, state):
        """Have a head that this code wrote be as the older release would have written it."""
        waiting = [[one.created_at, one.suspension_id, one.kind.value, one.seq] for one in pending_entries(state)]
        packed = msgpack.packb([state.agent, state.status.value, state.created_at, waiting])
        self.redis.hset(self.keys.head(name), "index", packed)
        self.redis.hset(self.keys.meta("layout"), "indexes", 1)
        return packed

    @property
    def indexes(self):
        """The version of the indexes, as the layout says it."""
        return int(self.redis.hget(self.keys.meta("layout"), "indexes"))

    def standing(self, name=CONVERSATION, field="index"):
        return msgpack.unpackb(self.redis.hget(self.keys.head(name), field))


async def state_of(store):
    state = State(conversation_id=CONVERSATION)
    for _, event in await store.read(CONVERSATION, after=0, limit=1000):
        state = evolve(state, event)
    return state


async def lists_are_right(store):
    """The lists say what the log does, and a rebuild finds nothing to remove."""
    state = await state_of(store)
    waiting = {entry.suspension_id for entry in pending_entries(state)}
    assert {view.suspension_id for view in (await store.pending(limit=100)).items} == waiting
    assert {view.suspension_id for view in (await store.pending(limit=100, agent="desk")).items} == waiting
    for kind in SuspensionKind:
        here = {entry.suspension_id for entry in pending_entries(state) if entry.kind is kind}
        assert {view.suspension_id for view in (await store.pending(limit=100, kind=kind)).items} == here
    (row,) = (await store.conversations(limit=10)).items
    assert (row.status, row.pending, row.agent) == (state.status, len(waiting), "desk")
    for status in Status:
        found = (await store.conversations(limit=10, status=status)).items
        assert len(found) == (status is state.status)


@pytest.fixture
async def opened(server, namespace):
    """Opens a store on what is there by then."""
    async with contextlib.AsyncExitStack() as stack:

        async def opens():
            store = RedisStore(server.url, namespace=namespace)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opens


@each_step
async def test_what_an_older_release_left_is_read_and_goes_on_without_a_rebuild(raw, opened, step):
    # given what lay in the store after a step, and nothing else
    older = Older(raw).left(step)
    store = await opened()
    # when it is only read, then it is left to the older release as it is
    with raw.unchanged():
        await lists_are_right(store)
        assert (await store.load(CONVERSATION)).seq == len(step.kept.log)
    assert older.indexes == 1
    # and when a new writer only confirms that it is the owner, then the head moves over, and older releases stay away
    writer = await Writer.of(store, CONVERSATION)
    await store.append(CONVERSATION, writer.write())
    assert older.standing()[3] == len(pending_entries(writer.state))
    assert older.indexes == INDEX_VERSION
    await lists_are_right(store)
    # and when everything comes to its end, then no entry is left of what was open
    if writer.state.status is not Status.ENDED:
        await writer.do(end())
    await lists_are_right(store)
    rebuilt = [bucket async for bucket in store.reindex()]
    assert [(found.removed, list(found.problems)) for found in rebuilt] == [(0, [])] * BUCKETS


@pytest.mark.parametrize("step", [step for step in STEPS if step.line["stands"]["pending"]][::3], ids=str)
async def test_the_first_write_to_an_old_head_may_close_what_is_open(raw, opened, step):
    Older(raw).left(step)
    store = await opened()
    writer = await Writer.of(store, CONVERSATION)

    await writer.do(cancel(), send(), begin(), reply())

    await lists_are_right(store)


async def test_an_old_head_is_moved_over_by_a_strike_and_by_a_retry(store, raw, opened):
    # given a head of the older release
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask", "ask", "lookup"))
    older = Older(raw)
    older.made_older("c-1", writer.state)
    anew = await opened()
    # when it is put into quarantine
    assert await anew.strike("c-1", writer.token, process="p-1", reason="boom", limit=1) is None
    # then both what is shown and what is kept for later have moved over
    assert older.standing("c-1")[1:] == ["quarantined", writer.state.created_at, 2]
    assert older.standing("c-1", "plain_index")[1:] == ["awaiting_input", writer.state.created_at, 2]
    assert older.indexes == INDEX_VERSION
    (row,) = (await anew.conversations(limit=5, status=Status.QUARANTINED)).items
    assert row.pending == 2
    # and when it is lifted, then it stands in the lists as before
    assert await anew.retry("c-1")
    (row,) = (await anew.conversations(limit=5, status=Status.AWAITING_INPUT)).items
    assert (row.pending, (await anew.conversations(limit=5, status=Status.QUARANTINED)).items) == (2, [])


async def test_a_quarantine_of_the_older_release_is_lifted(store, raw, opened):
    # given a conversation that the older release put into quarantine
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask", "lookup"))
    await store.strike("c-1", writer.token, process="p-1", reason="boom", limit=1)
    older = Older(raw)
    plain = older.made_older("c-1", writer.state)
    agent, _, created_at, waiting = msgpack.unpackb(plain)
    shown = msgpack.packb([agent, "quarantined", created_at, waiting])
    raw.redis.hset(older.keys.head("c-1"), mapping={"index": shown, "plain_index": plain})
    anew = await opened()
    # when it is lifted
    assert await anew.retry("c-1")
    # then it stands in the lists as before, and the head has moved over
    (row,) = (await anew.conversations(limit=5)).items
    assert (row.status, row.pending) == (Status.AWAITING_INPUT, 1)
    assert older.standing("c-1") == ["desk", "awaiting_input", created_at, 1]
    assert older.indexes == INDEX_VERSION


@pytest.mark.parametrize("in_quarantine", [False, True])
async def test_a_rebuild_moves_old_heads_over(store, raw, in_quarantine):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask", "lookup"))
    older = Older(raw)
    if in_quarantine:
        await store.strike("c-1", writer.token, process="p-1", reason="boom", limit=1)
    plain = older.made_older("c-1", writer.state)
    if in_quarantine:
        agent, _, created_at, waiting = msgpack.unpackb(plain)
        shown = msgpack.packb([agent, "quarantined", created_at, waiting])
        raw.redis.hset(older.keys.head("c-1"), mapping={"index": shown, "plain_index": plain})
    before = {key: raw.redis.zrange(key, 0, -1) for key in raw.every_key() if raw.redis.type(key) == b"zset"}

    rebuilt = [bucket async for bucket in store.reindex()]

    assert sum(bucket.removed for bucket in rebuilt) == 0
    assert older.standing("c-1")[3] == 1
    assert older.indexes == INDEX_VERSION
    assert {key: raw.redis.zrange(key, 0, -1) for key in before} == before


async def test_an_older_release_does_not_open_what_has_moved_over(server, raw, store, monkeypatch):
    writer = await Writer.of(store, "c-1")
    await writer.do(start())
    monkeypatch.setattr("holdfast.persistence.redis_values.INDEX_VERSION", 1)
    older = RedisStore(server.url, namespace=raw.namespace)

    with pytest.raises(NewerRecord, match="index"):
        await older.open()
    await older.close()


MALFORMED = {
    "no list": msgpack.packb(7),
    "too short": msgpack.packb(["desk", "idle", 5]),
    "no number of suspensions": msgpack.packb(["desk", "idle", 5, "many"]),
    "no time": msgpack.packb(["desk", "idle", "then", 0]),
    "no agent": msgpack.packb([None, "idle", 5, 0]),
    "no status": msgpack.packb(["desk", {}, 5, []]),
    "no msgpack": b"\xc1",
    "cut off": msgpack.packb(["desk", "idle", 5, 0])[:-3],
    "nothing": b"",
}


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
async def test_what_holdfast_never_wrote_into_a_head_is_refused_by_an_append_and_by_a_retry(store, raw, value):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask", "lookup"))
    head = Keys(raw.namespace).head("c-1")
    raw.redis.hset(head, "index", value)

    if value:  # an empty one is that of a conversation that only begins
        with raw.unchanged(), pytest.raises(CorruptStore, match="index entries"):
            await writer.do(cancel())

    right = [DESK.name, "awaiting_input", writer.state.created_at, 1]
    raw.redis.hset(head, mapping={"index": msgpack.packb(right), "quarantine": "x", "plain_index": value})
    with raw.unchanged(), pytest.raises(CorruptStore, match="index entries"):
        await store.retry("c-1")


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
async def test_a_conversation_with_such_a_head_can_be_set_aside_and_taken_up_again(store, raw, value):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask"))
    head = Keys(raw.namespace).head("c-1")
    raw.redis.hset(head, "index", value)

    assert await store.strike("c-1", writer.token, process="p-1", reason="boom", limit=1) is None

    assert (await store.quarantine("c-1")).reason == "boom"
    assert await store.retry("c-1")
    assert raw.redis.hget(head, "index") == value


@pytest.mark.parametrize("indexes", ["x", "-1", ""])
async def test_a_layout_that_cannot_be_read_is_not_raised(store, raw, indexes):
    Older(raw)
    store._indexes = 1
    raw.redis.hset(Keys(raw.namespace).meta("layout"), "indexes", indexes)
    writer = await Writer.of(store, "c-1")

    with raw.unchanged(), pytest.raises(CorruptStore):
        await writer.do(start())
