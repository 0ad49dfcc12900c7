"""What conversations cost: bytes written, bytes at rest, work for a page. Counted, never timed."""

import asyncio

import pytest

from holdfast.conversation import Answer, Approve, SuspensionKind
from holdfast.persistence import RedisStore, redis_values
from holdfast.persistence.keys import Keys
from holdfast.testing import FaultyStore
from holdfast.testing.activation import Activation, begin, call, finish, reply, resolve, send, start

REFUND = ("refund", '{"order_id":"4711","amount_cents":2990,"reason":"arrived broken"}')


def argument_bytes(arguments):
    return sum(len(one) if isinstance(one, bytes) else len(str(one).encode()) for one in arguments)


class Weighing(FaultyStore):
    """A store that adds up what its appends carry."""

    def __init__(self, inner):
        super().__init__(inner, lambda _method, _number: None)
        self.bytes = 0

    async def append(self, conversation_id, write):
        prefix = Keys(self.namespace).prefix(conversation_id)
        args, _ = redis_values.append_args(conversation_id, prefix, write)
        self.bytes += argument_bytes(args)
        return await self.inner.append(conversation_id, write)


async def turn(activation):
    """A turn with a run, a gated call and a question, each step an append of its own."""
    await activation.do(begin())
    await activation.do(call(("lookup", '{"order_id":"4711"}')))
    await activation.do(finish(content='{"ok":true,"result":{"order_id":"4711","state":"delivered"}}'))
    await activation.do(call(REFUND, prompt="Refund 29.90 for order 4711?"))
    await activation.do(resolve(Approve()))
    await activation.do(finish())
    await activation.do(call(("ask", '{"question":"Which colour?"}')))
    await activation.do(resolve(Answer("blue")))
    await activation.do(reply("I have refunded it and noted the colour."))


async def test_turn_200_writes_as_many_bytes_as_turn_2(store, raw):
    weighing = Weighing(store)
    activation = await Activation.of(weighing, "c-1")
    await activation.do(start("Please refund order 4711."))
    await turn(activation)
    written, stored = {}, {}

    def at_rest():
        return sum(raw.redis.memory_usage(key, samples=0) for key in raw.every_key())

    for number in range(2, 201):
        weighing.bytes, before = 0, at_rest()
        await activation.do(send("Please refund order 4711."))
        await turn(activation)
        written[number], stored[number] = weighing.bytes, at_rest() - before

    assert await store.load("c-1") == activation.state
    assert activation.state.turns == 200
    print(f"\nbytes of a turn's appends: turn 2: {written[2]}, turn 200: {written[200]}")  # noqa: T201 - shown by pytest -s
    assert written[200] <= 1.1 * written[2]
    assert max(written.values()) <= 1.1 * written[2]


async def test_a_snapshot_does_not_grow_with_the_conversation(store, raw):
    activation = await Activation.of(store, "c-1")
    await activation.do(start())
    sizes = []
    for number in range(60):
        await activation.do(begin(), call("ask"))
        sizes.append(raw.redis.hstrlen(Keys(raw.namespace).head("c-1"), "snapshot"))
        await activation.do(resolve(Answer("x" * 500 * number)), reply("y" * 500 * number), send("z" * 500))

    assert max(sizes) <= sizes[1] + 24  # the digits of places and turns


async def test_a_suspended_conversation_is_small_at_rest(store, raw):
    count = 300
    meta = sum(raw.redis.memory_usage(key, samples=0) for key in raw.every_key())
    for number in range(count):
        activation = await Activation.of(store, f"c-0b6f1d0a7e4a4b1a9d0e-{number}")
        await activation.do(start("Hello, order 4711 arrived broken. Can I have my money back?", message_id=f"m-{number:020}"))
        await activation.do(begin())
        await activation.do(call(REFUND, content="I can refund that.", prompt="Refund 29.90 for order 4711?"))
        await activation.release()
    kinds = {}
    for key in raw.every_key():
        name = key.decode().split("}:")[1].split(":")
        kind = name[-1] if name[0] == "c" else name[0]
        kinds[kind] = kinds.get(kind, 0) + raw.redis.memory_usage(key, samples=0)

    each = (sum(kinds.values()) - meta) / count
    shares = {kind: round(size / count) for kind, size in kinds.items()}
    print(f"\na suspended conversation at rest: {each:.0f} bytes, of which {shares}")  # noqa: T201 - shown by pytest -s
    assert each <= 6 * 1024


@pytest.fixture
async def through(proxy, namespace):
    opened = RedisStore(proxy.url, namespace=namespace)
    await opened.open()
    yield opened
    await opened.close()


async def test_a_page_costs_the_same_however_many_wait(proxy, through, raw):
    """What a page asks for and gets is counted with 600 waiting and with 20,000 more behind them."""

    async def suspend(number):
        activation = await Activation.of(through, f"c-{number}")
        await activation.do(start(), begin(), call("ask"), now=1_700_000_000_000 + number)

    for first in range(0, 600, 50):
        await asyncio.gather(*(suspend(number) for number in range(first, first + 50)))
    after = (await through.pending(limit=50)).next
    listings = {
        "pending": lambda: through.pending(limit=50),
        "pending, second page": lambda: through.pending(limit=50, after=after),
        "pending by agent": lambda: through.pending(limit=50, agent="desk"),
        "pending by kind": lambda: through.pending(limit=50, kind=SuspensionKind.ELICITATION),
        "pending by both": lambda: through.pending(limit=50, agent="desk", kind=SuspensionKind.ELICITATION),
        "conversations": lambda: through.conversations(limit=50),
        "conversations by agent": lambda: through.conversations(limit=50, agent="desk"),
    }

    async def costs():
        found = {}
        for name, listing in listings.items():
            proxy.requests.clear()
            proxy.answered_bytes = 0
            page = await listing()
            assert len(page.items) == 50
            found[name] = (sum(len(request) for request in proxy.requests), proxy.answered_bytes)
        return found

    few = await costs()
    keys = Keys(raw.namespace)
    with raw.redis.pipeline(transaction=False) as pipe:
        for number in range(20_000):
            bucket = number % 64
            later = f"{1_800_000_000_000 + number:015d}"
            for agent in (None, "desk"):
                for kind in (None, "elicitation"):
                    pipe.zadd(keys.pending(bucket, agent, kind), {f"{later}|s-{number:020}|x-{number}|5": 0})
                pipe.zadd(keys.conversations(bucket, agent, None), {f"{later}|x-{number}": 0})
        pipe.execute()
    many = await costs()

    for name, (asked, answered) in few.items():
        assert many[name][0] <= 1.05 * asked, name
        assert many[name][1] <= 1.05 * answered, name
        assert answered < 200_000, name


@pytest.mark.parametrize("limit", [1, 50, 200])
async def test_a_page_asks_a_few_times(proxy, through, limit):
    """Not once for each item: the buckets, perhaps the full ones again, the places, their sources and heads."""

    async def suspend(number):
        activation = await Activation.of(through, f"c-{number}")
        await activation.do(start(), begin(), call("ask"))

    for first in range(0, 250, 50):
        await asyncio.gather(*(suspend(number) for number in range(first, first + 50)))
    proxy.requests.clear()

    assert len((await through.pending(limit=limit)).items) == limit

    assert proxy.sent(b"ZRANGEBYLEX") <= 2 * 64
    assert proxy.sent(b"XRANGE") == 2 * limit
    assert proxy.sent(b"HMGET") == limit
