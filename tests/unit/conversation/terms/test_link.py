"""The signed texts of links: what they say, what changes them, and by which keys."""

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation import Principal, Proof
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.link import MOST_CHARS, LinkKeys, LinkTerms
from holdfast.errors import ConfigurationError, InvalidInput, InvalidLink

KEYS = LinkKeys({"k2": b"2" * 32, "k1": b"1" * 32}, "store-1", "holdfast")
TERMS = LinkTerms(
    *("c-1", "s-abcdefghijklmnopqrst", "0" * 32, Principal("ana", roles=["finance"], proof=Proof.LINK)),
    *((DecisionKind.APPROVE, DecisionKind.DENY), 1_800_000_000_000, "nonce"),
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@given(who=NAMES, roles=st.lists(NAMES, max_size=3), kinds=st.sets(st.sampled_from(DecisionKind), min_size=1))
def test_a_token_says_what_it_was_made_of(who, roles, kinds):
    terms = replace(TERMS, principal=Principal(who, roles=roles, proof=Proof.LINK), decisions=tuple(kinds))
    assert KEYS.opened(KEYS.signed(terms)) == terms


def test_a_token_with_any_bit_flipped_is_refused():
    token = KEYS.signed(TERMS)
    for place, char in enumerate(token):
        for bit in range(8):
            changed = f"{token[:place]}{chr(ord(char) ^ 1 << bit)}{token[place + 1 :]}"
            with pytest.raises(InvalidLink) as refused:
                KEYS.opened(changed)
            assert refused.value.reason in ("malformed", "key")


def test_a_token_of_which_a_part_is_cut_off_added_or_another_link_s_is_refused():
    token, other = KEYS.signed(TERMS), KEYS.signed(replace(TERMS, nonce="other"))
    (key, text, signature), (_, another, _) = token.split("."), other.split(".")
    changed = [token[:end] for end in range(len(token))]
    changed += [f"{token}{one}" for one in string.ascii_letters + "=.\n "]
    changed += [f"{key}.{another}.{signature}", f"k1.{text}.{signature}", f"{key}.{text}=.{signature}", f" {token}"]
    for one in changed:
        with pytest.raises(InvalidLink):
            KEYS.opened(one)


def test_a_token_is_for_one_namespace_of_one_store():
    token = KEYS.signed(TERMS)
    for keys in (
        replace(KEYS, store_id="store-2"),
        replace(KEYS, namespace="other"),
        replace(KEYS, store_id="store-", namespace="1holdfast"),
    ):
        with pytest.raises(InvalidLink, match="malformed"):
            keys.opened(token)


def test_a_token_ends_at_its_time():
    terms = KEYS.opened(KEYS.signed(TERMS))
    assert terms.check_time(TERMS.expires_at - 1) == TERMS
    with pytest.raises(InvalidLink, match="expired"):
        terms.check_time(TERMS.expires_at)


def test_the_longest_ids_fit_and_longer_names_are_refused():
    largest = replace(
        TERMS, conversation_id="c" * 128, principal=Principal("a" * 80, roles=["b" * 40], proof=Proof.LINK), nonce="n" * 22
    )
    assert len(KEYS.signed(replace(largest, decisions=tuple(DecisionKind)))) <= MOST_CHARS
    with pytest.raises(InvalidInput, match=r"to: the link would have .* 700 are allowed"):
        KEYS.signed(replace(largest, principal=Principal("a" * 200, roles=["b" * 200], proof=Proof.LINK)))


def test_keys_are_needed_and_shown_nowhere():
    with pytest.raises(ConfigurationError, match="HOLDFAST_LINK_KEYS"):
        LinkKeys({}, "store-1", "holdfast")
    assert "222" not in repr(KEYS)


def test_the_token_of_a_form_is_of_one_link_and_no_link_itself():
    token, other = KEYS.signed(TERMS), KEYS.signed(replace(TERMS, nonce="other"))
    assert len({KEYS.form_token(token), KEYS.form_token(other), token.split(".")[2], other.split(".")[2]}) == 4
