"""The store on Redis, once for each server on this machine."""

import pytest
import redis
from store_suite import StoreConformance
from store_suite.acquire import Acquiring
from store_suite.append import Appending
from store_suite.budgets import turn
from store_suite.grants import Granting
from store_suite.inspection import Inspecting
from store_suite.parking import Parking
from store_suite.presence import Attaching
from store_suite.reads import Reading
from store_suite.refusals import Refusing
from store_suite.runs import Running
from store_suite.supervision import Supervising
from store_suite.troubles import Troubling
from toy_cipher import ToyCipher
from writer import Writer, begin, cancel, reply, send, start

from holdfast import metrics
from holdfast.counting import Counts, families
from holdfast.persistence import RedisStore
from holdfast.persistence.conversations import PASSING_MS
from holdfast.persistence.keys import Keys, bucket_of
from holdfast.persistence.redis_values import SPENT_MS


class TestRedisStore(StoreConformance):
    @pytest.fixture
    async def stores(self, server, namespace):
        store, other = RedisStore(server.url, namespace=namespace), RedisStore(server.url, namespace=namespace)
        await store.open()
        await other.open()
        yield store, other
        await store.close()
        await other.close()


class TestRedisStoreWithACipher(
    Acquiring, Appending, Attaching, Reading, Running, Refusing, Granting, Parking, Inspecting, Supervising, Troubling
):
    """What scripts look into and what they do not: the parts whose payloads pass through them."""

    @pytest.fixture
    async def stores(self, server, namespace):
        cipher = ToyCipher()
        store, other = (RedisStore(server.url, namespace=namespace, cipher=cipher) for _ in range(2))
        await store.open()
        await other.open()
        yield store, other
        await store.close()
        await other.close()

    @pytest.fixture
    def store(self, stores):
        return stores[0]

    @pytest.fixture
    def other(self, stores):
        return stores[1]


@pytest.mark.parametrize(
    "command",
    [
        "GET other:key",
        "SET other:key 1",
        "HGETALL {other:meta}:apps",
        "EVAL return(redis.call('get','other:key')) 0",
        "PUBLISH other:channel 1",
        "SUBSCRIBE other:channel",
        "KEYS *",
        "FLUSHALL",
        "CONFIG SET appendonly no",
        "ACL LIST",
        "CLIENT KILL TYPE normal",
        "SCRIPT FLUSH",
        "SHUTDOWN NOSAVE",
    ],
)
def test_the_documented_user_has_nothing_else(server, documented, command):
    with (
        redis.Redis(unix_socket_path=str(server.socket), username="only", password="PASSWORD") as user,
        pytest.raises(redis.ResponseError, match=r"(?i)no permissions|noperm|can.t run this command|can.t access"),
    ):
        user.execute_command(*command.split())


async def test_the_time_of_a_script_is_counted_but_for_what_an_idle_process_runs(server, namespace):
    counts = Counts()
    store = RedisStore(server.url, namespace=namespace, counts=counts)
    await store.open()
    await store.heartbeat("actor-1", limit=9)
    await store.count({"a": 1})
    assert counts.taken() == {}

    await store.paused()
    (found,) = families(counts.taken(), [metrics.SCRIPT_S])
    assert [(script, sum(one.buckets)) for (script,), one in found.values.items()] == [("paused", 1)]
    await store.close()


async def test_what_is_known_of_requests_that_changed_nothing_expires(server, namespace):
    store = RedisStore(server.url, namespace=namespace)
    await store.open()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), reply())
    await writer.do(cancel())
    with redis.Redis(unix_socket_path=str(server.socket)) as raw:
        assert PASSING_MS - 60_000 < raw.pttl(Keys(namespace).passing("c-1")) <= PASSING_MS
        assert raw.pttl(Keys(namespace).known("c-1")) == -1
    await store.close()


async def test_what_an_agent_has_used_expires_and_a_key_of_another_type_is_replaced(server, namespace):
    store = RedisStore(server.url, namespace=namespace)
    await store.open()
    writer, used = await turn(store, "c-1"), {"input_tokens": 40, "output_tokens": 2}
    with redis.Redis(unix_socket_path=str(server.socket)) as raw:
        for _ in range(2):
            await writer.do(reply(**used))
            today = await store.spent("desk")
            place = Keys(namespace).spent(bucket_of("c-1"), "desk", today.day)
            assert today.spent.tokens == 42
            assert SPENT_MS - 60_000 < raw.pttl(place) <= SPENT_MS
            raw.set(place, "seven")
            await writer.do(send("and then?"), begin())
    await store.close()
