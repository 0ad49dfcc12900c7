"""What `append.lua` is told: a field that is missing, or of another type, is refused before anything is written."""

import msgpack
import pytest
from writer import Writer, begin, start

from holdfast.errors import CorruptStore
from holdfast.persistence import codec, redis_values
from holdfast.persistence.keys import Keys

NEEDED = "token append_id conversation prefix expected lease_ms events index busy progress absent known passing most_passing"
REQUIRED = [*NEEDED.split(), "passing_ms", "add", "remove", "opened", "closed", "noted"]
WRONG = {
    "due": -1,
    "grants": "1",
    "snapshot": 7,
    "known": ["m:m-1"],
    "opened": ["approval"],
    "token": "",
    "lease_ms": 1.5,
    "claim": 7,
}


async def told(store):
    """A conversation that has begun, and all that its next append is told."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start())
    write = writer.judged(begin(), now=1)
    fields, _ = redis_values.append_args("c-1", Keys(store.namespace).prefix("c-1"), write, store.payloads)
    return fields


async def refused(store, packed):
    before = await store.load("c-1")
    with pytest.raises(CorruptStore, match="arguments"):
        await store._on("c-1", "append", packed)
    assert await store.load("c-1") == before


@pytest.mark.parametrize("name", REQUIRED)
async def test_an_append_that_lacks_a_field_writes_nothing(store, name):
    fields = await told(store)
    assert name in fields
    await refused(store, codec.pack_raw({one: value for one, value in fields.items() if one != name}))


@pytest.mark.parametrize("name", WRONG)
async def test_an_append_with_a_wrong_field_writes_nothing(store, name):
    await refused(store, codec.pack_raw(await told(store) | {name: WRONG[name]}))


@pytest.mark.parametrize("packed", [b"", b"\xc1", msgpack.packb("text"), msgpack.packb(7)])
async def test_an_append_that_is_told_no_map_writes_nothing(store, packed):
    await told(store)
    await refused(store, packed)


async def test_an_append_with_all_its_fields_is_written(store):
    assert (await store._on("c-1", "append", codec.pack_raw(await told(store))))[0] == b"ok"
