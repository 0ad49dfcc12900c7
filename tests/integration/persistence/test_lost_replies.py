"""Replies that get lost after the work was done: each operation happens once, whatever the caller hears."""

import asyncio

import pytest
from redis import exceptions
from writer import APP, DESK, Writer, begin, call, send, start

from holdfast.errors import StoreUnavailable
from holdfast.persistence import (
    AccessScope,
    ApiKey,
    Owner,
    RedisStore,
    RunStatus,
    TakeoverReason,
    Ticket,
    TicketKind,
    redis_scripts,
)


@pytest.fixture
async def through(proxy, namespace):
    """A store whose replies the test may lose."""
    opened = RedisStore(proxy.url, namespace=namespace, retry_s=20)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def hasty(proxy, namespace):
    """The same without any patience of its own."""
    opened = RedisStore(proxy.url, namespace=namespace, retry_s=0)
    await opened.open()
    yield opened
    await opened.close()


async def running(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", "ask"))
    return writer


RULES = {"0" * 64: '{"deny":["*"],"version":1}'}


async def test_an_append_whose_reply_is_lost_is_written_once(proxy, through, store):
    writer = await Writer.of(through, "c-1")
    await writer.do(start())  # the script is known to the server
    proxy.requests.clear()
    proxy.lose, proxy.only = 1, b"EVALSHA"

    await writer.do(send(message_id="m-2"))

    assert proxy.lose == 0
    assert proxy.sent(b"EVALSHA") == 2
    assert [seq for seq, _ in await store.read("c-1", after=0)] == [1, 2, 3]
    assert await store.load("c-1") == writer.state
    await writer.do(begin())


async def test_an_append_whose_reply_is_lost_again_and_again_is_written_once(proxy, through, store):
    writer = await running(through)
    proxy.lose, proxy.only = 4, b"EVALSHA"

    await writer.do(send(message_id="m-2"))

    assert proxy.lose == 0
    assert await store.load("c-1") == writer.state


@pytest.mark.parametrize("agent", [None, "desk"])
async def test_a_resume_whose_reply_is_lost_lifts_no_pause_that_was_made_since(through, store, monkeypatch, agent):
    await store.pause(agent, by="ana", reason="the one that is lifted")
    run, made = redis_scripts.run, []

    async def losing(redis, name, keys, args):
        answer = await run(redis, name, keys, args)
        if name == "unpause" and not made:
            made.append(await store.pause(agent, by="bob", reason="harm is done now"))
            raise exceptions.ConnectionError("the reply is lost")
        return answer

    monkeypatch.setattr(redis_scripts, "run", losing)
    lifted = await through.unpause(agent)

    assert lifted.by == "ana"
    assert not made[0].duplicate
    assert list((await store.paused()).pauses) == made


@pytest.mark.parametrize("lost", [1, 3])
async def test_every_operation_gives_the_same_answer_after_lost_replies(proxy, through, store, lost):
    writer = await running(through)
    (lookup,) = writer.effect_ids
    await store.bind("cluster-0", "z", 1)
    await store.unbind("cluster-0")

    async def losing(operation):
        proxy.lose, proxy.only = lost, b"EVAL"
        answer = await operation
        assert proxy.lose == 0
        return answer

    assert await losing(through.claim("c-1", lookup, incarnation="i-1", worker="w-1")) is True
    assert await losing(through.finish("c-1", lookup, incarnation="i-1", outcome=b"x")) is True
    assert (await store.run("c-1", lookup)).status is RunStatus.DONE
    assert await losing(through.renew("c-1", writer.token, 60_000)) > 0
    anew = await losing(Writer.of(through, "c-1", seen=writer.token, because=TakeoverReason.DIED))
    assert (anew.epoch, anew.state) == (2, writer.state)
    assert anew.runs[lookup].outcome == b"x"
    assert await losing(through.bind("cluster-1", "a", 60_000)) is None
    assert await losing(through.serve("0.1", before=None)) is True
    await losing(through.release("c-1", anew.token))
    assert await store.owner("c-1") == Owner("", 2, "")
    assert await losing(through.load("c-1")) == writer.state
    assert (await store.bind("cluster-2", "b", 60_000)).cluster == "cluster-1"


async def test_plain_commands_survive_lost_replies(proxy, through, store):
    writer = await running(through)

    async def losing(operation):
        proxy.lose, proxy.only = 1, b""
        answer = await operation
        assert proxy.lose == 0
        return answer

    await losing(through.put_app(APP, [DESK], RULES))
    assert await losing(through.app(APP.app)) == APP
    assert await losing(through.rules("0" * 64)) == RULES["0" * 64]
    await losing(through.offer("actor-1", 0))
    assert await losing(through.offers()) == 1
    assert await losing(through.owner("c-1")) == Owner(writer.token, 1, "actor-1")
    assert len(await losing(through.read("c-1", after=0))) == writer.state.seq
    assert len(await losing(through.read("c-1", after=0, block_ms=1000))) == writer.state.seq
    assert len((await losing(through.pending(limit=10))).items) == 1
    assert len((await losing(through.conversations(limit=10))).items) == 1
    assert (await losing(through.attention(10))).conversation_ids == []


async def test_the_driver_repeats_nothing(proxy, hasty, store):
    """redis-py repeats by itself unless it is told not to; only the store knows what is safe to repeat."""
    writer = await running(hasty)
    (lookup,) = writer.effect_ids
    operations = [
        (b"EVALSHA", lambda: writer.do(send())),
        (b"EVALSHA", lambda: hasty.renew("c-1", writer.token, 60_000)),
        (b"EVALSHA", lambda: hasty.claim("c-1", lookup, incarnation="i-1", worker="w-1")),
        (b"TIME", hasty.now),
        (b"HMGET", lambda: hasty.owner("c-1")),
        (b"XRANGE", lambda: hasty.read("c-1", after=0, whole=True)),
        (b"XREAD", hasty.changes),
        (b"ZADD", lambda: hasty.offer("actor-1", 0)),
        (b"ZRANGEBYLEX", lambda: hasty.pending(limit=10)),
        (b"EVALSHA", hasty.take),
        (b"PUBLISH", lambda: hasty.publish("c-1", b"x")),
        (b"EVALSHA", lambda: hasty.refuse("c-1", lookup, incarnation="i-1", outcome=b"x")),
        (b"HGET", lambda: hasty.rules("0" * 64)),
        (b"MULTI", lambda: hasty.put_app(APP, [DESK], RULES)),
    ]
    await hasty.renew("c-1", writer.token, 60_000)
    await hasty.claim("c-1", "call_0#1", incarnation="i-1", worker="w-1")
    await hasty.refuse("c-1", "call_0#1", incarnation="i-1", outcome=b"x")
    for word, operation in operations:
        proxy.requests.clear()
        proxy.lose, proxy.only = 1, word
        with pytest.raises(StoreUnavailable):
            await operation()
        expected = 64 if word == b"ZRANGEBYLEX" else 1  # one for each bucket, in one request
        assert (word, proxy.sent(word)) == (word, expected)

    assert (await store.run("c-1", lookup)).status is RunStatus.CLAIMED  # it had happened
    assert await store.app(APP.app) == APP
    assert await store.rules("0" * 64) == RULES["0" * 64]


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_refusal_whose_reply_is_lost_is_recorded_once(proxy, through, store, lost):
    writer = await Writer.of(through, "c-1")
    await writer.do(start(), begin(), call("lookup", "charge"))
    lookup, charge = writer.effect_ids
    assert await through.refuse("c-1", charge, incarnation="i-1", outcome=b"first")  # the script is known to the server
    proxy.requests.clear()
    proxy.lose, proxy.only = lost, b"EVALSHA"

    assert await through.refuse("c-1", lookup, incarnation="i-1", outcome=b"second") is True

    assert proxy.lose == 0
    assert proxy.sent(b"EVALSHA") == lost + 1
    run = await store.run("c-1", lookup)
    assert (run.status, run.incarnation, run.outcome) == (RunStatus.DONE, "i-1", b"second")


async def test_a_refusal_with_an_unknown_outcome_is_settled_by_the_same_words_again(proxy, hasty, store):
    writer = await running(hasty)
    (lookup,) = writer.effect_ids
    await hasty.refuse("c-1", "call_0#1", incarnation="i-1", outcome=b"x")
    proxy.lose, proxy.only = 1, b"EVALSHA"
    with pytest.raises(StoreUnavailable):
        await hasty.refuse("c-1", lookup, incarnation="i-1", outcome=b"x")
    assert (await store.run("c-1", lookup)).status is RunStatus.DONE  # it had happened

    assert await hasty.refuse("c-1", lookup, incarnation="i-1", outcome=b"x")
    assert not await hasty.refuse("c-1", lookup, incarnation="i-2", outcome=b"x")


async def test_an_unknown_outcome_is_settled_by_the_same_write_again(proxy, hasty, store):
    writer = await running(hasty)
    write = writer.judged(send(), now=await store.now())
    proxy.lose, proxy.only = 1, b"EVALSHA"
    with pytest.raises(StoreUnavailable):
        await hasty.append("c-1", write)
    assert (await store.load("c-1")).seq == write.after.seq  # it had happened

    await hasty.append("c-1", write)

    assert (await store.load("c-1")) == write.after


async def test_who_takes_an_offer_and_hears_nothing_took_one(proxy, through, store):
    """An adoption is not repeated: it would take two actors. The one that was lost offers itself again."""
    for name in ("actor-1", "actor-2"):
        await store.offer(name, 0)
    assert await store.take(0) == []  # the script is known
    proxy.lose, proxy.only = 1, b"EVALSHA"

    with pytest.raises(StoreUnavailable):
        await through.take()

    assert await store.take() == ["actor-2"]
    assert await store.take() == []


async def test_scripts_that_the_server_forgot_are_sent_again(raw, store):
    writer = await running(store)
    raw.redis.script_flush()
    await writer.do(send())
    raw.redis.script_flush()
    anew = await writer.succeeded()
    raw.redis.script_flush()
    await anew.release()

    assert await store.load("c-1") == writer.state


async def test_a_forgotten_script_whose_reply_is_lost_is_run_once(proxy, raw, through, store):
    writer = await running(through)
    raw.redis.script_flush()
    proxy.lose, proxy.only = 1, b"EVAL\r\n"  # not the EVALSHA before it

    await writer.do(send(message_id="m-2"))

    assert proxy.lose == 0
    assert await store.load("c-1") == writer.state


async def test_a_call_given_up_in_the_middle_leaves_its_reply_to_nobody(store):
    """Each caller gets its own answer, also on a connection whose last caller was cancelled."""
    for number in range(12):
        await (await Writer.of(store, f"c-{number}")).do(start())
    for number in range(60):
        given_up = asyncio.create_task(store.load(f"c-{number % 12}"))
        for _ in range(number % 15):
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        name = f"c-{(number + 1) % 12}"
        assert (await store.load(name)).conversation_id == name
        assert await store.now() > 1_000_000_000_000


async def test_many_may_wait_at_once(store):
    """More than the driver's own bound of connections."""
    writer = await Writer.of(store, "c-1")
    waiting = [asyncio.create_task(store.read("c-1", after=0, block_ms=20_000)) for _ in range(150)]
    await asyncio.sleep(0)

    await writer.do(start())

    assert {len(events) for events in await asyncio.gather(*waiting)} == {2}


async def test_a_key_whose_removal_was_acknowledged_in_vain_was_there(proxy, through, store):
    await store.put_api_key(ApiKey(key_id="k1", name="ana", digest="00", scopes=(AccessScope.READ,), created_at=1))
    proxy.lose, proxy.only = 2, b"HDEL"

    assert await through.remove_api_key("k1")

    assert proxy.lose == 0
    assert await store.api_key("k1") is None
    assert not await through.remove_api_key("k1")


async def test_a_ticket_whose_removal_was_acknowledged_in_vain_is_gone_and_counts_for_nobody(proxy, through, store):
    digest = "0a" * 32
    made = Ticket(digest=digest, kind=TicketKind.SIGNING_IN, created_at=1, expires_at=await store.now() + 60_000)
    await store.put_ticket(made)
    proxy.lose, proxy.only = 1, b"DEL"

    assert not await through.remove_ticket(digest)

    assert proxy.lose == 0
    assert await store.ticket(digest) is None
