"""A server that is away, full, read-only, broken, too old or another one: a typed error, and nothing lost."""

import shutil
import time

import pytest
import redis
from redis_server import RedisServer
from writer import APP, DESK, Writer, begin, call, cancel, finish, reply, resolve, send, start

from holdfast.conversation import Answer
from holdfast.conversation.terms.presence import Present
from holdfast.errors import ConfigurationError, CorruptStore, Fenced, StoreUnavailable, UnsupportedServer, WrongStore
from holdfast.persistence import RedisStore, TakeoverReason, redis_presence
from holdfast.persistence.keys import STORE_ID


@pytest.fixture
async def writer(own_store):
    active = await Writer.of(own_store, "c-1")
    await active.do(start(), begin(), call("lookup", "charge", "ask"))
    await own_store.claim("c-1", active.effect_ids[1], incarnation="i-1", worker="w-1")
    return active


def writes(writer):
    """Every write there is, as calls to be made."""
    store = writer.store
    lookup, charge = writer.effect_ids
    return {
        "append": lambda: writer.do(send()),
        "confirm": lambda: store.append("c-1", writer.write()),
        "acquire": lambda: Writer.of(store, "c-1", seen=writer.token, because=TakeoverReason.DIED),
        "create": lambda: Writer.of(store, "c-2"),
        "renew": lambda: store.renew("c-1", writer.token, 1000),
        "release": lambda: store.release("c-1", writer.token),
        "claim": lambda: store.claim("c-1", lookup, incarnation="i-1", worker="w-1"),
        "finish": lambda: store.finish("c-1", charge, incarnation="i-1", outcome=b"x"),
        "refuse": lambda: store.refuse("c-1", lookup, incarnation="i-1", outcome=b"x"),
        "put_app": lambda: store.put_app(APP, [DESK]),
        "put_app with rules": lambda: store.put_app(APP, [DESK], {"0" * 64: "{}"}),
        "put_problem": lambda: store.put_problem("a:b", "x"),
        "offer": lambda: store.offer("actor-1", 0),
        "bind": lambda: store.bind("cluster-1", "a", 1000),
        "attest": lambda: store.attest("w-1", 1000),
        "serve": lambda: store.serve("0.1", before=None),
    }


async def reads_work(store, state):
    assert await store.load("c-1") == state
    assert len((await store.pending(limit=10)).items) == 1
    assert len((await store.conversations(limit=10)).items) == 1


# -- full, read-only, broken disk ---------------------------------------------------------------------------------------


async def test_a_full_server_refuses_every_write_whole(own_store, own_raw, writer):
    own_raw.redis.config_set("maxmemory", 1)

    with own_raw.unchanged():
        for name, write in writes(writer).items():
            if name == "release":
                continue
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await write()
        await reads_work(own_store, writer.state)

    own_raw.redis.config_set("maxmemory", 0)
    await writer.do(send())


async def test_a_full_server_lets_go_of_what_it_has(own_store, own_raw, writer):
    """Giving up a conversation or an offer needs no room."""
    await own_store.offer("actor-1", 0)
    own_raw.redis.config_set("maxmemory", 1)

    await writer.release()
    await own_store.offer("actor-1", None)

    assert (await own_store.owner("c-1")).token == ""
    assert (await own_store.attention(10)).conversation_ids == ["c-1"]


async def test_a_read_only_replica_refuses_every_write(own_store, own_raw, writer):
    own_raw.redis.replicaof("127.0.0.1", "1")  # a primary that is not there

    with own_raw.unchanged():
        for write in writes(writer).values():
            with pytest.raises(StoreUnavailable, match="connect to the primary"):
                await write()
        await reads_work(own_store, writer.state)

    own_raw.redis.replicaof("NO", "ONE")
    await writer.do(send())


async def test_a_server_that_cannot_save_refuses_every_write(own_store, own_server, own_raw, writer):
    (own_server.directory / "dump.rdb" / "in the way").mkdir(parents=True)
    own_raw.redis.config_set("appendonly", "no")
    own_raw.redis.config_set("save", "3600 1")
    own_raw.redis.bgsave()
    deadline = time.monotonic() + 20
    while own_raw.redis.info("persistence")["rdb_last_bgsave_status"] != "err":
        assert time.monotonic() < deadline

    with own_raw.unchanged():
        for write in writes(writer).values():
            with pytest.raises(StoreUnavailable, match="disk"):
                await write()
        await reads_work(own_store, writer.state)

    own_raw.redis.config_set("stop-writes-on-bgsave-error", "no")
    await writer.do(send())


# -- away ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["unix:///tmp/nobody-listens-here.sock", "redis://127.0.0.1:1/0"])
async def test_a_server_that_is_away_at_the_start_is_unavailable(url):
    store = RedisStore(url, retry_s=0.1)

    with pytest.raises(StoreUnavailable):
        await store.open()
    with pytest.raises(StoreUnavailable):
        await store.pending(limit=10)
    await store.close()


@pytest.mark.parametrize(
    "url", ["", "localhost:6379", "http://localhost", "redis://localhost:port/0", "redis://localhost:99999"]
)
async def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError) as refused:
        RedisStore(url)
    assert refused.value.field == "redis_url"


async def test_a_server_with_a_password_asks_for_it():
    with RedisServer(requirepass="secret") as server:
        for url, problem in (
            (server.url, "asks for a password"),
            (f"unix://:wrong@{server.socket}", "password in the URL is wrong"),
        ):
            store = RedisStore(url, retry_s=0)
            with pytest.raises(StoreUnavailable, match=problem):
                await store.open()
            await store.close()
        store = RedisStore(f"unix://:secret@{server.socket}", retry_s=0)
        assert await store.open()
        await store.close()


@pytest.mark.parametrize("namespace", ["", "Upper", "a b", "{x}", "-x", "x" * 64, None, 7, "x:y", "ünï"])
def test_a_namespace_that_is_none_is_refused(namespace):
    with pytest.raises(ConfigurationError) as refused:
        RedisStore("unix:///tmp/x.sock", namespace=namespace)
    assert refused.value.field == "namespace"


async def test_a_server_that_goes_away_in_the_middle_is_unavailable(own_server, own_store, writer):
    own_server.kill()

    for call_ in [*writes(writer).values(), own_store.now, own_store.take, lambda: own_store.load("c-1")]:
        with pytest.raises(StoreUnavailable):
            await call_()


async def test_a_server_that_comes_back_soon_is_waited_for(own_server, namespace):
    store = RedisStore(own_server.url, namespace=namespace, retry_s=20)
    await store.open()
    writer = await Writer.of(store, "c-1")
    own_server.kill()
    own_server.start()

    await writer.do(start())

    assert (await store.load("c-1")).seq == 2
    await store.close()


async def test_everything_acknowledged_is_there_after_a_kill(own_server, own_store, writer):
    await own_store.put_app(APP, [DESK])
    await own_store.offer("actor-1", 0)
    outcome = (writer.effect_ids[1], b"outcome")
    await own_store.finish("c-1", outcome[0], incarnation="i-1", outcome=outcome[1])
    before = await own_store.pending(limit=10)
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        await own_store.now()
    own_server.start()

    assert await own_store.load("c-1") == writer.state
    assert await own_store.pending(limit=10) == before
    assert (await own_store.run("c-1", outcome[0])).outcome == outcome[1]
    assert await own_store.app(APP.app) == APP
    assert await own_store.take() == ["actor-1"]
    await writer.do(resolve(Answer("blue")), finish(), finish(), reply())


async def test_no_acknowledged_append_is_lost_by_kills_in_between(own_server, namespace):
    store = RedisStore(own_server.url, namespace=namespace, retry_s=20)
    await store.open()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    acknowledged = []
    for number in range(40):
        if number % 10 == 5:
            own_server.kill()
            own_server.start()
        await writer.do(send(message_id=f"m-sent-{number}"))
        acknowledged.append(f"m-sent-{number}")

    sent = [event.message_id for _, event in await store.read("c-1", after=2) if event.kind == "message_accepted"]
    assert sent == acknowledged
    await store.close()


async def test_a_listener_learns_that_the_server_is_gone(own_server, own_store):
    listening = own_store.listen("c-1")
    own_server.kill()

    with pytest.raises(StoreUnavailable):
        await anext(listening)


async def test_a_blocked_reader_learns_that_the_server_is_gone(own_server, own_store, writer):
    own_server.kill()

    with pytest.raises(StoreUnavailable):
        await own_store.read("c-1", after=99, block_ms=10_000)


# -- another store ------------------------------------------------------------------------------------------------------


async def test_another_store_at_the_same_address_is_refused_by_every_call(own_server, own_store, writer, tmp_path):
    other = tmp_path / "other"
    own_server.kill()
    shutil.move(own_server.directory, other)
    own_server.directory.mkdir()
    own_server.start()  # on nothing

    for _ in range(3):  # also on a connection that was refused before
        for call_ in [*writes(writer).values(), own_store.open, own_store.now, lambda: own_store.load("c-1")]:
            with pytest.raises(WrongStore):
                await call_()
        with pytest.raises(WrongStore):
            await own_store.read("c-1", after=99, block_ms=10)
        with pytest.raises(WrongStore):
            await anext(own_store.listen("c-1"))

    with redis.Redis(unix_socket_path=str(own_server.socket)) as raw:
        assert raw.dbsize() == 0
    own_server.kill()
    shutil.rmtree(own_server.directory)
    shutil.move(other, own_server.directory)
    own_server.start()
    await writer.do(cancel())


async def test_a_store_that_was_emptied_is_refused(own_store, own_raw):
    own_raw.redis.delete(STORE_ID)

    with pytest.raises(WrongStore) as refused:
        await own_store.open()

    assert (refused.value.expected, refused.value.found) == (own_store.store_id, "none")
    assert own_raw.redis.get(STORE_ID) is None


async def test_a_store_that_is_expected_must_be_there(own_server, own_store):
    right = RedisStore(own_server.url, store_id=own_store.store_id)
    wrong = RedisStore(own_server.url, store_id="0" * 32)

    assert await right.open() == own_store.store_id
    with pytest.raises(WrongStore):
        await wrong.open()
    with pytest.raises(WrongStore):
        await wrong.offer("actor-1", 0)
    assert await right.take() == []
    await right.close()
    await wrong.close()


# -- a store that went back in time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken_over", [False, True])
async def test_a_store_set_back_refuses_the_activations_of_after(own_server, own_store, writer, tmp_path, taken_over):
    """By its token where it was acquired since, by its place in the log where it wrote since."""
    backup = tmp_path / "backup"
    own_server.kill()
    shutil.copytree(own_server.directory, backup, ignore=shutil.ignore_patterns("*.sock"))
    own_server.start()
    if taken_over:
        writer = await writer.succeeded()
    await writer.do(resolve(Answer("blue")))
    own_server.kill()
    shutil.rmtree(own_server.directory)
    shutil.move(backup, own_server.directory)
    own_server.start()
    before = await own_store.load("c-1")

    error = Fenced if taken_over else CorruptStore
    with pytest.raises(error):
        await writer.do(finish())
    with pytest.raises(error):
        await own_store.append("c-1", writer.write())

    assert await own_store.load("c-1") == before
    assert before.seq < writer.state.seq
    seen = (await own_store.owner("c-1")).token
    anew = await Writer.of(own_store, "c-1", seen=seen, because=TakeoverReason.OWN)
    await anew.do(resolve(Answer("red")))


# -- too old ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [b"6.0.9", b"5.9.9", b"6.1.9"])
async def test_a_server_that_is_too_old_is_refused(proxy, raw, version):
    proxy.rewrite = lambda reply: replaced(reply, version)
    store = RedisStore(proxy.url, namespace=raw.namespace)

    with pytest.raises(UnsupportedServer) as refused:
        await store.open()

    assert version.decode() in str(refused.value)
    assert refused.value.field == "redis_url"
    assert raw.every_key() == []
    await store.close()


@pytest.mark.parametrize("version", [b"6.2.0", b"7.0.5", b"9.0.1"])
async def test_newer_servers_serve(proxy, namespace, version):
    proxy.rewrite = lambda reply: replaced(reply, version)
    store = RedisStore(proxy.url, namespace=namespace)

    assert await store.open()
    await store.close()


def replaced(reply, version):
    """The server's own version, which has five characters in every reply here, by another one."""
    head, mark, rest = reply.partition(b"redis_version:")
    return head + mark + version + rest[rest.index(b"\r") :] if mark and rest.index(b"\r") == len(version) else reply


async def test_the_faked_version_has_the_length_of_the_real_one(raw):
    assert len(raw.redis.info("server")["redis_version"]) == 5


def test_a_server_of_ones_own_ends_with_its_block(tmp_path):
    with RedisServer(directory=tmp_path / "r") as server:
        assert server.socket.exists()
        process = server._process
    assert process.poll() is not None


async def test_whoever_could_not_renew_during_an_outage_is_not_taken_for_gone_at_its_end(monkeypatch):
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        store = RedisStore(server.url, retry_s=0.1)
        await store.open()
        await (await Writer.of(store, "c-1")).do(start(), begin())
        await store.attach("c-1", Present(client_id="tab-1", tools=("locate",)))
        server.kill()
        with pytest.raises(StoreUnavailable):
            await store.now()
        server.start()
        with pytest.raises(StoreUnavailable, match="have yet to renew their presence"):
            await store.present("c-1")
        monkeypatch.setattr(redis_presence, "RENEWED_AGAIN_S", 0)
        assert [one.client_id for one in await store.present("c-1")] == ["tab-1"]
        await store.close()
