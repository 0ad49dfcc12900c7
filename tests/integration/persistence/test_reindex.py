"""The rebuild of indexes that something has damaged."""

from types import SimpleNamespace

import pytest
from crowd import conversations, crowd, pending
from writer import Writer, begin, call, resolve, send, start

from holdfast.cli.check import Outcome
from holdfast.cli.options import Where
from holdfast.cli.store_checks import list_checks
from holdfast.client import Answer
from holdfast.errors import InvalidInput, NewerRecord
from holdfast.persistence import RedisStore, codec
from holdfast.persistence.keys import Keys, bucket_of
from holdfast.persistence.redis_values import INDEX_VERSION


def indexes(raw):
    """The index keys of the namespace."""
    return [key for key in raw.every_key() if not any(other in key for other in (b"}:c:", b":meta}", b"}:changes"))]


async def rebuild(store):
    return [bucket async for bucket in store.reindex()]


@pytest.fixture
async def busy(store):
    """A conversation in the middle of a run, besides those that wait."""
    writer = await Writer.of(store, "c-busy")
    await writer.do(start(), begin(), call("lookup", "ask"))
    return writer


async def test_lists_that_are_gone_come_back(store, raw, busy):
    await crowd(store, 25)
    before = await pending(store), await conversations(store), {key: raw.redis.zrange(key, 0, -1) for key in indexes(raw)}
    for key in indexes(raw):
        raw.redis.delete(key)
    assert await pending(store) == []

    await rebuild(store)

    after = await pending(store), await conversations(store), {key: raw.redis.zrange(key, 0, -1) for key in indexes(raw)}
    assert after == before


async def test_what_belongs_to_no_conversation_goes(store, raw, namespace):
    await crowd(store, 6)
    before = raw.contents()
    keys = Keys(namespace)
    bucket = bucket_of("crowd-1")
    raw.redis.zadd(keys.pending(bucket, None, None), {"000000000000001|s-x|crowd-1|9": 0, "nonsense": 0})
    raw.redis.zadd(keys.pending(bucket, "desk", "approval"), {"000000000000001|s-x|nobody|9": 0})
    raw.redis.zadd(keys.conversations(bucket, None, "idle"), {"000000000000001|crowd-1": 0})
    raw.redis.zadd(keys.attention(bucket), {"nobody": 5})

    rebuilt = await rebuild(store)

    assert sum(found.removed for found in rebuilt) == 5
    after = raw.contents()
    for key in indexes(raw):
        assert sorted(raw.redis.zrange(key, 0, -1)) == sorted(set(raw.redis.zrange(key, 0, -1)))
    assert after.keys() == before.keys()


async def test_what_comes_while_its_conversation_is_rebuilt_stays(store, raw, namespace, monkeypatch):
    """The rebuild knows the state of a moment; whatever is written after it is fenced by its place in the log."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask"))
    script, wrote = store._script, []

    async def writing(name, keys, args):
        answer = await script(name, keys, args)
        if name == "reindex" and not wrote:
            wrote.append(name)
            await writer.do(resolve(Answer("blue")), call("ask", "ask"))
        return answer

    monkeypatch.setattr(store, "_script", writing)

    rebuilt = await rebuild(store)

    assert wrote
    assert sum(found.removed for found in rebuilt) == 0
    assert {view.suspension_id for view in await pending(store)} == set(writer.suspension_ids)


async def test_a_rebuild_ends_although_a_conversation_is_written_to_all_the_time(store, raw, namespace, monkeypatch):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup"))
    key = Keys(namespace).pending(bucket_of("c-1"), None, None)
    raw.redis.zadd(key, {"000000000000001|s-x|c-1|9": 0})
    script = store._script

    async def writing(name, keys, args):
        if name == "prune":
            await writer.do(send())
        return await script(name, keys, args)

    monkeypatch.setattr(store, "_script", writing)
    assert sum(found.removed for found in await rebuild(store)) == 0
    monkeypatch.undo()

    assert sum(found.removed for found in await rebuild(store)) == 1
    assert raw.redis.zrange(key, 0, -1) == []


async def test_entries_that_the_head_has_wrong_are_made_from_the_log(store, raw, namespace):
    (waiting,) = await crowd(store, 1)
    keys = Keys(namespace)
    right = await pending(store), await conversations(store)
    raw.redis.hset(keys.head(waiting.conversation_id), mapping={"index": b"\xc1", "busy": "0", "due": ""})
    for key in indexes(raw):
        raw.redis.delete(key)

    await rebuild(store)

    assert (await pending(store), await conversations(store)) == right
    assert raw.redis.zscore(keys.attention(bucket_of(waiting.conversation_id)), waiting.conversation_id) is not None
    await waiting.do(resolve(Answer("blue")))
    assert await pending(store) == []


async def test_a_conversation_that_cannot_be_read_is_named_and_the_others_are_rebuilt(store, raw, namespace):
    made = await crowd(store, 4)
    right = await pending(store)
    keys = Keys(namespace)
    raw.redis.xadd(keys.log(made[0].conversation_id), {"e": b"nonsense"}, id="99-0")
    for key in indexes(raw):
        raw.redis.delete(key)

    rebuilt = await rebuild(store)

    problems = [problem for found in rebuilt for problem in found.problems]
    assert [problem.split(":")[0] for problem in problems] == [made[0].conversation_id]
    gone = set(made[0].suspension_ids)
    assert await pending(store) == [view for view in right if view.suspension_id not in gone]


async def test_the_version_of_the_indexes_stands_in_the_meta(store, raw, namespace, server):
    layout = Keys(namespace).meta("layout")
    assert raw.redis.hget(layout, "indexes") == b"%d" % INDEX_VERSION
    raw.redis.hdel(layout, "indexes")  # as a store has it that was laid out before there was a version
    await rebuild(store)
    assert raw.redis.hget(layout, "indexes") == b"%d" % INDEX_VERSION

    raw.redis.hset(layout, "indexes", INDEX_VERSION + 1)
    newer = RedisStore(server.url, namespace=namespace)
    with pytest.raises(NewerRecord):
        await newer.open()
    await newer.close()


async def test_what_an_older_release_indexed_is_found_by_rows_until_it_is_rebuilt(store, raw, namespace, server):
    # given a namespace whose indexes are of version 2
    made = await crowd(store, 12)
    right = await pending(store)
    for key in indexes(raw):
        if key.decode().partition("}:pending:")[2][:2] in {"i", "e", "t:", "w:"}:
            raw.redis.delete(key)
    layout = Keys(namespace).meta("layout")
    raw.redis.hset(layout, "indexes", 2)
    raw.redis.hdel(layout, "complete")
    older = RedisStore(server.url, namespace=namespace)
    await older.open()
    # then lists hold what they should, and a suspension alone is refused with the way out
    refunds = [view for view in right if view.tool == "refund"]
    assert (await older.pending(limit=1000, tool="refund")).items == refunds
    assert (await older.pending(limit=1000, expires_within_s=10**6)).items == right
    with pytest.raises(InvalidInput, match="holdfast reindex"):
        await older.pending_of(None, right[0].suspension_id)
    (check,) = await list_checks(SimpleNamespace(store=older, where=Where()))
    assert (check.status, "run: holdfast reindex" in check.fix) == (Outcome.WARN, True)
    # and a rebuild makes it whole, also for a process that was open before
    await rebuild(store)
    assert await older.pending_of(None, right[0].suspension_id) == [right[0]]
    assert [check.status for check in await list_checks(SimpleNamespace(store=older, where=Where()))] == [Outcome.OK]
    assert (await older.pending(limit=1000, tool="refund")).items == refunds
    assert len(made) == 12
    await older.close()


@pytest.mark.parametrize("what", ["newer", "sealed", "broken"])
async def test_lists_are_complete_only_if_no_process_could_read_what_the_rebuild_left_out(store, raw, namespace, what):
    """One of a newer release, or with the cipher, would miss the conversation's calls in lists that are called complete."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask"))
    sealed, newer = codec.pack([codec.VERSION, codec.SEALED, b"0" * 40]), codec.pack([codec.VERSION + 1, "call_held", {}])
    keys, entries = Keys(namespace), {"newer": newer, "sealed": sealed, "broken": b"nonsense"}
    raw.redis.hdel(keys.meta("layout"), "complete")
    raw.redis.xadd(keys.log("c-1"), {"e": entries[what]}, id=f"{writer.state.seq + 1}-0")

    rebuilt = await rebuild(store)

    assert [problem.split(":")[0] for found in rebuilt for problem in found.problems] == ["c-1"]
    assert raw.redis.hget(keys.meta("layout"), "complete") == (b"%d" % INDEX_VERSION if what == "broken" else None)


async def test_a_call_whose_place_cannot_be_read_is_in_no_list_by_age(store, raw, namespace):
    await crowd(store, 3)
    right = await pending(store, 50)
    for index in ("pending", "pending:e", "pending:t:ask"):
        raw.redis.zadd(f"{Keys(namespace).bucket(0)}{index}", {"000|nonsense": 0})

    assert len(await pending(store, 50)) == len(right) + 1
    of_tool = [view for view in right if view.tool == "ask"]
    for where, expected in (({}, right), ({"expires_within_s": 10**6}, right), ({"tool": "ask"}, of_tool)):
        found = (await store.pending(limit=50, older_than_s=0, **where)).items
        assert sorted(found, key=right.index) == expected


async def test_who_waits_for_the_end_of_a_pause_is_found_again_where_the_list_of_them_is_gone(store, raw, namespace):
    await store.pause("desk", by="ana", reason="")
    writer = await Writer.of(store, "c-1", lease_ms=1)
    await writer.do(start(), begin())
    await store.release("c-1", writer.token, paused=True)
    key = Keys(namespace).paused(bucket_of("c-1"))
    assert raw.redis.delete(key) == 1

    await rebuild(store)

    assert raw.redis.zrange(key, 0, -1) == [b"desk|c-1"]
    assert (await store.attention(100)).conversation_ids == []
    raw.redis.set(key, "broken")
    (problem,) = [problem for bucket in await rebuild(store) for problem in bucket.problems]
    assert "released as paused" in problem
