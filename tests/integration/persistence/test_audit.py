"""Audits over a real Redis: whatever is changed in a stored log is found at its place, and hides nothing of the rest."""

import msgpack
import pytest
from toy_cipher import ToyCipher
from writer import Writer, begin, call, resolve, start

from holdfast.client.audit import READ_AT_ONCE, kept_of, report
from holdfast.conversation import Approve, Deny
from holdfast.errors import CipherFailed, CipherMissing
from holdfast.persistence import RedisStore
from holdfast.persistence.keys import Keys


@pytest.fixture
def log(namespace):
    return Keys(namespace).log("c-1")


@pytest.fixture
async def receipts(store):
    """The receipts of three decisions."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("refund", "refund", "refund"))
    return [await writer.do(resolve(one)) for one in (Approve(), Deny("no"), Approve(reason="it is due"))]


async def audit(store, *kept):
    return await report(lambda work: work(store), "c-1", kept_of(kept, "c-1"))


def rewrite(raw, log, changed):
    """Write the log anew, each entry as `changed` gives it for its place and fields; entries of None are left out."""
    entries = raw.redis.xrange(log)
    raw.redis.delete(log)
    for entry_id, fields in entries:
        seq = int(entry_id.split(b"-")[0])
        new = changed(seq, dict(fields))
        if new is not None:
            raw.redis.xadd(log, new, id=entry_id)


def with_fields(**changes):
    """What changes fields of a stored record."""

    def change(fields):
        version, kind, record = msgpack.unpackb(fields[b"e"])
        return fields | {b"e": msgpack.packb([version, kind, record | changes])}

    return change


async def test_an_untouched_log_is_intact(store, receipts):
    found = await audit(store, *receipts)
    assert (found.intact, found.head) == (True, receipts[-1].audit_head)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_decision_that_was_changed_in_redis_is_found_at_its_place(store, receipts, raw, log, place):
    seq = receipts[place].seq
    change = with_fields(principal={"id": "eve"})
    rewrite(raw, log, lambda at, fields: change(fields) if at == seq else fields)
    found = await audit(store, *receipts)
    assert (found.intact, found.broken_at) == (False, seq)
    assert [entry.problem is None for entry in found.entries] == [at != place for at in range(-1, 3)]


@pytest.mark.parametrize(
    "spoilt",
    [{b"e": b"rubbish"}, {b"x": b"y"}, {b"e": msgpack.packb([99, "suspension_settled", {}])}],
    ids=["rubbish", "nothing", "newer"],
)
async def test_a_row_that_cannot_be_read_is_told_with_its_place_and_the_rest_is_checked(store, receipts, raw, log, spoilt):
    seq = receipts[1].seq
    rewrite(raw, log, lambda at, fields: spoilt if at == seq else fields)
    found = await audit(store, receipts[0], receipts[2])
    assert (found.intact, found.broken_at) == (False, seq)
    _, *decisions = found.entries
    assert [entry.seq for entry in decisions] == [one.seq for one in receipts]
    assert decisions[1].problem
    assert found.head == receipts[2].audit_head


async def test_an_entry_that_was_removed_leaves_a_hole_that_is_found(store, receipts, raw, log):
    raw.redis.xdel(log, f"{receipts[1].seq}-0")
    found = await audit(store)
    assert (found.intact, found.broken_at) == (False, receipts[1].seq)


async def test_a_log_that_was_cut_off_is_found(store, receipts, raw, log):
    rewrite(raw, log, lambda at, fields: fields if at < receipts[2].seq else None)
    found = await audit(store, receipts[2])
    assert (found.intact, found.broken_at) == (False, receipts[2].seq)
    assert any("of a receipt" in one.problem for one in found.breaks)


async def test_a_log_that_is_no_log_any_more_makes_a_report_that_ends(store, receipts, raw, log):
    raw.redis.delete(log)
    raw.redis.set(log, "gone")
    found = await audit(store)
    assert (found.intact, found.broken_at) == (False, 1)
    assert len(found.entries) == READ_AT_ONCE


async def test_what_was_shown_is_held_against_its_decision(store, receipts, raw, log):
    found = await audit(store)
    (asked, *_) = [
        int(entry_id.split(b"-")[0])
        for entry_id, fields in raw.redis.xrange(log)
        if msgpack.unpackb(fields[b"e"])[1] == "call_suspended"
    ]
    change = with_fields(prompt="A harmless thing?")
    rewrite(raw, log, lambda at, fields: change(fields) if at == asked else fields)
    found = await audit(store)
    assert (found.intact, found.broken_at) == (False, asked)


async def test_an_encrypted_conversation_has_the_same_audit_and_needs_its_cipher(server, namespace, raw, log):
    async def opened(cipher):
        store = RedisStore(server.url, namespace=namespace, cipher=cipher)
        await store.open()
        return store

    sealed, plain, other = await opened(ToyCipher("one")), await opened(None), await opened(ToyCipher("two"))
    writer = await Writer.of(sealed, "c-1")
    await writer.do(start(), begin(), call("refund", "refund"))
    first, second = await writer.do(resolve(Approve())), await writer.do(resolve(Deny()))
    assert (await audit(sealed, first, second)).intact
    with pytest.raises(CipherMissing):
        await audit(plain)
    with pytest.raises(CipherFailed):
        await audit(other)
    entries = dict(raw.redis.xrange(log))
    swapped = {first.seq: entries[f"{second.seq}-0".encode()], second.seq: entries[f"{first.seq}-0".encode()]}
    rewrite(raw, log, swapped.get)
    found = await audit(sealed)
    assert (found.intact, found.broken_at) == (False, first.seq)
    for store in (sealed, plain, other):
        await store.close()
