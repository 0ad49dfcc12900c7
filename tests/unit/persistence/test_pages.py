"""Merging buckets into pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.persistence import pages
from holdfast.persistence.keys import BUCKETS

members = st.lists(
    st.tuples(st.integers(0, BUCKETS - 1), st.integers(0, 40), st.text("ab-1", min_size=1, max_size=3)),
    max_size=150,
    unique_by=lambda one: one[1:],
)


class Buckets:
    """Sorted lists that count what they are asked for."""

    def __init__(self, entries):
        self.lists = [[] for _ in range(BUCKETS)]
        for bucket, moment, name in entries:
            self.lists[bucket].append(f"{moment:015d}|{name}")
        for one in self.lists:
            one.sort()
        self.rounds = 0
        self.given = 0

    def after(self, start):
        async def fetch(buckets, cap):
            self.rounds += 1
            found = [[member for member in self.lists[bucket] if member > start][:cap] for bucket in buckets]
            self.given += sum(map(len, found))
            return found

        return fetch


@given(entries=members, limit=st.integers(1, 60))
async def test_pages_are_the_sorted_whole_cut_up(entries, limit):
    buckets = Buckets(entries)
    whole = sorted(f"{moment:015d}|{name}" for _, moment, name in entries)
    seen, cursor = [], None
    while True:
        page, more = await pages.merge(buckets.after(pages.conversations_after(cursor)), limit)
        seen += page
        assert len(page) == limit if more else len(page) <= limit
        if not more:
            break
        cursor = pages.cursor_of(page[-1])

    assert seen == whole


@pytest.mark.parametrize("limit", [1, 50, 1000])
@pytest.mark.parametrize("spread", ["even", "one bucket"])
async def test_a_page_takes_two_rounds_and_little_more_than_it_shows(limit, spread):
    entries = [(number % BUCKETS if spread == "even" else 5, number, "x") for number in range(20_000)]
    buckets = Buckets(entries)

    page, more = await pages.merge(buckets.after(""), limit)

    assert more
    assert page == [f"{number:015d}|x" for number in range(limit)]
    assert buckets.rounds <= 2
    assert buckets.given <= 5 * limit + 8 * BUCKETS


@pytest.mark.parametrize("cursor", ["0.a", "1700000000000.s-abc", "999999999999999." + "x" * 128])
def test_a_cursor_leads_back_to_its_member(cursor):
    member = pages.conversations_after(cursor)

    assert pages.cursor_of(member) == cursor
    assert pages.cursor_of(member + "|c-1|5") == cursor
    assert pages.pending_after(cursor) > member + "|c-1|5"


def test_the_first_page_has_no_cursor():
    assert pages.conversations_after(None) == pages.pending_after(None) == ""


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.", ".x", "1.x|y", "1.ü", "-1.x", 5, b"1.x", "1.x\n", "1234567890123456.x"])
@pytest.mark.parametrize("read", [pages.pending_after, pages.conversations_after])
def test_what_is_no_cursor_is_refused(read, cursor):
    with pytest.raises(InvalidInput) as refused:
        read(cursor)

    assert refused.value.field == "after"


@pytest.mark.parametrize("limit", [1, 50, 1000])
def test_a_page_size_may_be(limit):
    assert pages.check_limit(limit) == limit


@pytest.mark.parametrize("limit", [0, -5, 1001, 2.0, "5", None, True])
def test_a_page_size_may_not_be(limit):
    with pytest.raises(InvalidInput) as refused:
        pages.check_limit(limit)

    assert refused.value.field == "limit"
