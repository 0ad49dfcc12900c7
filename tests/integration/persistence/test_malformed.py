"""Values that Holdfast never wrote: a typed error, and not a byte changed."""

import msgpack
import pytest
from writer import APP, DESK, Writer, begin, call, cancel, reply, resolve, send, start

from holdfast.conversation import Answer
from holdfast.errors import CorruptStore, NewerRecord
from holdfast.persistence import RedisStore, RunStatus, TakeoverReason, codec
from holdfast.persistence.keys import Keys

NAME = "c-1"


async def take(writer):
    await Writer.of(writer.store, NAME, seen=writer.token, because=TakeoverReason.DIED)


async def load(writer):
    await writer.store.load(NAME)


async def write(writer):
    await writer.do(cancel())


async def confirm(writer):
    await writer.store.append(NAME, writer.write(absent=["m:m-1"]))


async def renew(writer):
    await writer.store.renew(NAME, writer.token, 1000)


async def release(writer):
    await writer.release()


async def read(writer):
    await writer.store.read(NAME, after=0)


async def read_blocked(writer):
    await writer.store.read(NAME, after=0, block_ms=10)


def head(name, value):
    def change(raw, keys, _activation):
        raw.hset(keys.head(NAME), name, value)

    return change


def newest(change):
    """Replace the last entry of the log."""

    def replace(raw, keys, writer):
        seq = writer.state.seq
        entries = raw.xrange(keys.log(NAME))
        raw.delete(keys.log(NAME))
        for entry_id, fields in entries[:-1]:
            raw.xadd(keys.log(NAME), fields, id=entry_id)
        for entry_id, fields in change(seq, entries[-1][1]):
            raw.xadd(keys.log(NAME), fields, id=entry_id)

    return replace


def run_record(value):
    def change(raw, keys, writer):
        raw.hset(keys.runs(NAME), writer.effect_ids[0], value)

    return change


def known_record(value):
    def change(raw, keys, _activation):
        raw.hset(keys.known(NAME), "m:m-1", value)

    return change


def add_and_delete(raw, keys, writer):
    """What only the stream's last id still tells of."""
    entry_id = raw.xadd(keys.log(NAME), {"e": "x"}, id=f"{writer.state.seq + 5}-0")
    raw.xdel(keys.log(NAME), entry_id)


def delete_in_the_middle(raw, keys, writer):
    raw.xdel(keys.log(NAME), f"{writer.state.seq - 1}-0")


NOT_NUMBERS = ["", "abc", "-1", "1.5", "1e3", " 7", "0x7", b"\xff"]
NOT_RECORDS = [
    b"",
    b"x",
    b"\xc1",
    b"\x93\x01",
    b"\x93\x01\xa5state\x01",
    b"\x92\x01\x02",
    msgpack.packb({"a": 1}),
    b"\x93\xa1x\xa1y\x80",
]
SPOILT = [
    *[(f"seq {value!r}", head("seq", value), [take, load, write, confirm]) for value in NOT_NUMBERS],
    *[(f"epoch {value!r}", head("epoch", value), [take]) for value in NOT_NUMBERS],
    *[(f"lease {value!r}", head("lease", value), [take]) for value in NOT_NUMBERS],
    *[(f"deadline {value!r}", head("due", value), [take, renew, release]) for value in NOT_NUMBERS[1:]],
    *[(f"snapshot {value[:9]!r}", head("snapshot", value), [take, load] if value else [take]) for value in NOT_RECORDS],
    (
        "a snapshot of the future",
        head("snapshot", codec.pack([1, "state", {"conversation_id": NAME, "seq": 99}])),
        [take, load],
    ),
    ("a snapshot of another kind", head("snapshot", codec.pack([1, "known", {"seq": 1, "at": 1}])), [load]),
    ("a snapshot with other fields", head("snapshot", codec.pack([1, "state", {"seq": 2, "colour": "blue"}])), [load]),
    *[(f"index {value[:9]!r}", head("index", value), [write]) for value in [b"x", b"\xc1", b"\x93\x01", codec.pack([1, 2])]],
    ("a head behind the log", head("seq", "4"), [take, load, write, confirm]),
    ("a head ahead of the log", head("seq", "44"), [take, load, write, confirm]),
    ("a log behind", newest(lambda _seq, _fields: []), [take, load, write, confirm]),
    ("a log ahead", newest(lambda seq, fields: [(f"{seq}-0", fields), (f"{seq + 1}-0", fields)]), [take, load, write, confirm]),
    ("a log whose last id is not ours", newest(lambda seq, fields: [(f"{seq}-1", fields)]), [take, write, confirm]),
    (
        "a log with two of one number",
        newest(lambda seq, fields: [(f"{seq}-0", fields), (f"{seq}-1", fields)]),
        [take, load, write, confirm],
    ),
    ("a log with a hole", delete_in_the_middle, [take, load]),
    ("a log that once was ahead", add_and_delete, [write]),
    (
        "an entry that holds no event",
        newest(lambda seq, _: [(f"{seq}-0", {"x": "y"})]),
        [take, load, read, read_blocked],
    ),
    *[
        (
            f"an entry {value[:9]!r}",
            newest(lambda seq, _, value=value: [(f"{seq}-0", {"e": value})]),
            [take, load, read],
        )
        for value in NOT_RECORDS[:2] + NOT_RECORDS[5:]
    ],
    (
        "an event of unknown kind",
        newest(lambda seq, _: [(f"{seq}-0", {"e": codec.pack([1, "moon_landed", {"at": 1}])})]),
        [load, read],
    ),
    (
        "an event with unknown fields",
        newest(lambda seq, _: [(f"{seq}-0", {"e": codec.pack([1, "conversation_ended", {"at": 1, "x": 1}])})]),
        [load, read],
    ),
    (
        "an event that cannot follow",
        newest(lambda seq, _: [(f"{seq}-0", {"e": codec.pack([1, "call_resolved", {"at": 1}])})]),
        [load, read],
    ),
    *[(f"a run {value!r}", run_record(value), [take]) for value in ["", "X", "C", "C|i", "D|i", "RR", "r"]],
    *[(f"known {value[:9]!r}", known_record(value), [confirm]) for value in NOT_RECORDS],
]


@pytest.fixture
async def suspended(store):
    """A conversation with a run and a deadline; the last of its log is the suspension."""
    active = await Writer.of(store, NAME)
    await active.do(start(), begin())
    await active.do(call("lookup", "ask"))
    return active


@pytest.fixture
async def writer(suspended):
    """A conversation with a snapshot, a tail after it and a run."""
    await suspended.do(resolve(Answer("blue")))
    await suspended.do(send())
    assert not suspended.state.resting
    return suspended


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        pytest.param(change, one, id=f"{name}-{one.__name__}")
        for name, change, operations in SPOILT
        for one in operations
        if not name.startswith("deadline")
    ],
)
async def test_what_holdfast_never_wrote_is_refused(writer, raw, change, operation):
    change(raw.redis, Keys(raw.namespace), writer)

    with raw.unchanged(), pytest.raises(CorruptStore):
        await operation(writer)


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        pytest.param(change, one, id=f"{name}-{one.__name__}")
        for name, change, operations in SPOILT
        for one in operations
        if name.startswith("deadline")
    ],
)
async def test_what_holdfast_never_wrote_is_refused_while_a_call_waits(suspended, raw, change, operation):
    change(raw.redis, Keys(raw.namespace), suspended)

    with raw.unchanged(), pytest.raises(CorruptStore):
        await operation(suspended)


async def test_a_tail_that_cannot_be_read_is_not_taken_over(store, raw):
    """Even where no snapshot stands before it."""
    writer = await Writer.of(store, NAME)
    await writer.do(start(), begin())
    await writer.do(call("lookup"))
    assert raw.redis.hget(Keys(raw.namespace).head(NAME), "snapshot") is None
    newest(lambda seq, _: [(f"{seq}-0", {"e": "x"})])(raw.redis, Keys(raw.namespace), writer)

    with raw.unchanged(), pytest.raises(CorruptStore):
        await take(writer)


# -- written by a newer Holdfast ----------------------------------------------------------------------------------------

NEWER = codec.VERSION + 1


def newer_event(seq, fields):
    _, kind, values = codec.unpack(fields[b"e"])
    return [(f"{seq}-0", {"e": codec.pack([NEWER, kind, values | {"colour": "blue"}])})]


@pytest.mark.parametrize("operation", [take, load, read, read_blocked])
async def test_a_newer_event_is_refused(writer, raw, operation):
    newest(newer_event)(raw.redis, Keys(raw.namespace), writer)

    with raw.unchanged(), pytest.raises(NewerRecord) as refused:
        await operation(writer)

    assert (refused.value.found, refused.value.known) == (NEWER, codec.VERSION)


@pytest.mark.parametrize("operation", [take, load])
@pytest.mark.parametrize("fields", [{"seq": 5}, {"another": "shape"}, ["not", "even", "a", "map"]])
async def test_a_newer_snapshot_is_refused(writer, raw, operation, fields):
    raw.redis.hset(Keys(raw.namespace).head(NAME), "snapshot", codec.pack([NEWER, "state", fields]))

    with raw.unchanged(), pytest.raises(NewerRecord):
        await operation(writer)


async def test_a_newer_receipt_is_refused(writer, raw):
    known_record(codec.pack([NEWER, "known", {"seq": 1}]))(raw.redis, Keys(raw.namespace), writer)

    with raw.unchanged(), pytest.raises(NewerRecord):
        await confirm(writer)


async def test_a_newer_app_or_spec_is_refused(store, raw):
    keys = Keys(raw.namespace)
    raw.redis.hset(keys.meta("apps"), APP.app, codec.pack([NEWER, "app", {}]))
    raw.redis.hset(keys.meta("specs"), DESK.digest, codec.pack([NEWER, "spec", {}]))

    with raw.unchanged():
        with pytest.raises(NewerRecord):
            await store.app(APP.app)
        with pytest.raises(NewerRecord):
            await store.spec(DESK.digest)


@pytest.mark.parametrize("held", [b"\xff\xfe", codec.pack(["x"])], ids=["no text", "a record"])
async def test_rules_that_are_no_text_are_corrupt(store, raw, held):
    raw.redis.hset(Keys(raw.namespace).meta("rules"), "0" * 64, held)

    with raw.unchanged(), pytest.raises(CorruptStore, match="permission rules"):
        await store.rules("0" * 64)


# -- the layout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "error"),
    [
        ({"version": 2, "buckets": 64}, NewerRecord),
        ({"version": 2, "buckets": 128, "colour": "blue"}, NewerRecord),
        ({"version": 1, "buckets": 128}, CorruptStore),
        ({"version": 1}, CorruptStore),
        ({"buckets": 64}, CorruptStore),
        ({"version": "one", "buckets": 64}, CorruptStore),
        ({"version": 1, "buckets": ""}, CorruptStore),
    ],
)
async def test_a_namespace_of_another_layout_is_refused(server, raw, layout, error):
    raw.redis.hset(Keys(raw.namespace).meta("layout"), mapping=layout)
    store = RedisStore(server.url, namespace=raw.namespace)

    with raw.unchanged(), pytest.raises(error):
        await store.open()
    await store.close()


async def test_the_layout_is_written_once(store, raw):
    layout = raw.redis.hgetall(Keys(raw.namespace).meta("layout"))

    assert layout == {b"version": b"1", b"buckets": b"64", b"indexes": b"3", b"complete": b"3"}
    with raw.unchanged():
        await store.open()


async def test_a_conversation_that_was_mended_goes_on(writer, raw):
    key = Keys(raw.namespace).head(NAME)
    seq = raw.redis.hget(key, "seq")
    raw.redis.hset(key, "seq", "x")
    with pytest.raises(CorruptStore):
        await writer.do(send())
    raw.redis.hset(key, "seq", seq)

    await writer.do(cancel())
    await writer.do(begin(), reply())

    assert await writer.store.load(NAME) == writer.state


async def test_work_whose_last_entry_cannot_be_read_stays_runnable(suspended, store, raw):
    seq, run_id = suspended.state.seq, suspended.effect_ids[0]
    ((_, event),) = await store.read(NAME, after=seq - 1)
    newest(lambda at, _fields: [(f"{at}-0", {"e": "x"})])(raw.redis, Keys(raw.namespace), suspended)

    with pytest.raises(CorruptStore):
        await store.claim(NAME, run_id, incarnation="i-1", worker="w-1", follows=(seq, event))

    assert (await store.run(NAME, run_id)).status is RunStatus.RUNNABLE
