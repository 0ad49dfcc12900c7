"""Ids: what is accepted, and how the machine mints its own."""

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation import ids

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
PARTS = st.lists(st.text(max_size=8), max_size=4)


@given(PARTS, PARTS)
def test_a_digest_tells_apart_where_its_parts_end(one, other):
    assert (ids.digest(*one) == ids.digest(*other)) == (one == other)


@given(st.lists(st.sampled_from(["a", "b", "", "x" * 41, "a b", "ü"]), max_size=8), st.sets(st.sampled_from(["k:a", "k:b"])))
def test_call_ids_are_well_formed_new_and_different(proposed, used):
    unique = ids.unique_call_ids(proposed, used, "c-1/t1.m1", "k:{}".format)
    assert len(unique) == len(proposed) == len(set(unique))
    assert all(CALL_ID.fullmatch(call_id) and f"k:{call_id}" not in used for call_id in unique)
    kept = [call_id for call_id, wish in zip(unique, proposed, strict=True) if call_id == wish]
    wished = {wish for wish in proposed if CALL_ID.fullmatch(wish) and f"k:{wish}" not in used}
    assert set(kept) == wished


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=200))
def test_a_conversation_id_from_a_message_id_is_one(message_id):
    derived = ids.conversation_id_from(message_id)
    assert ids.check_conversation_id(derived) == derived
    assert derived == ids.conversation_id_from(message_id)


def test_the_machines_ids_are_pinned():
    """What has been logged refers to them: a change needs a new record version."""
    assert ids.conversation_id_from("m-1") == "c-" + ids.digest("conversation", "m-1")
    assert ids.suspension_id("c-1", "call_1", 1, "{}") == "s-" + ids.digest("c-1", "call_1", "1", "{}")
    assert ids.digest("a", "bc") == "h6x2dtzpdgt4ceu35mqm"
