"""What conversations cost: bytes written, bytes at rest, work for a page. Counted, never timed."""

import asyncio

import pytest
from stores import InMemory
from writer import DESK, Writer, begin, call, finish, reply, resolve, send, start

from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Answer, Approve, Limits, SuspensionKind
from holdfast.errors import QueueFull
from holdfast.persistence import RedisStore, codec, redis_values
from holdfast.persistence.keys import Keys
from holdfast.persistence.lists import PAGE_BYTES
from holdfast.testing import FaultyStore

REFUND = ("refund", '{"order_id":"4711","amount_cents":2990,"reason":"arrived broken"}')


def argument_bytes(arguments):
    return len(codec.pack_raw(arguments))


class Weighing(FaultyStore):
    """A store that adds up what its appends carry."""

    def __init__(self, inner):
        super().__init__(inner, lambda _method, _number: None)
        self.bytes = 0

    async def append(self, conversation_id, write):
        prefix = Keys(self.namespace).prefix(conversation_id)
        args, _ = redis_values.append_args(conversation_id, prefix, write, self.inner.payloads)
        self.bytes += argument_bytes(args)
        return await self.inner.append(conversation_id, write)


async def turn(writer):
    """A turn with a run, a gated call and a question, each step an append of its own."""
    await writer.do(begin())
    await writer.do(call(("lookup", '{"order_id":"4711"}')))
    await writer.do(finish(content='{"ok":true,"result":{"order_id":"4711","state":"delivered"}}'))
    await writer.do(call(REFUND, prompt="Refund 29.90 for order 4711?"))
    await writer.do(resolve(Approve()))
    await writer.do(finish())
    await writer.do(call(("ask", '{"question":"Which colour?"}')))
    await writer.do(resolve(Answer("blue")))
    await writer.do(reply("I have refunded it and noted the colour."))


async def test_turn_200_writes_as_many_bytes_as_turn_2(store, raw):
    weighing = Weighing(store)
    writer = await Writer.of(weighing, "c-1")
    await writer.do(start("Please refund order 4711."))
    await turn(writer)
    written, stored = {}, {}

    def at_rest():
        return sum(raw.redis.memory_usage(key, samples=0) for key in raw.every_key())

    for number in range(2, 201):
        weighing.bytes, before = 0, at_rest()
        await writer.do(send("Please refund order 4711."))
        await turn(writer)
        written[number], stored[number] = weighing.bytes, at_rest() - before

    assert await store.load("c-1") == writer.state
    assert writer.state.turns == 200
    print(f"\nbytes of a turn's appends: turn 2: {written[2]}, turn 200: {written[200]}")  # noqa: T201 - shown by pytest -s
    assert written[200] <= 1.1 * written[2]
    assert max(written.values()) <= 1.1 * written[2]


async def test_a_snapshot_does_not_grow_with_the_conversation(store, raw):
    writer = await Writer.of(store, "c-1")
    await writer.do(start())
    sizes = []
    for number in range(60):
        await writer.do(begin(), call("ask"))
        sizes.append(raw.redis.hstrlen(Keys(raw.namespace).head("c-1"), "snapshot"))
        await writer.do(resolve(Answer("x" * 500 * number)), reply("y" * 500 * number), send("z" * 500))

    assert max(sizes) <= sizes[1] + 24  # the digits of places and turns


async def test_a_suspended_conversation_is_small_at_rest(store, raw):
    count = 300
    meta = sum(raw.redis.memory_usage(key, samples=0) for key in raw.every_key())
    for number in range(count):
        writer = await Writer.of(store, f"c-0b6f1d0a7e4a4b1a9d0e-{number}")
        await writer.do(start("Hello, order 4711 arrived broken. Can I have my money back?", message_id=f"m-{number:020}"))
        await writer.do(begin())
        await writer.do(call(REFUND, content="I can refund that.", prompt="Refund 29.90 for order 4711?"))
        await writer.release()
    kinds = {}
    for key in raw.every_key():
        name = key.decode().split("}:")[1].split(":")
        kind = name[-1] if name[0] == "c" else name[0]
        kinds[kind] = kinds.get(kind, 0) + raw.redis.memory_usage(key, samples=0)

    each = (sum(kinds.values()) - meta) / count
    each -= kinds.pop("changes") / count  # bounded for each bucket, however many conversations there are
    shares = {kind: round(size / count) for kind, size in kinds.items()}
    print(f"\na suspended conversation at rest: {each:.0f} bytes, of which {shares}")  # noqa: T201 - shown by pytest -s
    assert each <= 6 * 1024


MANY = DESK.model_copy(update={"limits": Limits(max_model_calls=1000, max_calls=5000, reply_bytes=10**7)})


class Sized(Weighing):
    """A store that also keeps, of each append, the bytes but for its snapshot and those of its snapshot."""

    def __init__(self, inner):
        super().__init__(inner)
        self.appends = []

    async def append(self, conversation_id, write):
        prefix = Keys(self.namespace).prefix(conversation_id)
        args, _ = redis_values.append_args(conversation_id, prefix, write, self.inner.payloads)
        snapshot = len(args.get("snapshot", b""))
        self.appends.append((argument_bytes(args) - snapshot, snapshot))
        return await self.inner.append(conversation_id, write)


@pytest.mark.parametrize("tool", ["ask", "refund", "share", "lookup"])
async def test_a_decision_among_1000_calls_writes_what_one_among_2_does(store, tool):
    written = []
    for size in (2, 1000):
        sized = Sized(store)
        writer = await Writer.of(sized, f"c-{size}")
        writer.spec = MANY
        await writer.do(start(), begin())
        await writer.do(call(*[tool] * size))
        sized.appends.clear()

        step = finish() if tool == "lookup" else resolve(Answer("x") if tool == "ask" else Approve(), decision_id="d-1")
        await writer.do(step)

        assert len(sized.appends) == 1
        written.append(sized.appends[0])
        assert await store.load(f"c-{size}") == writer.state
    few, many = written
    assert many[0] <= few[0] + 48  # the digits of places, which stand in each entry of an index
    assert many[1] == 0


async def test_what_snapshots_write_stays_in_proportion_to_the_events_of_a_long_turn(store):
    sized = Sized(store)
    writer = await Writer.of(sized, "c-1")
    writer.spec = MANY
    await writer.do(start(), begin(), call(*["share"] * 150))

    for view in await store.pending_of("c-1"):
        await writer.do(resolve(Approve(), suspension_id=view.suspension_id))
    for view in await store.pending_of("c-1"):
        await writer.do(resolve(Answer(1), suspension_id=view.suspension_id))

    events, snapshots = (sum(sizes) for sizes in zip(*sized.appends, strict=True))
    print(f"\n150 calls, two decisions each: {events} bytes, and {snapshots} of snapshots")  # noqa: T201 - shown by pytest -s
    assert snapshots <= 2 * events
    assert snapshots > 0
    assert await store.load("c-1") == writer.state


async def test_a_head_does_not_grow_with_the_calls_that_wait(store, raw):
    sizes = []
    for count in (1, 1000):
        writer = await Writer.of(store, f"c-{count}")
        writer.spec = MANY
        await writer.do(start(), begin(), call(*["ask"] * count))
        sizes.append(raw.redis.hstrlen(Keys(raw.namespace).head(f"c-{count}"), "index"))
        (row,) = [row for row in (await store.conversations(limit=5)).items if row.conversation_id == f"c-{count}"]
        assert row.pending == count

    assert sizes[1] <= sizes[0] + 4


@pytest.fixture
async def through(proxy, namespace):
    opened = RedisStore(proxy.url, namespace=namespace)
    await opened.open()
    yield opened
    await opened.close()


async def test_a_page_costs_the_same_however_many_wait(proxy, through, raw):
    """What a page asks for and gets is counted with 600 waiting and with 20,000 more behind them."""

    async def suspend(number):
        writer = await Writer.of(through, f"c-{number}")
        await writer.do(start(), begin(), call("ask"), now=1_700_000_000_000 + number)

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
    """Pipelines, not one request for each item: the buckets, perhaps the full ones again, then what each item is shown from.

    That is where it was suspended; the model's answer and the message that says who asked; its latest note; and the head.
    """

    async def suspend(number):
        writer = await Writer.of(through, f"c-{number}")
        await writer.do(start(), begin(), call("ask"))

    for first in range(0, 250, 50):
        await asyncio.gather(*(suspend(number) for number in range(first, first + 50)))
    proxy.requests.clear()

    assert len((await through.pending(limit=limit)).items) == limit

    assert proxy.sent(b"ZRANGEBYLEX") <= 2 * 64
    assert proxy.sent(b"EVALSHA") == 2
    assert proxy.sent(b"\r\nHGET\r\n") == limit
    assert proxy.sent(b"HMGET") == limit


async def test_reviving_a_conversation_does_not_read_the_bodies_that_wait(proxy, through):
    # given as many large messages as may wait, each accepted in the middle of a turn
    writer = await Writer.of(through, "c-1")
    writer.spec = MANY
    await writer.do(start(), begin(), call("lookup"))
    for number in range(100):
        await writer.do(send("x" * 1024 * 1024, message_id=f"large-{number}"))
    with pytest.raises(QueueFull):
        await writer.do(send("one more"))
    # when the conversation is taken over, loaded or shown
    proxy.answered_bytes = 0
    anew = await writer.succeeded()
    anew.spec = MANY
    taken = proxy.answered_bytes
    loaded = await through.load("c-1")
    read = proxy.answered_bytes - taken
    # then none of them is read
    assert anew.state == writer.state == loaded
    assert len(anew.state.queue) == 100
    assert max(taken, read) <= 80 * 1024
    # and the next revival reads no more, where many small ones come
    await anew.do(finish(), reply())
    for _ in range(300):
        await anew.do(begin(), send("y" * 900), reply())
    proxy.answered_bytes = 0
    assert (await anew.succeeded()).state == anew.state
    assert proxy.answered_bytes <= 80 * 1024


async def test_a_turn_of_many_runs_is_revived_by_reading_a_bounded_tail(proxy, through):
    writer = await Writer.of(through, "c-1")
    writer.spec = MANY
    await writer.do(start(), begin())
    most = 0
    for number in range(300):
        await writer.do(call("lookup"))
        await writer.do(finish(content='{"ok":true,"result":"' + "z" * 1000 + '"}'))
        if number % 20 == 0:
            proxy.answered_bytes = 0
            writer = await writer.succeeded()
            writer.spec = MANY
            most = max(most, proxy.answered_bytes)

    assert await through.load("c-1") == writer.state
    assert most <= 80 * 1024


async def test_what_waits_in_one_conversation_is_shown_without_reading_the_answer_for_each_call(proxy, through):
    writer = await Writer.of(through, "c-1")
    writer.spec = MANY
    await writer.do(start(), begin(), call(*[("ask", '{"question":"' + "w" * 400 + '"}')] * 500))
    proxy.answered_bytes = 0

    shown = await through.pending_of("c-1")

    assert len(shown) == 500
    assert all(len(view.arguments["question"]) == 400 for view in shown)
    assert proxy.answered_bytes <= 1_500_000  # the answer itself has more than 200 KB


async def test_a_page_of_large_calls_reads_no_more_than_it_may_have(proxy, through):
    for number in range(20):
        writer = await Writer.of(through, f"c-{number:02}")
        await writer.do(start(), begin(), call(("refund", '{"note":"' + "n" * 1_000_000 + '"}')), now=1_000 + number)
    proxy.answered_bytes = 0

    page = await through.pending(limit=1000)

    assert len(page.items) == 8
    assert proxy.answered_bytes <= PAGE_BYTES + 100_000


async def test_the_ends_of_a_long_conversation_are_read_without_what_is_between(proxy, through):
    writer = await Writer.of(through, "c-1")
    await writer.do(start("first"), begin(), reply("first"))
    for _ in range(30):
        await writer.do(send("m" * 100_000), begin(), reply("r" * 100_000))
    conversation = AsyncClient(StackGateway(InMemory(through), timeout_s=30)).conversation("c-1")
    proxy.answered_bytes = 0

    first = await conversation.messages_page(limit=2)
    turns = await conversation.turns_page(limit=1)

    assert [message["content"] for message in first.items] == ["first", "first"]
    assert [turn.reply for turn in turns.items] == ["first"]
    assert proxy.answered_bytes <= 2_000_000  # of 6 MB

    proxy.answered_bytes = 0
    last = await conversation.messages_page(limit=2, before="end")
    turns = await conversation.turns_page(limit=1, before="end")
    turn = await conversation.turn("t31")

    assert [message["content"][0] for message in last.items] == ["m", "r"]
    assert turns.items == [turn]
    assert proxy.answered_bytes <= 4_000_000


async def test_the_latest_events_are_read_from_the_end(proxy, through):
    writer = await Writer.of(through, "c-1")
    await writer.do(start("first"), begin(), reply("first"))
    for _ in range(20):
        await writer.do(send("m" * 1_000_000), begin(), reply())
    conversation = AsyncClient(StackGateway(InMemory(through), timeout_s=30)).conversation("c-1")
    proxy.answered_bytes = 0

    latest = await conversation.latest()

    assert latest[-1].seq == writer.state.seq
    assert len([event for event in latest if event.kind == "message_accepted"]) == 8
    assert proxy.answered_bytes <= PAGE_BYTES + 100_000


async def test_a_call_is_found_by_its_suspension_with_one_script_over_all_buckets(proxy, through):
    for number in range(3):
        writer = await Writer.of(through, f"c-{number}")
        await writer.do(start(), begin(), call("ask"))
    (suspension_id,) = writer.suspension_ids
    await through.pending_of(None, suspension_id)
    proxy.requests.clear()

    assert [one.conversation_id for one in await through.pending_of(None, suspension_id)] == ["c-2"]

    assert (proxy.sent(b"pending:i"), proxy.sent(b"ZRANGEBYLEX"), proxy.sent(b"ZSCAN")) == (1, 0, 0)
