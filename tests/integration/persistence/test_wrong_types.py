"""Keys of another type than Holdfast writes: a typed error, and not a byte changed."""

import asyncio
from contextlib import aclosing

import pytest
from stores import InMemory
from writer import APP, DESK, Writer, begin, call, cancel, cancel_pending, send, start

from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Principal, State, SuspensionKind
from holdfast.conversation.terms.presence import OnDetach, Present
from holdfast.errors import CorruptStore
from holdfast.persistence import AccessScope, ApiKey, Takeover, TakeoverReason, Ticket, TicketKind
from holdfast.persistence.access import Want
from holdfast.persistence.keys import Keys, bucket_of

NAME = "c-1"
BUCKET = bucket_of(NAME)

KEY_OF = {
    "head": lambda keys: keys.head(NAME),
    "log": lambda keys: keys.log(NAME),
    "known": lambda keys: keys.known(NAME),
    "passing": lambda keys: keys.passing(NAME),
    "runs": lambda keys: keys.runs(NAME),
    "attention": lambda keys: keys.attention(BUCKET),
    "paused": lambda keys: keys.paused(BUCKET),
    "changes": lambda keys: keys.changes(BUCKET),
    "clients": lambda keys: keys.clients(NAME),
    "here": lambda keys: keys.here(NAME),
    "pauses": lambda keys: keys.meta("pauses"),
    "cluster": lambda keys: keys.meta("cluster"),
    "apps": lambda keys: keys.meta("apps"),
    "specs": lambda keys: keys.meta("specs"),
    "rules": lambda keys: keys.meta("rules"),
    "problems": lambda keys: keys.meta("problems"),
    "breakers": lambda keys: keys.meta("breakers"),
    "standby": lambda keys: keys.meta("standby"),
    "layout": lambda keys: keys.meta("layout"),
    "release": lambda keys: keys.meta("release"),
    "hosting": lambda keys: keys.meta("hosting"),
    "withheld": lambda keys: keys.meta("withheld"),
    "troubles": lambda keys: keys.meta("troubles"),
    "api-keys": lambda keys: keys.meta("api-keys"),
    "api-keys-used": lambda keys: keys.meta("api-keys-used"),
    "ticket": lambda keys: keys.meta(f"ticket:{TICKET.digest}"),
    "counts": lambda keys: keys.meta("counts"),
    "used": lambda keys: keys.meta("used:k1"),
    "pending": lambda keys: keys.pending(BUCKET, None, None),
    "pending by agent": lambda keys: keys.pending(BUCKET, "desk", None),
    "pending by kind": lambda keys: keys.pending(BUCKET, None, "elicitation"),
    "pending by both": lambda keys: keys.pending(BUCKET, "desk", "elicitation"),
    "pending by id": lambda keys: f"{keys.bucket(BUCKET)}pending:i",
    "pending by deadline": lambda keys: f"{keys.bucket(BUCKET)}pending:e",
    "pending by tool": lambda keys: f"{keys.bucket(BUCKET)}pending:t:ask",
    "pending by decider": lambda keys: f"{keys.bucket(BUCKET)}pending:w:",
    "conversations": lambda keys: keys.conversations(BUCKET, None, None),
    "conversations by agent": lambda keys: keys.conversations(BUCKET, "desk", None),
    "conversations by status": lambda keys: keys.conversations(BUCKET, None, "awaiting_input"),
    "conversations by both": lambda keys: keys.conversations(BUCKET, "desk", "awaiting_input"),
    "conversations by next status": lambda keys: keys.conversations(BUCKET, None, "idle"),
    "conversations by agent and next status": lambda keys: keys.conversations(BUCKET, "desk", "idle"),
}
API_KEY = ApiKey(key_id="k1", name="ana", digest="00", scopes=(AccessScope.READ,), created_at=1)
TICKET = Ticket(digest="00" * 32, kind=TicketKind.SESSION, created_at=1, expires_at=2)
CLIENT = Present(client_id="tab-1", tools=("locate",), on_detach=OnDetach.CANCEL)
SETTLED = [name for name in KEY_OF if name.startswith("pending") or "status" in name or name == "conversations by both"]
"""The lists that the end of a turn rewrites."""
STARTED = ["conversations", "conversations by agent"]
"""The lists that a start writes, whatever its status."""
NEIGHBOUR = next(name for number in range(10_000) if bucket_of(name := f"n-{number}") == BUCKET)
"""A conversation that shares the lists."""
ELSEWHERE = next(name for number in range(10_000) if bucket_of(name := f"n-{number}") != BUCKET)


async def acquire(writer):
    await Writer.of(writer.store, NAME, seen=writer.token, because=TakeoverReason.DIED)


async def acquire_again(writer):
    store, token = writer.store, writer.token
    await store.acquire(NAME, Takeover(seen_token="", new_token=token, because=TakeoverReason.ASKED, actor="a", lease_ms=1000))


async def write(writer):
    await writer.do(cancel())


async def start_another(writer):
    another = Writer(writer.store, NEIGHBOUR, "t-1", 1, State(conversation_id=NEIGHBOUR), {})
    await another.do(start())


async def confirm(writer):
    await writer.store.append(NAME, writer.write(absent=["m:m-1"]))


async def claim(writer):
    await writer.store.claim(NAME, writer.effect_ids[0], incarnation="i-1", worker="w-1")


async def finish(writer):
    await writer.store.finish(NAME, writer.effect_ids[0], incarnation="i-1", outcome=b"x")


async def refuse(writer):
    await writer.store.refuse(NAME, writer.effect_ids[0], incarnation="i-1", outcome=b"x")


SCRIPTS = {
    acquire: ["head", "log", "runs", "attention", "paused"],
    acquire_again: ["head", "log", "runs", "attention", "paused"],
    write: ["head", "log", "known", "passing", "runs", "attention", *SETTLED],
    start_another: STARTED,
    confirm: ["head", "log", "known", "passing", "runs", "attention"],
    lambda writer: writer.store.renew(NAME, writer.token, 1000): ["head", "attention"],
    lambda writer: writer.release(): ["head", "attention", "log", "paused"],
    claim: ["runs"],
    finish: ["runs"],
    refuse: ["runs", "head", "attention"],
    lambda writer: writer.store.load(NAME): ["head", "log"],
    lambda writer: writer.store.attach(NAME, CLIENT): ["head", "clients", "here", "attention"],
    lambda writer: writer.store.detach(NAME, CLIENT.name): ["head", "clients", "here", "attention"],
    lambda writer: writer.store.forget_clients(NAME, [CLIENT.name]): ["head", "clients", "here", "attention"],
    lambda writer: writer.store.postpone(NAME, 10): ["attention"],
    lambda writer: writer.store.troubled(NAME, "x"): ["troubles"],
    lambda writer: writer.store.count({"a": 1}): ["counts"],
    lambda writer: writer.store.use("k1", "r-1", [Want("starts_per_day", 1, 9)]): ["used"],
    lambda writer: writer.store.bind("cluster-2", "a", 1000): ["cluster"],
    lambda writer: writer.store.unbind("cluster-1"): ["cluster"],
    lambda writer: writer.store.serve("0.2", before="0.1"): ["release"],
    lambda writer: writer.store.pause(None, by="ana@desk", reason=""): ["pauses"],
    lambda writer: writer.store.unpause(None): ["pauses"],
    lambda writer: writer.store.paused(): ["pauses"],
    lambda writer: writer.store.put_api_key(API_KEY): ["api-keys"],
    lambda writer: writer.store.note_api_key_use("k1", 1): ["api-keys", "api-keys-used"],
}
"""Every operation that runs a script, and every key that it checks."""

COMMANDS = {
    lambda store: store.owner(NAME): ["head"],
    lambda store: store.run(NAME, "call_1#1"): ["runs"],
    lambda store: store.read(NAME, after=0): ["log"],
    lambda store: store.read(NAME, after=0, block_ms=10): ["log"],
    lambda store: store.at(NAME, [1]): ["log"],
    lambda store: store.pending_of(NAME): ["head", "log"],
    lambda store: store.present(NAME): ["clients", "here"],
    lambda store: store.pending(limit=10): ["pending"],
    lambda store: store.pending(limit=10, agent="desk"): ["pending by agent"],
    lambda store: store.pending(limit=10, kind=SuspensionKind.ELICITATION): ["pending by kind"],
    lambda store: store.pending(limit=10, tool="ask"): ["pending by tool"],
    lambda store: store.pending(limit=10, approver=Principal("ana")): ["pending by decider"],
    lambda store: store.pending(limit=10, expires_within_s=10): ["pending by deadline"],
    lambda store: store.pending_of(None, "sus-12345"): ["pending by id"],
    lambda store: store.conversations(limit=10): ["conversations"],
    lambda store: store.app(APP.app): ["apps"],
    lambda store: store.spec(DESK.digest): ["specs"],
    lambda store: store.rules("0" * 64): ["rules"],
    lambda store: store.problem(APP.app): ["problems"],
    lambda store: store.put_problem(APP.app, "x"): ["problems"],
    lambda store: store.put_problem(APP.app, None): ["problems"],
    lambda store: store.broken_apps(): ["problems"],
    lambda store: store.note_breakers("worker-0", {("m", "open"): 1}): ["breakers"],
    lambda store: store.note_breakers("worker-0", {}): ["breakers"],
    lambda store: store.open_breakers(): ["breakers"],
    lambda store: store.live(): ["hosting"],
    lambda store: store.offer("actor-2", 0): ["standby"],
    lambda store: store.offer("actor-1", None): ["standby"],
    lambda store: store.take(): ["standby"],
    lambda store: store.offers(): ["standby"],
    lambda store: store.binding(): ["cluster"],
    lambda store: store.serving(): ["release"],
    lambda store: store.withhold("node-1"): ["withheld"],
    lambda store: store.withhold("node-1", lift=True): ["withheld"],
    lambda store: store.withheld(): ["withheld"],
    lambda store: store.known(NAME, ["m:m-1"]): ["known", "passing"],
    lambda store: store.hosts("actor-1", NAME): ["hosting"],
    lambda store: store.hosted("actor-1"): ["hosting"],
    lambda store: store.troubled(NAME, None): ["troubles"],
    lambda store: store.troubles(): ["troubles"],
    lambda store: store.used(["k1"]): ["used"],
    lambda store: store.charge(NAME, "k1"): ["head"],
    lambda store: store.spend(NAME, 7, 7): ["head"],
    lambda store: store.apps(): ["apps"],
    lambda store: store.survey(): ["apps", "counts"],
    lambda store: store.open(): ["layout"],
    lambda store: store.api_key("k1"): ["api-keys", "api-keys-used"],
    lambda store: store.api_keys(): ["api-keys", "api-keys-used"],
    lambda store: store.ticket(TICKET.digest): ["ticket"],
}
"""Every operation that sends plain commands, and the keys it reads or writes."""


def cases(table):
    return [
        pytest.param(operation, name, id=f"{number}-{name}")
        for number, operation in enumerate(table)
        for name in table[operation]
    ]


@pytest.fixture
async def writer(store):
    """A conversation of which every key exists."""
    active = await Writer.of(store, NAME)
    await active.do(start(), begin(), cancel_pending(), call("lookup", "ask"))
    await store.attach(NAME, CLIENT)
    await store.put_app(APP, [DESK], {"0" * 64: "{}"})
    await store.put_problem(APP.app, "x")
    await store.note_breakers("worker-0", {("m", "open"): 1})
    await store.offer("actor-1", 0)
    await store.hosts("actor-1", NAME)
    await store.troubled(NAME, "x")
    await store.count({"a": 1})
    await store.withhold("node-2")
    await store.bind("cluster-1", "a", 1)
    await store.serve("0.1", before=None)
    return active


def spoil(raw, key, kind):
    raw.redis.delete(key)
    if kind == "string":
        raw.redis.set(key, "not ours")
    else:
        raw.redis.rpush(key, "not", "ours")


@pytest.mark.parametrize("kind", ["string", "list"])
@pytest.mark.parametrize(("operation", "name"), cases(SCRIPTS))
async def test_a_script_refuses_a_key_of_another_type(writer, raw, operation, name, kind):
    if operation is start_another:  # so that its own head is there before
        await writer.store.acquire(
            NEIGHBOUR,
            Takeover(seen_token="", new_token="t-1", because=TakeoverReason.ASKED, actor="a", lease_ms=1000, create=True),
        )
    spoil(raw, KEY_OF[name](Keys(raw.namespace)), kind)

    with raw.unchanged(), pytest.raises(CorruptStore) as refused:
        await operation(writer)

    assert raw.namespace in str(refused.value) or "WRONGTYPE" in str(refused.value)


@pytest.mark.parametrize("kind", ["string", "list"])
@pytest.mark.parametrize(("operation", "name"), cases(COMMANDS))
async def test_a_command_refuses_a_key_of_another_type(writer, raw, operation, name, kind):
    spoil(raw, KEY_OF[name](Keys(raw.namespace)), kind)

    with raw.unchanged(), pytest.raises(CorruptStore):
        await operation(writer.store)


async def test_a_time_that_is_none_is_refused_where_nothing_is_to_be_made(store, raw):
    raw.redis.hset(Keys(raw.namespace).meta("withheld"), "node-1", "never")
    with pytest.raises(CorruptStore, match="withheld"):
        await store.withheld()


@pytest.mark.parametrize("note", [b"", b"never", b"\x92\x01\x02", b"\x92\xc0\x91\x93\xa1m\xa1s\x01", b"\x92\x01\x91\x91\x01"])
async def test_a_note_of_breakers_that_cannot_be_read_is_left_out_and_then_removed(store, raw, note):
    key = Keys(raw.namespace).meta("breakers")
    raw.redis.hset(key, "worker-1", note)
    assert await store.open_breakers() == []
    await store.note_breakers("worker-0", {("m", "open"): 1})
    assert [one.worker for one in await store.open_breakers()] == ["worker-0"]
    await store.note_breakers("worker-0", {})
    assert raw.redis.hkeys(key) == []


async def test_the_tables_cover_every_key_that_a_conversation_has(writer, raw):
    await writer.do(send())
    named = {KEY_OF[name](Keys(raw.namespace)).encode() for name in KEY_OF}

    assert set(raw.every_key()) <= named


async def test_an_append_that_changes_no_index_does_not_read_them(writer, raw):
    """What is not written need not be checked: a spoilt list stops nobody from talking."""
    keys = Keys(raw.namespace)
    spoil(raw, keys.pending(BUCKET, None, None), "string")

    await writer.do(send())

    assert (await writer.store.load(NAME)) == writer.state


@pytest.mark.parametrize("kind", ["string", "list"])
async def test_changes_that_cannot_be_noted_stop_nobody_and_hide_no_others(writer, raw, kind):
    store = writer.store
    begun = (await store.changes()).place
    spoil(raw, Keys(raw.namespace).changes(BUCKET), kind)

    await writer.do(cancel())
    other = await Writer.of(store, ELSEWHERE)
    await other.do(start(), begin())

    for block_ms in (0, 50):
        assert [change.conversation_id for change in (await store.changes(begun, block_ms=block_ms)).items] == [ELSEWHERE]
    assert (await store.load(NAME)) == writer.state


@pytest.mark.parametrize("field", ["c", "f", "s", "i", "o", "x"])
async def test_an_entry_among_the_changes_that_cannot_be_read_hides_no_other(writer, raw, field):
    store = writer.store
    begun = (await store.changes()).place
    key = Keys(raw.namespace).changes(BUCKET)
    fields = {"c": NAME, "f": "1", "s": "1", "i": b"\x94\xa1a\xa4idle\x01\x00", "o": "", "x": ""}
    raw.redis.xadd(key, {name: value for name, value in fields.items() if name != field})
    raw.redis.xadd(key, fields | {field: b"\xff\xff|nonsense"})
    await writer.do(cancel())

    found = (await store.changes(begun)).items

    assert [change.conversation_id for change in found] == ["", "", NAME]


CLOSED = f"approval {'1' * 15}|s-1|{NAME}|4"


@pytest.mark.parametrize(
    "said",
    [
        {"f": "9", "s": "3", "x": CLOSED},  # ends before it begins
        {"f": "1", "s": "9999999999", "x": CLOSED},  # would read a whole log
        {"f": "0", "s": "1"},
        {"f": "-5", "s": "1", "x": CLOSED},
        {"c": "no|name"},
        {"i": b"\x94\x05\xa4idle\x01\x00"},  # an agent that is a number
        {"i": b"\x94\xa1a\xa4idle\x01\xa1x"},  # a count that is a text
    ],
)
async def test_an_entry_among_the_changes_that_says_what_cannot_be_ends_nobodys_following(writer, raw, said):
    client = AsyncClient(StackGateway(InMemory(writer.store), timeout_s=30))
    async with aclosing(client.events()) as events:
        await anext(events)
        fields = {"c": NAME, "f": "1", "s": "1", "i": b"\x94\xa1a\xa4idle\x01\x00", "o": "", "x": ""}
        raw.redis.xadd(Keys(raw.namespace).changes(BUCKET), fields | said)
        await writer.do(cancel())

        told = await asyncio.wait_for(anext(events), 30)

    assert (told.conversation_id, told.kind) == (NAME, "settled")


async def test_one_bucket_that_cannot_be_read_hides_no_other_from_the_sweeper(store, raw):
    long_ago = await store.now() - 3_700_000
    for name in (NAME, ELSEWHERE):
        waiting = await Writer.of(store, name)
        await waiting.do(start(), begin(), call("ask"), now=long_ago)
    spoil(raw, Keys(store.namespace).attention(BUCKET), "string")

    assert list((await store.attention(10)).conversation_ids) == [ELSEWHERE]


async def test_what_cannot_be_read_at_all_can_be_set_aside_and_taken_up_again(store, raw):
    writer = await Writer.of(store, NAME)
    await writer.do(start(), begin(), call("ask"))
    head = Keys(store.namespace).head(NAME)
    raw.redis.hset(head, mapping={"snapshot": b"not ours", "index": b"not ours"})
    raw.redis.delete(Keys(store.namespace).log(NAME))
    owner = await store.owner(NAME)

    assert await store.strike(NAME, owner.token, process="p-1", reason="it cannot be read", limit=1) is None

    assert (await store.quarantine(NAME)).reason == "it cannot be read"
    assert await store.retry(NAME)
    assert await store.quarantine(NAME) is None
    assert raw.redis.hget(head, "index") == b"not ours"
