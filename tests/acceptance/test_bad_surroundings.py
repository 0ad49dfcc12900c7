"""What a running stack stands on goes wrong: Redis, its records, the cluster. A typed error in time, and nothing changed."""

import asyncio
import contextlib
import functools
import json
import shutil
import socket
import threading
import uuid

import pytest
import redis
from redis_server import RedisServer
from refusals import contents, refused, unchanged
from stack_fixture import eventually

from holdfast.actors.ray_launcher import find, named
from holdfast.client import (
    Answer,
    AsyncClient,
    Client,
    ConfigurationError,
    OutcomeUnknown,
    StoreUnavailable,
    WrongCluster,
    WrongStore,
)
from holdfast.embedded.local_ray import ensure_ray, running_ray
from holdfast.errors import HomeUnusable, NewerRecord
from holdfast.persistence import RedisStore, codec
from holdfast.persistence.keys import Keys
from holdfast.registry.cluster import BINDING_STALE_MS
from holdfast.testing import call, calls

PATIENCE_S = 120
SOON_S = 3


@pytest.fixture(scope="module")
def client(stack):
    with Client.connect("shop_app:app", timeout_s=60) as connected:
        connected._run(connected._async().gateway.stack.transport())  # from now on this process is in the embedded cluster
        yield connected


@pytest.fixture(scope="module")
def raw(stack):
    with redis.Redis.from_url(stack.redis_url) as opened:
        yield opened


# -- Redis, in the middle -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture(scope="module")
def settings(stack, server):
    return {"app": "shop_app:app", "redis_url": server.url, "ray_address": ensure_ray(stack.home).address, "publish": True}


@pytest.fixture(scope="module")
def elsewhere(client, settings):
    """A client of the embedded cluster and of a Redis of these tests' own."""
    import ray  # noqa: PLC0415 - joined by now

    with Client.connect(**settings, timeout_s=60) as connected:
        yield connected
        store_id = connected._run(connected._async().gateway.stack.store()).store_id
        for actor in ray.util.list_named_actors(all_namespaces=True):
            if store_id in actor["name"]:
                ray.kill(ray.get_actor(**actor))


@pytest.fixture(scope="module")
def server_raw(server):
    with redis.Redis(unix_socket_path=str(server.socket)) as opened:
        yield opened


@pytest.fixture
def asked(stack, elsewhere, request):
    """A conversation of its own for each test, that waits for an answer."""
    name = request.node.name.translate({ord("["): ".", ord("]"): "."})[-100:].lstrip("._")
    text = stack.scenarios.add(name, calls(call("ask", {"question": "?"})), "One.", "Two.")
    conversation = elsewhere.start("support", text, conversation_id=name)
    assert conversation.wait(timeout_s=PATIENCE_S).pending
    return conversation


async def ask_everything(settings, conversation, text, spoil):
    """Read and command with little patience, on connections from before something was spoilt; what each came to."""
    async with AsyncClient.connect(**settings, timeout_s=SOON_S) as soon:
        same = soon.conversation(conversation.id)
        await (await soon.gateway.stack.transport()).held(conversation.id)  # an actor has it
        await asyncio.to_thread(spoil)
        readings = await asyncio.gather(same.pending(), same.messages(), soon.pending(), return_exceptions=True)
        commands = await asyncio.gather(
            same.send("more", message_id="m-1"),
            same.resolve("s-1" if isinstance(readings[0], Exception) else readings[0][0], Answer("x"), decision_id="d-1"),
            soon.start("clerk", text, conversation_id=f"{conversation.id}.new", message_id="m-1"),
            return_exceptions=True,
        )
    return readings, commands


def goes_on(elsewhere, raw, conversation, text):
    """What was refused or left open is asked again with its ids, and happens once."""
    if pending := conversation.pending():  # else it was done after all
        conversation.resolve(pending[0], Answer("x"), decision_id="d-1")
    receipt = conversation.send("more", message_id="m-1")
    assert conversation.send("more", message_id="m-1").seq == receipt.seq
    eventually(lambda: conversation.wait(after=receipt.seq, timeout_s=PATIENCE_S).reply == "Two.", what="the second reply")
    spoken = [message["content"] for message in conversation.messages() if message["role"] == "user"]
    assert spoken[1:] == ["more"]
    new = elsewhere.start("clerk", text, conversation_id=f"{conversation.id}.new", message_id="m-1")
    assert new.wait(timeout_s=PATIENCE_S).reply == "Filed."


@pytest.mark.parametrize(
    ("broken", "mended", "words"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "Redis is full: raise maxmemory"),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "a read-only replica: connect to the primary"),
    ],
    ids=["full", "read-only"],
)
def test_a_redis_that_refuses_writes_refuses_every_command_in_time(
    stack, elsewhere, settings, server_raw, asked, broken, mended, words
):
    text = stack.scenarios.add(f"new-{asked.id}", "Filed.")
    try:
        with unchanged(server_raw, asked):
            spoil = functools.partial(server_raw.execute_command, *broken)
            readings, commands = asyncio.run(ask_everything(settings, asked, text, spoil))
            with Client.connect(**settings) as late, pytest.raises(StoreUnavailable, match=words):
                late.conversation(asked.id).cancel()
        assert contents(server_raw, f"{asked.id}.new") == {}
    finally:
        server_raw.execute_command(*mended)

    assert not [reading for reading in readings if isinstance(reading, Exception)]
    sent, resolved, started = commands
    assert isinstance(started, OutcomeUnknown | StoreUnavailable)
    assert words in str(started)
    assert {type(sent), type(resolved)} == {OutcomeUnknown}
    assert words in f"{sent} {resolved}"  # one was judged and refused, the other may still wait in the actor's queue
    assert "retry with the same id 'm-1'" in str(sent)
    assert "retry with the same id 'd-1'" in str(resolved)
    goes_on(elsewhere, server_raw, asked, text)


def test_a_redis_that_goes_away_in_the_middle_is_unavailable_in_time(stack, elsewhere, settings, server, server_raw, asked):
    text = stack.scenarios.add(f"new-{asked.id}", "Filed.")
    before = contents(server_raw, asked.id)
    try:
        readings, commands = asyncio.run(ask_everything(settings, asked, text, server.kill))
        for use in (asked.pending, lambda: asked.wait(timeout_s=PATIENCE_S), lambda: next(asked.events(after=1_000))):
            with pytest.raises(StoreUnavailable):
                use()
    finally:
        server.start()

    for error in (*readings, *commands):
        assert isinstance(error, OutcomeUnknown | StoreUnavailable), repr(error)
    assert contents(server_raw, asked.id) == before
    goes_on(elsewhere, server_raw, asked, text)


def test_another_store_than_before_is_refused_and_left_empty(stack, elsewhere, settings, server, server_raw, asked):
    text = stack.scenarios.add(f"new-{asked.id}", "Filed.")
    before = contents(server_raw, asked.id)
    other = server.directory.with_name(server.directory.name + "-other")
    server.kill()
    shutil.move(server.directory, other)
    server.directory.mkdir()
    server.start()  # on nothing
    try:
        for use in (
            asked.pending,
            asked.messages,
            asked.cancel,
            lambda: asked.send("more"),
            lambda: asked.resolve("s-1", Answer("x")),
            lambda: elsewhere.start("clerk", text, conversation_id=f"{asked.id}.new", message_id="m-1"),
        ):
            with pytest.raises(WrongStore, match="point HOLDFAST_REDIS_URL to the store that holds the conversations"):
                use()
        assert server_raw.dbsize() == 0
    finally:
        server.kill()
        shutil.rmtree(server.directory)
        shutil.move(other, server.directory)
        server.start()

    assert contents(server_raw, asked.id) == before
    goes_on(elsewhere, server_raw, asked, text)


# -- records of a newer Holdfast ----------------------------------------------------------------------------------------


def newer(packed):
    """The record as a later version would have written it."""
    version, kind, fields = codec.unpack(packed)
    return codec.pack([version + 1, kind, {**fields, "of_later": 1}])


def test_a_record_of_a_newer_holdfast_is_refused_and_left_as_it_is(stack, client, raw):
    """Of a conversation that waits at rest: its snapshot, and an entry of its log after that."""
    asked = calls(call("ask", {"question": "1?"}), call("ask", {"question": "2?"}))
    conversation = client.start("support", stack.scenarios.add("bad-newer", asked, "Done."), conversation_id="bad-newer")
    first, second = conversation.wait(timeout_s=PATIENCE_S).pending
    first.resolve(Answer("x"), decision_id="click-1")
    keys = Keys("holdfast")
    head, log = keys.head(conversation.id), keys.log(conversation.id)
    eventually(lambda: not raw.hexists(head, "token"), what="passivation")
    entries, snapshot = raw.xrange(log), raw.hget(head, "snapshot")

    def write_log(last):
        raw.delete(log)
        for entry_id, fields in [*entries[:-1], (entries[-1][0], last)]:
            raw.xadd(log, fields, id=entry_id)

    damages = {
        rf"a record \(state.*\) has version {codec.VERSION + 1}": (
            lambda: raw.hset(head, "snapshot", newer(snapshot)),
            lambda: raw.hset(head, "snapshot", snapshot),
        ),
        rf"a record \(.*\) has version {codec.VERSION + 1}": (
            lambda: write_log({b"e": newer(entries[-1][1][b"e"])}),
            lambda: write_log(entries[-1][1]),
        ),
    }
    for words, (damage, restore) in damages.items():
        damage()
        before = contents(raw, conversation.id)
        for use in (
            lambda: second.resolve(Answer("y")),
            lambda: conversation.send("x"),
            conversation.cancel,
            conversation.end,
            lambda: client.start("support", "bad-newer", conversation_id=conversation.id),
            conversation.state,
            conversation.pending,
            lambda: next(conversation.events()),
        ):
            with pytest.raises(NewerRecord, match=f"{words}, this code reads up to {codec.VERSION}: upgrade holdfast here"):
                use()
        assert contents(raw, conversation.id) == before
        restore()

    receipt = second.resolve(Answer("y"))
    assert conversation.wait(after=receipt.seq, timeout_s=PATIENCE_S).reply == "Done."


# -- the cluster --------------------------------------------------------------------------------------------------------


@pytest.fixture
def fake_ray():
    """The address of what greets as Ray does, and is none."""

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # it was shut down
                return
            with connection, contextlib.suppress(OSError):  # who only knocks is gone again
                connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
                connection.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield "{}:{}".format(*listening.getsockname())
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


NOWHERE = "192.0.2.1:6379"
"""Of TEST-NET-1: what a container's own address may look like from another one."""


@pytest.mark.parametrize("address", ["fake_ray", NOWHERE, "no-such-host.invalid:6379", "127.0.0.1:1", "own"])
async def test_a_store_that_is_bound_to_another_living_cluster_is_refused(stack, client, raw, fake_ray, address):
    address = {"fake_ray": fake_ray, "own": running_ray(stack.home).address}.get(address, address)
    namespace = f"bound-{uuid.uuid4().hex[:8]}"
    store = RedisStore(stack.redis_url, namespace=namespace)
    await store.open()

    async def sweeping():
        while True:  # as the other cluster's sweeper does
            assert await store.bind("ghost", address, BINDING_STALE_MS) is None
            await asyncio.sleep(0.1)

    sweeper = asyncio.create_task(sweeping())
    before = {*raw.scan_iter(f"{{{namespace}:*", count=1000), Keys(namespace).meta("cluster").encode()}
    async with AsyncClient.connect("shop_app:app", namespace=namespace, timeout_s=PATIENCE_S) as stranger:
        for use in (stranger.start("support", "hello"), stranger.conversation("x").cancel()):
            with pytest.raises(
                WrongCluster, match=rf"bound to the Ray cluster at {address}\b.*connect there, or stop it first"
            ):
                await use
        assert (await stranger.pending()).items == []  # reading is no matter of clusters

    assert set(raw.scan_iter(f"{{{namespace}:*", count=1000)) == before
    assert raw.hget(Keys(namespace).meta("cluster"), "cluster") == b"ghost"
    assert not sweeper.done()
    sweeper.cancel()
    await store.close()


@pytest.mark.gate
async def test_a_client_notices_that_another_cluster_has_taken_its_store(stack, client, raw):
    import ray  # noqa: PLC0415 - joined by now

    namespace = f"taken-{uuid.uuid4().hex[:8]}"
    async with AsyncClient.connect("shop_app:app", namespace=namespace, timeout_s=PATIENCE_S) as connected:
        text = stack.scenarios.add(namespace, "Hello.", "Again.")
        conversation = await connected.start("support", text, conversation_id=namespace)
        await conversation.wait(timeout_s=PATIENCE_S)
        mine = connected.gateway.stack._transport
        store = await connected.gateway.stack.store()
        assert await store.bind("ghost", NOWHERE, BINDING_STALE_MS, gone=[mine.cluster.cluster_id]) is None

        async def noticed():
            try:
                await conversation.send("again", message_id="again")
            except WrongCluster as error:
                return str(error)

        async with asyncio.timeout(PATIENCE_S):
            while not (said := await noticed()):
                await asyncio.sleep(0.05)

        assert f"bound to the Ray cluster at {NOWHERE}" in said
        seq = (await conversation.state()).seq
        with pytest.raises(WrongCluster):
            await conversation.send("once more")
        assert (await conversation.state()).seq == seq
        for name in named(mine.settings.family):
            ray.kill(find(name))


async def test_a_process_is_in_one_cluster_at_a_time(stack, client, fake_ray):
    settings = {"redis_url": stack.redis_url, "ray_address": fake_ray}
    async with AsyncClient.connect(**settings, timeout_s=PATIENCE_S) as stranger:
        for _ in range(2):
            with refused("ray_address", r"has already joined the cluster at .*ray\.shutdown\(\)", ConfigurationError):
                await stranger.conversation("nobody").cancel()


JOIN = """
import asyncio
from ray._private import utils
from holdfast.client import AsyncClient, ConfigurationError

async def main():
    async with AsyncClient.connect(timeout_s=60) as client:
        mine = utils.compute_version_info()
        for other in (("9.9.9", mine[1]), (mine[0], "3.0.0")):
            utils.compute_version_info = lambda: other
            try:
                await client.conversation("nobody").cancel()
            except ConfigurationError as error:
                print(error.field, error.fix, "9.9.9" in error.problem, "3.0.0" in error.problem, sep="|")

asyncio.run(main())
"""


def test_another_ray_or_python_version_than_the_clusters_is_refused(stack):
    process = stack.python("-c", JOIN)
    out, error = process.communicate(timeout=120)
    fix = "use the same Ray and Python versions here"
    assert out.splitlines() == [f"ray_address|{fix}|True|False", f"ray_address|{fix}|False|True"], error


def test_a_home_that_another_version_started_is_refused(stack, raw):
    record = stack.home.path / "ray.json"
    written = record.read_text()
    try:
        for name in ("ray_version", "python_version"):
            stack.home.write_file(record.name, json.dumps(json.loads(written) | {name: "9.9.9"}))
            keys = raw.dbsize()
            with Client.connect("shop_app:app") as late:
                for use in (lambda late=late: late.start("support", "x"), lambda late=late: late.conversation("x").cancel()):
                    with pytest.raises(HomeUnusable, match=r"9\.9\.9.*run: holdfast down; or use the environment"):
                        use()
            assert raw.dbsize() == keys
    finally:
        stack.home.write_file(record.name, written)
