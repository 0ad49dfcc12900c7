"""Key names and buckets: stored for ever, so they are pinned."""

import binascii
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.persistence.keys import BUCKETS, STORE_ID, Keys, bucket_of
from holdfast.settings import check_namespace

KEYS = Keys("holdfast")


@pytest.mark.parametrize(
    ("conversation_id", "bucket"),
    [("c-1", 51), ("a", 7), ("support:42", 10), ("x" * 128, 23), ("c-8", 26), ("123456789", 0x31C3 % 64)],
)
def test_a_conversation_stays_in_its_bucket(conversation_id, bucket):
    assert bucket_of(conversation_id) == bucket


def test_the_checksum_is_the_one_of_redis_cluster():
    assert binascii.crc_hqx(b"123456789", 0) == 0x31C3  # from the Redis Cluster specification


@given(st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-", min_size=1, max_size=128))
def test_every_id_has_a_bucket(conversation_id):
    assert 0 <= bucket_of(conversation_id) < BUCKETS


def test_ids_are_spread_over_the_buckets():
    counts = [0] * BUCKETS
    for number in range(64_00):
        counts[bucket_of(f"c-{number}")] += 1

    assert min(counts) > 50
    assert max(counts) < 150


def test_the_names_are_these():
    assert BUCKETS == 64
    assert STORE_ID == "holdfast:store-id"
    assert KEYS.head("c-1") == "{holdfast:51}:c:c-1:head"
    assert KEYS.log("c-1") == "{holdfast:51}:c:c-1:log"
    assert KEYS.known("c-1") == "{holdfast:51}:c:c-1:known"
    assert KEYS.passing("c-1") == "{holdfast:51}:c:c-1:passing"
    assert KEYS.runs("c-1") == "{holdfast:51}:c:c-1:runs"
    assert KEYS.clients("c-1") == "{holdfast:51}:c:c-1:clients"
    assert KEYS.here("c-1") == "{holdfast:51}:c:c-1:here"
    assert KEYS.live("c-1") == "{holdfast:51}:c:c-1:live"
    assert KEYS.attention(7) == "{holdfast:07}:attention"
    assert KEYS.pending(7, None, None) == "{holdfast:07}:pending"
    assert KEYS.pending(7, "desk", None) == "{holdfast:07}:pending:a:desk"
    assert KEYS.pending(7, None, "approval") == "{holdfast:07}:pending:x:approval"
    assert KEYS.pending(7, "desk", "approval") == "{holdfast:07}:pending:ax:desk:approval"
    assert KEYS.conversations(7, "desk", "idle") == "{holdfast:07}:conversations:ax:desk:idle"
    assert KEYS.meta("apps") == "{holdfast:meta}:apps"


def test_what_one_script_touches_shares_a_slot():
    """The text between the first braces decides the slot of a Redis Cluster."""
    names = [KEYS.head("c-1"), KEYS.log("c-1"), KEYS.known("c-1"), KEYS.runs("c-1"), KEYS.prefix("c-1")]
    names += [KEYS.attention(bucket_of("c-1")), KEYS.pending(51, "a", "b"), KEYS.conversations(51, None, None)]

    assert {re.search(r"\{(.*?)\}", name)[1] for name in names} == {"holdfast:51"}


def test_two_conversations_share_no_key():
    """Not even where one id looks like a key of another."""
    names = [
        name
        for one in ("a", "a:head", "a:log", "a:head:head", "c:a")
        for name in (KEYS.head(one), KEYS.log(one), KEYS.known(one), KEYS.runs(one), f"{KEYS.log(one)}:copy")
    ]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("namespace", ["a", "0", "holdfast", "team-a_2", "x" * 63])
def test_a_namespace_may_be(namespace):
    assert check_namespace(namespace) == namespace


@pytest.mark.parametrize("namespace", ["", "-a", "_a", "A", "a b", "a:b", "a{b", "x" * 64, "ä", "a\n", None, 1, b"a"])
def test_a_namespace_may_not_be(namespace):
    with pytest.raises(ConfigurationError) as refused:
        check_namespace(namespace)

    assert refused.value.field == "namespace"
    assert "63" in refused.value.fix
