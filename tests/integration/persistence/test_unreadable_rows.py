"""A list never fails for one row: what cannot be read is a row that says so, with its ids, and paging goes past it."""

import json
import re

import msgpack
import pytest
from writer import Writer, begin, call, reply, resolve, start

from holdfast.client.results import PendingCall
from holdfast.conversation import AgentSpec, Answer, Approve, Budget, Deny, Redispatch, Status, SuspensionKind
from holdfast.errors import CorruptStore, InvalidDecision, InvalidInput, NewerRecord
from holdfast.persistence import AccessScope, ApiKey, Ticket, TicketKind, codec
from holdfast.persistence.keys import Keys, bucket_of

MOMENT = 1_700_000_000_000
NAMES = [f"c-{number}" for number in range(9)]
SPOILT = NAMES[4]
NEWER = codec.VERSION + 1
DEEP = '{"a":' * 500 + "1" + "}" * 500


@pytest.fixture
async def crowd(store):
    """Nine conversations that wait, each with one call, one millisecond apart."""
    made = {}
    for number, name in enumerate(NAMES):
        made[name] = await Writer.of(store, name)
        await made[name].do(start(), begin(), call(("refund", '{"amount":5}')), now=MOMENT + number)
    return made


@pytest.fixture
def keys(namespace):
    return Keys(namespace)


async def paged(listing, limit):
    """Every row of a list, a page at a time."""
    rows, cursor = [], None
    for _ in range(100):
        page = await listing(limit=limit, after=cursor)
        rows += page.items
        cursor = page.next
        if cursor is None:
            return rows
    raise AssertionError("the pages have no end")


def rewrite(raw, keys, seq, fields):
    """Replace one entry of the spoilt conversation's log."""
    entries = raw.redis.xrange(keys.log(SPOILT))
    raw.redis.delete(keys.log(SPOILT))
    for entry_id, old in entries:
        new = fields(old) if entry_id == f"{seq}-0".encode() else old
        if new is not None:
            raw.redis.xadd(keys.log(SPOILT), new, id=entry_id)


def packed(change):
    """Another record in the place of an entry's."""

    def fields(old):
        version, kind, values = codec.unpack(old[b"e"])
        return {"e": codec.pack(change(version, kind, values))}

    return fields


def nested_deeply(version, kind, values):
    return [version, kind, {**values, "calls": [{**one, "arguments": DEEP} for one in values["calls"]]}]


def wrong_type(key):
    def spoil(raw, keys, _activation):
        raw.redis.delete(getattr(keys, key)(SPOILT))
        raw.redis.rpush(getattr(keys, key)(SPOILT), "not", "ours")

    return spoil


def at(which, fields):
    """Change the suspension's entry, or that of its arguments."""

    def spoil(raw, keys, writer):
        suspension = next(one.suspension for one in writer.state.calls)
        arguments_at = next(one.arguments_at for one in writer.state.calls)
        rewrite(raw, keys, suspension.seq if which == "suspension" else arguments_at, fields)

    return spoil


def head(value):
    def spoil(raw, keys, _activation):
        raw.redis.hset(keys.head(SPOILT), "index", value)

    return spoil


def no_head(raw, keys, _activation):
    raw.redis.delete(keys.head(SPOILT))


SPOILT_PENDING = {
    "a newer suspension": (at("suspension", packed(lambda _, kind, values: [NEWER, kind, values | {"x": 1}])), "version"),
    "a corrupt suspension": (at("suspension", lambda _: {"e": b"\xc1"}), "cannot be read"),
    "no event": (at("suspension", lambda _: {"x": "y"}), "holds no event"),
    "an unknown kind": (at("suspension", packed(lambda version, _, values: [version, "moon_landed", values])), "moon_landed"),
    "another event": (
        at(
            "suspension",
            packed(lambda version, *_: [version, "conversation_ended", {"at": 1, "request_id": "r", "digest": "d"}]),
        ),
        "entry",
    ),
    "a suspension that is gone": (at("suspension", lambda _: None), "the log has no entry"),
    "deep arguments": (at("arguments", packed(nested_deeply)), "nested more than 100 deep"),
    "newer arguments": (at("arguments", packed(lambda _, kind, values: [NEWER, kind, values])), "its arguments: .*version"),
    "arguments that are gone": (at("arguments", lambda _: None), "its arguments: the log has no entry"),
    "a log of another type": (wrong_type("log"), "wrong type"),
    "a head of another type": (wrong_type("head"), "wrong type"),
    "a head that cannot be read": (head(b"\xc1"), "head"),
    "a head with other values": (head(msgpack.packb([5, "idle", "x", []])), "head"),
    "a head that is gone": (no_head, "head"),
}


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("name", SPOILT_PENDING)
async def test_what_one_conversation_spoils_is_a_row_of_the_pending_calls(store, raw, keys, crowd, name, limit):
    spoil, said = SPOILT_PENDING[name]
    spoil(raw, keys, crowd[SPOILT])

    with raw.unchanged():
        views = await paged(store.pending, limit)

    assert [view.conversation_id for view in views] == NAMES
    assert [view.suspension_id for view in views] == [crowd[one].suspension_ids[0] for one in NAMES]
    assert [view.created_at for view in views] == [MOMENT + number for number in range(len(NAMES))]
    for view in views:
        if view.conversation_id == SPOILT:
            assert view.problem is not None
            assert len(view.problem) <= 300
            assert re.search(said, view.problem), view.problem
            assert view.arguments == {} or "head" in name
        else:
            assert view.problem is None
            assert view.arguments == {"amount": 5}


SPOILT_ROWS = {
    name: SPOILT_PENDING[name]
    for name in ("a head of another type", "a head that cannot be read", "a head with other values", "a head that is gone")
} | {
    "a newer status": (head(msgpack.packb(["desk", "dreaming", MOMENT, []])), "head"),
    "as many calls as there can be": (head(msgpack.packb(["desk", "idle", MOMENT, float("inf")])), "infinity"),
    "a moment without an end": (head(msgpack.packb(["desk", "idle", float("inf"), 0])), "head"),
    "a moment that is none": (lambda raw, keys, _: raw.redis.hset(keys.head(SPOILT), "at", "x" * 5000), "head"),
    "a moment with too many digits": (lambda raw, keys, _: raw.redis.hset(keys.head(SPOILT), "at", "9" * 5000), "head"),
}


@pytest.mark.parametrize("limit", [1, 50])
@pytest.mark.parametrize("name", SPOILT_ROWS)
async def test_what_one_conversation_spoils_is_a_row_of_the_conversations(store, raw, keys, crowd, name, limit):
    spoil, said = SPOILT_ROWS[name]
    spoil(raw, keys, crowd[SPOILT])

    with raw.unchanged():
        rows = await paged(store.conversations, limit)

    assert [row.conversation_id for row in rows] == NAMES
    for number, row in enumerate(rows):
        assert row.created_at == MOMENT + number
        if row.conversation_id == SPOILT:
            assert row.status is None
            assert said in (row.problem or "") or "wrong type" in (row.problem or "")
        else:
            assert (row.problem, row.status, row.agent, row.pending) == (None, Status.AWAITING_INPUT, "desk", 1)


MEMBERS = [
    b"",
    b"x",
    b"1|s",
    b"x|s|c|1",
    b"1|s|c|x",
    b"1|s|c|1|1",
    b"\xff\xfe",
    b"~" * 2000,
    "²|s|c|1".encode(),
    b"9" * 5000 + b"|s|c|1",
]


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("index", ["pending", "conversations"])
async def test_paging_goes_past_members_that_holdfast_never_wrote(store, raw, keys, crowd, index, limit):
    for number, member in enumerate(MEMBERS):
        raw.redis.zadd(getattr(keys, index)(number % 3, None, None), {member: 0})

    rows = await paged(getattr(store, index), limit)

    assert sorted(row.conversation_id for row in rows if row.problem is None) == NAMES
    spoilt = [row for row in rows if row.problem is not None]
    assert len(spoilt) == len(MEMBERS)
    assert all(row.conversation_id == "" and "holdfast reindex" in row.problem for row in spoilt)
    json.dumps([row.problem for row in spoilt], ensure_ascii=False).encode()


async def test_reindexing_removes_members_that_holdfast_never_wrote(store, raw, keys, crowd):
    for index in ("pending", "conversations"):
        for member in MEMBERS:
            raw.redis.zadd(getattr(keys, index)(5, None, None), {member: 0})

    async for _ in store.reindex():
        pass

    assert [view.problem for view in await paged(store.pending, 5)] == [None] * len(NAMES)
    assert [row.problem for row in await paged(store.conversations, 5)] == [None] * len(NAMES)


@pytest.mark.parametrize("filters", [{"agent": "desk"}, {"kind": SuspensionKind.APPROVAL}])
async def test_filtered_lists_go_on_past_what_cannot_be_read(store, raw, keys, crowd, filters):
    wrong_type("log")(raw, keys, crowd[SPOILT])

    views = (await store.pending(limit=50, **filters)).items

    assert [view.conversation_id for view in views] == NAMES
    assert [view.conversation_id for view in views if view.problem] == [SPOILT]


@pytest.mark.parametrize("cursor", ["x.0", "x.zz", "x." + "00" * 600, "x.00++", "x", "y.00"])
async def test_a_cursor_that_no_page_gave_is_refused(store, cursor):
    for listing in (store.pending, store.conversations):
        with pytest.raises(InvalidInput) as refused:
            await listing(limit=5, after=cursor)
        assert refused.value.field == "after"


# -- one conversation ------------------------------------------------------------------------------------------------


async def test_the_pending_calls_of_one_conversation_say_what_cannot_be_read(store, raw, keys, crowd):
    at("arguments", packed(nested_deeply))(raw, keys, crowd[SPOILT])

    [view] = await store.pending_of(SPOILT)

    assert view.suspension_id == crowd[SPOILT].suspension_ids[0]
    assert view.tool == "refund"
    assert "nested" in view.problem


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (at("suspension", packed(lambda _, kind, values: [NEWER, kind, values])), NewerRecord),
        (at("suspension", lambda _: {"e": b"\xc1"}), CorruptStore),
        (wrong_type("log"), CorruptStore),
        (wrong_type("head"), CorruptStore),
    ],
    ids=["newer", "corrupt", "log", "head"],
)
async def test_reading_one_conversation_that_cannot_be_read_names_it(store, raw, keys, crowd, spoil, error):
    spoil(raw, keys, crowd[SPOILT])
    raw.redis.hdel(keys.head(SPOILT), "snapshot") if raw.redis.type(keys.head(SPOILT)) == b"hash" else None
    reads = [lambda: store.load(SPOILT), lambda: store.pending_of(SPOILT)]
    if raw.redis.type(keys.head(SPOILT)) == b"hash":
        reads += [
            lambda: store.read(SPOILT, after=0),
            lambda: store.read(SPOILT, after=0, block_ms=10),
            lambda: store.at(SPOILT, range(1, 9)),
        ]
    else:
        reads += [lambda: store.owner(SPOILT), lambda: store.quarantine(SPOILT)]

    for read in reads:
        with pytest.raises(error) as raised:
            await read()
        assert SPOILT in str(raised.value)


@pytest.mark.parametrize("field", ["seq", "epoch"])
async def test_a_head_whose_numbers_are_none_has_no_owner_but_an_error(store, raw, keys, crowd, field):
    raw.redis.hset(keys.head(SPOILT), field, "9" * 5000)

    with pytest.raises(CorruptStore, match=SPOILT):
        await store.owner(SPOILT)


async def test_a_call_that_could_not_be_shown_whole_is_denied_and_not_approved(store, raw, keys, crowd):
    at("arguments", packed(nested_deeply))(raw, keys, crowd[SPOILT])
    [view] = await store.pending_of(SPOILT)
    decided = []
    shown = PendingCall.of(view, lambda *given, **named: decided.append((given, named)))

    for decision in (Approve(), Redispatch()):
        with pytest.raises(InvalidDecision, match="could be shown"):
            shown.resolve(decision)
    assert decided == []
    shown.resolve(Deny("it cannot be read"), decision_id="d-1")
    shown.resolve(Approve({"amount": 1}))

    named = {"suspension_id": view.suspension_id, "decision_id": "d-1"}
    assert decided[0] == ((SPOILT, view.tool_call_id, Deny("it cannot be read")), named)
    await crowd[SPOILT].do(resolve(Deny("it cannot be read")))
    assert await store.pending_of(SPOILT) == []


async def test_a_call_of_which_only_the_place_is_known_is_not_resolved(store, raw, keys, crowd):
    wrong_type("log")(raw, keys, crowd[SPOILT])
    view = next(view for view in (await store.pending(limit=50)).items if view.problem)

    with pytest.raises(InvalidDecision) as refused:
        PendingCall.of(view, lambda *_, **__: None).resolve(Answer(1))

    assert refused.value.field == "tool_call_id"
    assert view.suspension_id == crowd[SPOILT].suspension_ids[0]


async def test_an_api_key_that_cannot_be_read_hides_no_other_and_can_be_removed(store, keys):
    for number in range(4):
        record = ApiKey(key_id=f"k{number}", name="ana", digest="00", scopes=(AccessScope.READ,), created_at=number)
        await store.put_api_key(record)
    await store._redis.hset(keys.meta("api-keys"), mapping={"k1": b"junk", "k2": msgpack.packb([NEWER, "api_key", {}])})
    await store._redis.hset(keys.meta("api-keys-used"), "k3", b"junk")

    found = await store.api_keys()

    assert [key.key_id for key in found.keys] == ["k0"]
    assert [one.key_id for one in found.unreadable] == ["k1", "k2", "k3"]
    assert all(one.why for one in found.unreadable)
    assert [await store.remove_api_key(one.key_id) for one in found.unreadable] == [True] * 3
    assert (await store.api_keys()).unreadable == ()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"junk", CorruptStore),
        (msgpack.packb([codec.VERSION, "api_key", {}]), CorruptStore),
        (msgpack.packb([codec.VERSION, "ticket", {"kind": "session"}]), CorruptStore),
        (msgpack.packb([NEWER, "ticket", {}]), NewerRecord),
    ],
)
async def test_a_ticket_that_cannot_be_read_counts_for_nobody_and_can_be_removed(store, keys, data, error):
    digest = "0a" * 32
    await store.put_ticket(Ticket(digest=digest, kind=TicketKind.SESSION, created_at=1, expires_at=await store.now() + 60_000))
    await store._redis.set(keys.meta(f"ticket:{digest}"), data)

    with pytest.raises(error):
        await store.ticket(digest)

    assert await store.remove_ticket(digest)
    assert await store.ticket(digest) is None


async def test_a_bucket_whose_sum_cannot_be_read_holds_no_turn_of_its_agent_up(store, raw, keys):
    for name in NAMES:
        writer = await Writer.of(store, name)
        writer.spec = AgentSpec(name="desk", model="m", budgets=(Budget(tokens=1000, per="day"),))
        await writer.do(start(), begin())
        await writer.do(reply(input_tokens=40, output_tokens=2))
    day, found = await store.spent("desk")
    buckets = [bucket_of(name) for name in NAMES]
    wrong, spoilt, *_ = sorted(set(buckets))
    raw.redis.set(keys.spent(wrong, "desk", day), "no hash")
    raw.redis.hset(keys.spent(spoilt, "desk", day), "tokens", "many")
    left = sum(bucket not in (wrong, spoilt) for bucket in buckets)
    assert (found.tokens, (await store.spent("desk")).spent.tokens) == (42 * len(NAMES), 42 * left)
