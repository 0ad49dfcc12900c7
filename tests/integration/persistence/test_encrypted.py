"""What Redis holds where there is a cipher: no word of anybody's; and what becomes of whoever has no cipher, or a wrong one."""

import asyncio
from contextlib import aclosing

import pytest
from toy_cipher import ToyCipher
from writer import DESK, Writer, begin, call, fail_model, finish, lose, reply, resolve, send, start

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import Rule, Rules
from holdfast.cipher import CipherAt
from holdfast.cli.check import Outcome
from holdfast.cli.options import Where
from holdfast.cli.store_checks import Looked, cipher_checks, problem_checks, worker_checks
from holdfast.client import AsyncClient
from holdfast.client.results import PendingCall
from holdfast.conversation import Approve, RunFinished, RunRuled, Status
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import CipherFailed, CipherMissing
from holdfast.persistence import AppRecord, MemoryStore, RedisStore, RunStatus, TakeoverReason, codec
from holdfast.persistence.keys import Keys
from holdfast.settings import Settings

MARK = "Marie-Curie"
"""What everybody says here, and Redis never hears."""
RULES = Rules(deny=[Rule("refund", name=f"about {MARK}", reason=f"{MARK} said so")])
TOY = CipherAt("toy_cipher:cipher")


class Broken:
    """A cipher that goes wrong in one way."""

    def __init__(self, encrypted):
        self.encrypted = encrypted

    def encrypt(self, data, context):
        if isinstance(self.encrypted, Exception):
            raise self.encrypted
        return self.encrypted

    def decrypt(self, data, context):
        return ToyCipher().decrypt(data, context)


@pytest.fixture
async def opened(server, namespace):
    """Makes stores over the namespace, each with its own cipher or none."""
    made = []

    async def make(cipher=None):
        store = RedisStore(server.url, namespace=namespace, cipher=cipher)
        made.append(store)
        await store.open()
        return store

    yield make
    for store in made:
        await store.close()


@pytest.fixture
def keys(namespace):
    return Keys(namespace)


async def waiting(store, name="c-1", **more):
    """A conversation that waits for an approval."""
    writer = await Writer.of(store, name, **more)
    await writer.do(start(MARK), begin(), call(("refund", f'{{"to":"{MARK}"}}'), prompt=f"Pay {MARK}?"))
    return writer


def everything(raw):
    """Every key of the namespace with all that it holds, as the server tells it."""
    reads = {
        b"hash": raw.redis.hgetall,
        b"stream": raw.redis.xrange,
        b"zset": lambda key: raw.redis.zrange(key, 0, -1),
        b"string": raw.redis.get,
    }
    return {key: reads[raw.redis.type(key)](key) for key in raw.every_key()}


def _denied(effect_id):
    ruled = RuleVerdict(effect=RuleEffect.DENY, rule=f"about {MARK}", reason=f"{MARK} said so")
    return codec.encode(RunRuled(effect_id=effect_id, ruled=ruled))


async def live_a_whole_life(store):
    """Everything that a store is given of words, by people, models, tools and errors."""
    spec = DESK.model_copy(update={"instructions": f"Be kind to {MARK}."})
    record = AppRecord(app="shop:app", code="k", agents={"desk": spec.digest}, rules={"desk": RULES.digest})
    await store.put_app(record, [spec], {RULES.digest: RULES.to_json()})
    await store.put_problem("shop:app", f"ValueError: {MARK}")
    one = await Writer.of(store, "c-1")
    await one.do(start(f"I am {MARK}", context=f'"{MARK}"'), begin())
    await one.do(call(("lookup", f'{{"name":"{MARK}"}}'), content=f"Wait, {MARK}."))
    (effect_id,) = one.effect_ids
    await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1")
    report = codec.pack(["progress", effect_id, 1, 1, f'{{"message":"{MARK}"}}'])
    assert await store.keep_progress("c-1", effect_id, report)
    outcome = codec.encode(RunFinished(effect_id=effect_id, ok=True, content=f'{{"ok":true,"result":"{MARK}"}}'))
    assert await store.finish("c-1", effect_id, incarnation="i-1", outcome=outcome)
    assert not await store.finish("c-1", "call_0#9", incarnation="i-9", outcome=outcome)
    await store.publish("c-1", report)
    assert (await store.run("c-1", effect_id)).outcome == outcome
    await one.do(finish(content=f'{{"ok":true,"result":"{MARK}"}}'))
    await one.do(call((f"tool_{MARK}", f'{{"x":"{MARK}"}}'), ("refund", f'{{"to":"{MARK}"}}'), prompt=f"Pay {MARK}?"))
    await one.do(resolve(Approve(arguments={"to": f"{MARK} again"}), decision_id="d-1"))
    await one.do(finish(), send(f"Still {MARK}", message_id="m-2"))
    await one.do(reply(f"Bye, {MARK}."))
    await one.do(begin(), fail_model(f"no such {MARK}"))
    three = await Writer.of(store, "c-9")
    await three.do(start(MARK), begin(), call(("lookup", f'{{"name":"{MARK}"}}')))
    (effect_id,) = three.effect_ids
    assert await store.refuse("c-9", effect_id, incarnation="i-1", outcome=_denied(effect_id))
    assert (await store.run("c-9", effect_id)).outcome == _denied(effect_id)
    two = await waiting(store, "c-2")
    await store.troubled("c-2", f"it cannot be woken: {MARK}")
    assert await store.strike("c-2", two.token, process="p-1", reason=f"it died of {MARK}", limit=1) is None
    return one, outcome, report


async def test_no_word_of_a_whole_conversation_stands_anywhere_in_redis(opened, raw):
    store = await opened(ToyCipher())
    heard = raw.redis.pubsub(ignore_subscribe_messages=True)
    heard.psubscribe(f"*{raw.namespace}*")
    heard.get_message(timeout=5)

    _, _, report = await live_a_whole_life(store)

    found = everything(raw)
    assert MARK not in str(found)
    assert {key.rpartition(b"}:")[2] for key in found} >= {
        *(f"c:c-1:{name}".encode() for name in ("head", "log", "known", "late", "progress")),
        *(b"c:c-2:head", b"c:c-9:runs", b"specs", b"rules", b"problems", b"troubles"),
    }
    told = heard.get_message(timeout=5)["data"]
    assert MARK.encode() not in told
    assert told != report
    heard.close()


async def test_without_a_cipher_the_same_words_stand_there(opened, raw):
    """What the test before looks for is to be found, were it there."""
    await live_a_whole_life(await opened())

    assert sum(MARK in str(held) for held in everything(raw).values()) >= 8
    assert raw.redis.hget(Keys(raw.namespace).meta("layout"), "encrypted") is None


async def test_whoever_has_the_cipher_reads_all_of_it(opened):
    _, outcome, report = await live_a_whole_life(await opened(ToyCipher()))
    store = await opened(ToyCipher())

    said = [str(event) for _, event in await store.read("c-1", after=0)]
    state = await store.load("c-1")
    spec = await store.spec((await store.app("shop:app")).agents["desk"])

    assert sum(MARK in one for one in said) >= 8
    assert state.status is Status.FAILED
    assert MARK in spec.instructions
    assert Rules.of_json(await store.rules((await store.app("shop:app")).rules["desk"])) == RULES
    (denied,) = (await store.load("c-9")).calls
    assert (await store.run("c-9", denied.effect_id)).outcome == _denied(denied.effect_id)
    assert await store.problem("shop:app") == f"ValueError: {MARK}"
    assert [late.outcome for late in (await store.late("c-1")).values()] == [outcome]
    assert list((await store.progress("c-1")).values()) == [report]
    assert (await store.quarantine("c-2")).reason == f"it died of {MARK}"
    assert (await store.owner("c-2")).quarantine.reason == f"it died of {MARK}"
    assert [trouble.reason for trouble in await store.troubles()] == [f"it cannot be woken: {MARK}"]
    assert (await store.known("c-1", ["d:d-1"]))["d:d-1"].digest
    (row,) = (await store.pending(limit=10)).items
    assert (row.prompt, row.arguments) == (f"Pay {MARK}?", {"to": MARK})


async def test_live_events_are_heard_by_whoever_has_the_cipher_and_told_to_others_as_they_are(opened):
    store, blind = await opened(ToyCipher()), await opened()
    heard = [asyncio.ensure_future(anext(one.listen("c-1"))) for one in (store, blind)]
    async with asyncio.timeout(30):
        while not all(one.done() for one in heard):
            await store.publish("c-1", b"a word")
            await asyncio.sleep(0.01)

    assert heard[0].result() == b"a word"
    assert codec.is_sealed(heard[1].result())


async def test_without_the_cipher_lists_are_whole_and_each_row_says_what_it_lacks(opened):
    await waiting(await opened(ToyCipher()))
    store = await opened()

    (conversation,) = (await store.conversations(limit=10)).items
    (pending,) = (await store.pending(limit=10)).items

    assert (conversation.agent, conversation.status, conversation.problem) == ("desk", Status.AWAITING_INPUT, None)
    assert (pending.conversation_id, pending.agent, pending.arguments) == ("c-1", "desk", {})
    assert "encrypted" in pending.problem
    assert "HOLDFAST_CIPHER" in pending.problem
    assert PendingCall.of(pending, None).problem == pending.problem


async def test_rules_that_are_moved_or_belong_to_another_key_do_not_read(opened, raw, keys):
    store = await opened(ToyCipher("key-1"))
    await store.put_app(AppRecord(app="shop:app", code="k"), [], {RULES.digest: RULES.to_json()})
    raw.redis.hset(keys.meta("rules"), "0" * 64, raw.redis.hget(keys.meta("rules"), RULES.digest))

    with pytest.raises(CipherFailed, match="rules"):
        await store.rules("0" * 64)
    with pytest.raises(CipherFailed, match="UnknownKey"):
        await (await opened(ToyCipher("key-2"))).rules(RULES.digest)
    with pytest.raises(CipherMissing, match="rules"):
        await (await opened()).rules(RULES.digest)


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.load("c-1"),
        lambda store: store.read("c-1", after=0),
        lambda store: store.at("c-1", [1]),
        lambda store: store.pending_of("c-1"),
        lambda store: store.known("c-1", ["m:m-1"]),
    ],
    ids=["load", "read", "at", "pending_of", "known"],
)
async def test_what_needs_the_cipher_says_so(opened, read):
    await waiting(await opened(ToyCipher()))

    with pytest.raises(CipherMissing, match="HOLDFAST_CIPHER"):
        await read(await opened())


async def test_whoever_has_no_cipher_takes_nothing_over_and_changes_nothing(opened, raw):
    writer = await waiting(await opened(ToyCipher()))
    await writer.release()
    store = await opened()

    with raw.unchanged(), pytest.raises(CipherMissing, match="c-1"):
        await Writer.of(store, "c-1")


async def test_a_recorded_outcome_alone_keeps_those_away_that_cannot_read_it(opened, raw):
    """A conversation from before, of which a worker that has the cipher has recorded an outcome."""
    store, plain = await opened(ToyCipher()), await opened()
    writer = await Writer.of(plain, "c-1")
    await writer.do(start(), begin(), call("lookup"))
    (effect_id,) = writer.effect_ids
    await plain.claim("c-1", effect_id, incarnation="i-1", worker="w-1")
    await store.finish("c-1", effect_id, incarnation="i-1", outcome=b"an outcome")

    with raw.unchanged(), pytest.raises(CipherMissing):
        await Writer.of(plain, "c-1", seen=writer.token, because=TakeoverReason.DIED)
    taken = await Writer.of(store, "c-1", seen=writer.token, because=TakeoverReason.DIED)

    assert taken.runs[effect_id].status is RunStatus.DONE
    assert taken.runs[effect_id].outcome == b"an outcome"


async def test_a_plain_conversation_goes_on_encrypted_and_what_was_plain_stays_readable(opened, raw, keys):
    plain = await waiting(await opened())
    await plain.release()
    assert not await plain.store.encrypted()
    store = await opened(ToyCipher())

    writer = await Writer.of(store, "c-1")
    await writer.do(resolve(Approve()), finish())
    await writer.do(reply(f"Paid, {MARK}."))

    assert await plain.store.encrypted()
    sealed = [codec.is_sealed(entry[b"e"]) for _, entry in raw.redis.xrange(keys.log("c-1"))]
    assert True in sealed
    assert sealed == sorted(sealed)
    assert (await (await opened(ToyCipher())).load("c-1")).status is Status.IDLE


async def test_a_new_key_writes_and_the_old_one_goes_on_reading(opened):
    old = await waiting(await opened(ToyCipher("old")))
    await old.release()
    rotated = await opened(ToyCipher("new", "old"))

    writer = await Writer.of(rotated, "c-1")
    await writer.do(resolve(Approve()), finish())

    assert (await rotated.load("c-1")).status is Status.GENERATING
    with pytest.raises(CipherFailed, match=r"UnknownKey: new"):
        await old.store.load("c-1")


async def test_a_key_that_is_not_known_spoils_its_rows_alone(opened):
    await waiting(await opened(ToyCipher("lost")), "c-1")
    store = await opened(ToyCipher("key-1"))
    await waiting(store, "c-2")

    first, second = (await store.pending(limit=10)).items

    assert "UnknownKey: lost" in first.problem
    assert second.problem is None
    assert [row.problem for row in (await store.conversations(limit=10)).items] == [None, None]


async def test_a_conversation_that_cannot_be_decrypted_is_owned_by_nobody_and_in_no_quarantine(opened):
    writer = await waiting(await opened(ToyCipher("lost")))
    await writer.release()

    with pytest.raises(CipherFailed, match="UnknownKey: lost"):
        await Writer.of(await opened(ToyCipher("key-1")), "c-1")
    owner = await writer.store.owner("c-1")

    assert (owner.token, owner.quarantine) == ("", None)
    assert (await Writer.of(writer.store, "c-1")).state == writer.state


@pytest.mark.parametrize(
    ("source", "place"), [(("c-1", 1), ("c-2", 1)), (("c-1", 1), ("c-1", 2))], ids=["conversation", "place in its log"]
)
async def test_a_payload_that_is_moved_does_not_read_there(opened, raw, keys, source, place):
    store = await opened(ToyCipher())
    for name in ("c-1", "c-2"):
        await waiting(store, name)
    moved = dict(raw.redis.xrange(keys.log(source[0])))[f"{source[1]}-0".encode()]
    kept = raw.redis.xrange(keys.log(place[0]))
    raw.redis.delete(keys.log(place[0]))
    for entry_id, entry in kept:
        raw.redis.xadd(keys.log(place[0]), moved if entry_id == f"{place[1]}-0".encode() else entry, id=entry_id)

    with pytest.raises(CipherFailed, match=f"log {place[0]} {place[1]}"):
        await store.read(place[0], after=0)
    assert len((await store.conversations(limit=10)).items) == 2


async def test_a_payload_of_another_namespace_does_not_read_here(opened, server, raw, keys):
    other = RedisStore(server.url, namespace=f"{raw.namespace}x", cipher=ToyCipher())
    await other.open()
    await waiting(other)
    await other.close()
    for name in ("head", "log", "known"):
        there, here = getattr(Keys(other.namespace), name)("c-1"), getattr(keys, name)("c-1")
        raw.redis.copy(there, here)

    with pytest.raises(CipherFailed, match="Tampered"):
        await (await opened(ToyCipher())).load("c-1")


@pytest.mark.parametrize(
    ("encrypted", "said"),
    [
        (RuntimeError(f"cannot encrypt {MARK}"), "encrypt raised RuntimeError;"),
        ("text", "returned str, not bytes"),
        (None, "returned NoneType, not bytes"),
    ],
)
async def test_what_cannot_be_encrypted_is_refused_before_anything_is_written(opened, raw, encrypted, said):
    writer = await waiting(await opened(ToyCipher()))
    await writer.release()
    store = await opened(Broken(encrypted))
    taken = await Writer.of(store, "c-1")

    with raw.unchanged(), pytest.raises(CipherFailed, match=said) as refused:
        await taken.do(resolve(Approve()))
    assert MARK not in str(refused.value)
    with raw.unchanged(), pytest.raises(CipherFailed, match=said):
        await store.put_app(AppRecord(app="shop:app", code="k"), [DESK])
    with raw.unchanged(), pytest.raises(CipherFailed, match=said):
        await store.finish("c-1", "call_1#1", incarnation="i-1", outcome=b"an outcome")
    with raw.unchanged(), pytest.raises(CipherFailed, match=said):
        await store.refuse("c-1", "call_1#1", incarnation="i-1", outcome=b"an outcome")
    with raw.unchanged(), pytest.raises(CipherFailed, match=said):
        await store.put_app(AppRecord(app="shop:app", code="k"), [], {RULES.digest: RULES.to_json()})


async def test_a_conversation_is_set_aside_also_where_the_reason_cannot_be_encrypted(opened, raw):
    writer = await waiting(await opened(ToyCipher()))
    store = await opened(Broken(RuntimeError("no key")))

    assert await store.strike("c-1", writer.token, process="p-1", reason=f"it died of {MARK}", limit=1) is None
    assert await store.troubled("c-1", f"it cannot be woken: {MARK}") == 0

    assert "could not be encrypted" in (await store.quarantine("c-1")).reason
    assert MARK not in str(everything(raw))


async def test_why_something_waits_is_not_shown_without_the_cipher_and_nothing_fails_for_that(opened):
    await live_a_whole_life(await opened(ToyCipher()))
    store = await opened()

    assert "HOLDFAST_CIPHER" in (await store.owner("c-2")).quarantine.reason
    assert "HOLDFAST_CIPHER" in await store.problem("shop:app")
    assert ["HOLDFAST_CIPHER" in trouble.reason for trouble in await store.troubles()] == [True]
    assert await store.retry("c-2")


@pytest.mark.parametrize("make", ["redis", "memory"])
async def test_what_is_wrong_is_listed_whole_where_some_of_it_cannot_be_decrypted(opened, make):
    def given(cipher):
        store.payloads = type(store.payloads)(store.namespace, lambda: store.store_id, cipher)

    store = MemoryStore() if make == "memory" else await opened()
    for path, cipher in (("plain:app", None), ("lost:app", ToyCipher("lost")), ("shop:app", ToyCipher())):
        given(cipher)
        await store.put_problem(path, f"ValueError: {path}")
        await store.troubled(path, f"it waits for {path}")
    given(ToyCipher())

    found = {broken.app: broken for broken in await store.broken_apps()}
    said = {trouble.conversation_id: trouble.reason for trouble in await store.troubles()}

    now = await store.now()
    assert all(now - 60_000 < broken.since <= now for broken in found.values())
    for path in ("plain:app", "shop:app"):
        assert (found[path].problem, said[path]) == (f"ValueError: {path}", f"it waits for {path}")
    assert "HOLDFAST_CIPHER" in found["lost:app"].problem
    assert "HOLDFAST_CIPHER" in said["lost:app"]


async def test_secrets_are_taken_out_before_a_reason_is_encrypted(opened):
    store = await opened(ToyCipher())
    await store.troubled("c-1", "no redis://:pass-word@there")

    (trouble,) = await store.troubles()
    assert "pass-word" not in trouble.reason


async def looked(look, store, cipher):
    """The checks that one look at a store makes, in a shell that has this cipher."""
    address = StoreAddress(store.url, store.namespace, store.store_id, cipher=cipher)
    async with aclosing(Looked(address, Settings.of(app="shop:app"), Where())) as at:
        return await look(at)


async def test_problems_are_listed_with_their_words_where_the_cipher_is_and_all_the_same_where_it_is_not(opened):
    store = await opened(ToyCipher())
    await live_a_whole_life(store)
    lost = await Writer.of(store, "c-3")
    await lost.do(start(), begin(), call("ship"), resolve(Approve()), lose())

    seen, unseen = [{check.name: check for check in await looked(problem_checks, store, cipher)} for cipher in (TOY, None)]

    for checks in (seen, unseen):
        failed = {name for name, check in checks.items() if check.status is Outcome.FAIL}
        assert failed >= {"apps", "conversations", "quarantine", "lost runs"}
    for name in ("apps", "conversations", "quarantine"):
        assert MARK in seen[name].said
        assert MARK not in unseen[name].said
        assert "HOLDFAST_CIPHER" in unseen[name].said
    assert "HOLDFAST_CIPHER" in unseen["lost runs"].said
    (workers,) = await looked(worker_checks, store, TOY)
    assert MARK in workers.said


async def test_a_rebuild_of_the_lists_without_the_cipher_leaves_what_it_cannot_read_as_it_is(opened, raw):
    await waiting(await opened(ToyCipher()))
    store = await opened()

    with raw.unchanged():
        problems = [problem async for bucket in store.reindex() for problem in bucket.problems]

    assert len(problems) == 1
    assert "HOLDFAST_CIPHER" in problems[0]
    rebuilt = [bucket async for bucket in (await opened(ToyCipher())).reindex()]
    assert sum(bucket.conversations for bucket in rebuilt) == 1


@pytest.mark.parametrize(
    ("encrypted", "cipher", "outcome", "said"),
    [
        (False, None, None, ""),
        (False, TOY, Outcome.OK, "begins to encrypt"),
        (True, TOY, Outcome.OK, "works here"),
        (True, None, Outcome.FAIL, "names no cipher"),
        (True, CipherAt("no_such_module:cipher"), Outcome.FAIL, "no_such_module"),
    ],
)
async def test_doctor_says_whether_payloads_are_encrypted_and_could_be_read_here(opened, encrypted, cipher, outcome, said):
    store = await opened(ToyCipher() if encrypted else None)
    await waiting(store)

    checks = await looked(cipher_checks, store, cipher)

    assert [check.status for check in checks] == ([] if outcome is None else [outcome])
    assert all(said in check.said for check in checks)
    assert await store.encrypted() is encrypted


@pytest.mark.filterwarnings("ignore::holdfast.client.DurabilityWarning")
async def test_a_reader_that_names_the_app_has_its_cipher(opened, server, namespace, tmp_path, monkeypatch):
    await waiting(await opened(ToyCipher()))
    source = "from holdfast.agent import Agent, App\nfrom toy_cipher import cipher\n"
    (tmp_path / "app_with_a_cipher.py").write_text(f"{source}app = App(agents=[Agent(name='desk')], encrypt=cipher)\n")
    monkeypatch.syspath_prepend(tmp_path)
    where = {"redis_url": server.url, "ray_address": "127.0.0.1:1", "namespace": namespace}

    async with AsyncClient.connect("app_with_a_cipher:app", **where) as client, AsyncClient.connect(**where) as blind:
        (seen,), (unseen,) = [(await one.pending()).items for one in (client, blind)]
        with pytest.raises(CipherMissing):
            await blind.conversation("c-1").messages()

    assert (seen.arguments, seen.problem) == ({"to": MARK}, None)
    assert "HOLDFAST_CIPHER" in unseen.problem
