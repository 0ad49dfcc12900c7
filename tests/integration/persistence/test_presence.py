"""Presence in Redis: what a renewal costs, what stays of clients, and what is read of spoilt ones."""

import pytest
from toy_cipher import ToyCipher
from writer import Writer, begin, reply, start

from holdfast.conversation import Principal, Proof
from holdfast.conversation.terms.presence import GONE_MS, KEPT_MS, LEAVES_MS, OnDetach, Present
from holdfast.counting import Counts
from holdfast.errors import CorruptStore
from holdfast.persistence import RedisStore, codec
from holdfast.persistence.keys import Keys
from holdfast.persistence.presence import client_key

ANA = Principal("ana@shop.example", proof=Proof.KEY)


def client(client_id="tab-1", on_detach=OnDetach.KEEP):
    return Present(client_id=client_id, principal=ANA, tools=("read_clipboard",), on_detach=on_detach)


async def started(store, conversation_id="c-1"):
    writer = await Writer.of(store, conversation_id)
    await writer.do(start(), begin())
    await writer.do(reply())
    await writer.release()


def processed(raw):
    return raw.redis.info("stats")["total_commands_processed"]


async def test_a_renewal_is_one_command_for_each_client(store, raw):
    clients = []
    for number in range(40):
        await started(store, f"c-{number}")
        clients += [(f"c-{number}", client(f"tab-{place}")) for place in range(25)]
    for name, one in clients:
        await store.attach(name, one)
    await store.renew_clients(clients)
    before = processed(raw)

    assert all(await store.renew_clients(clients))

    assert processed(raw) - before - 1 == 1000


async def test_nothing_stays_of_clients_that_have_left(store, raw):
    await started(store)
    keys = Keys(raw.namespace)
    names = [keys.clients("c-1"), keys.here("c-1")]
    for one in (client("a"), client("b", OnDetach.CANCEL)):
        await store.attach("c-1", one)
        await store.detach("c-1", one.name)
    assert [raw.redis.pttl(name) for name in names] == [-1, -1]  # a departure is to be judged
    assert int(raw.redis.hget(keys.head("c-1"), "leaves")) <= await store.now() + LEAVES_MS

    await store.attach("c-1", client("b"))
    assert raw.redis.hget(keys.head("c-1"), "leaves") is None
    await store.detach("c-1", client("b").name)

    assert all(0 < raw.redis.pttl(name) <= KEPT_MS for name in names)
    await store.attach("c-1", client("a"))
    assert [raw.redis.pttl(name) for name in names] == [-1, -1]


async def test_a_client_that_cannot_be_read_hides_no_other(store, raw):
    await started(store)
    keys = Keys(raw.namespace)
    spoilt = {
        "newer": codec.pack([codec.VERSION + 1, "present", {}]),
        "other": codec.encode(client("x")).replace(b"present", b"absents"),
        "bytes": b"\xc1",
        "empty": b"",
    }
    for name, record in spoilt.items():
        await store.attach("c-1", client(name))
        raw.redis.hset(keys.clients("c-1"), client_key(client(name).name), b"|" + record)
    await store.attach("c-1", client("whole"))
    raw.redis.hset(keys.clients("c-1"), "not ours", b"not ours")
    raw.redis.zadd(keys.here("c-1"), {b"\xff\xff": float("inf"), b"": -7.5})

    assert [one.client_id for one in await store.present("c-1")] == ["whole"]

    for name in spoilt:
        await store.attach("c-1", client(name))
    assert len(await store.present("c-1")) == 5


async def test_a_member_that_is_none_ends_no_operation(store, raw):
    await started(store)
    keys = Keys(raw.namespace)
    raw.redis.zadd(keys.here("c-1"), {b"ca" + b"0" * 32: float("inf"), b"c": 5, b"\xff": float("-inf")})
    raw.redis.hset(keys.head("c-1"), "leaves", "never")

    one = client(on_detach=OnDetach.CANCEL)
    await store.attach("c-1", one)
    assert (await store.renew_clients([("c-1", one)]))[0] > await store.now()
    await store.forget_clients("c-1", [one.name])
    await store.detach("c-1", one.name)

    assert [found.client_id for found in await store.present("c-1")] == ["tab-1"]


@pytest.mark.parametrize("on_detach", OnDetach)
async def test_one_spoilt_conversation_fails_only_its_own_clients(store, raw, on_detach):
    one = client(on_detach=on_detach)
    for name in ("c-1", "c-2", "c-3"):
        await started(store, name)
        await store.attach(name, one)
    raw.redis.delete(Keys(raw.namespace).here("c-2"))
    raw.redis.set(Keys(raw.namespace).here("c-2"), "not ours")

    first, spoilt, last = await store.renew_clients([(name, one) for name in ("c-1", "c-2", "c-3")])

    assert spoilt == 0
    assert min(first, last) > await store.now()
    with pytest.raises(CorruptStore):
        await store.attach("c-2", one)


async def test_a_renewal_after_a_pause_reads_the_clock_of_redis_anew(store, raw, monkeypatch):
    await started(store)
    await store.attach("c-1", client())
    await store.renew_clients([("c-1", client())])
    assert store._time is not None
    store._time._offset -= 3_600_000  # as after a clock that was set
    monkeypatch.setattr(store._time, "_heard_at", None)
    store._time._latest = 0

    (ends,) = await store.renew_clients([("c-1", client())])

    assert abs(ends - GONE_MS - await store.now()) < GONE_MS


async def test_nobody_reads_in_redis_who_is_attached(server, namespace, raw):
    store = RedisStore(server.url, namespace=namespace, cipher=ToyCipher())
    blind = RedisStore(server.url, namespace=namespace)
    for one in (store, blind):
        await one.open()
    await started(store)
    await store.attach("c-1", client("laptop-of-ana"))

    everything = b"".join(repr(part).encode() for part in raw.contents().items())
    for word in (b"ana@", b"laptop", b"read_clipboard"):
        assert word not in everything
    assert await store.encrypted()
    assert [one.client_id for one in await store.present("c-1")] == ["laptop-of-ana"]
    assert await blind.present("c-1") == ()
    await store.close()
    await blind.close()


async def test_a_process_that_only_renews_has_nothing_to_count(server, namespace, raw):
    counts = Counts()
    store = RedisStore(server.url, namespace=namespace, counts=counts)
    await store.open()
    await started(store)
    clients = [("c-1", client("a")), ("c-1", client("b", OnDetach.CANCEL))]
    for name, one in clients:
        await store.attach(name, one)
    counts.taken()

    assert all(await store.renew_clients(clients))

    assert counts.taken() == {}
    await store.close()
