"""Pages over the buckets: cursors, merging, and what an index member says."""

import heapq
import re
from collections.abc import Awaitable, Callable, Sequence

from holdfast.conversation import InvalidInput

from .keys import BUCKETS

Fetch = Callable[[Sequence[int], int], Awaitable[Sequence[Sequence[str]]]]
_CURSOR = re.compile(r"(\d{1,15})\.([A-Za-z0-9._:-]{1,128})")


def check_limit(limit: object) -> int:
    """The page size, if it is one.

    Raises:
        InvalidInput: It is not a whole number from 1 to 1000.
    """
    if isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= 1000:  # noqa: PLR2004 - the bound itself
        return limit
    raise InvalidInput("limit", f"{limit!r:.40} is not a page size", "use a whole number from 1 to 1000")


def pending_after(cursor: str | None) -> str:
    """The text after which a page of suspensions begins; '' for the first page.

    Raises:
        InvalidInput: The cursor is none of ours.
    """
    start = conversations_after(cursor)
    return f"{start}|\xff" if start else ""  # a member goes on with the conversation and the place in its log


def conversations_after(cursor: str | None) -> str:
    """The text after which a page of conversations begins, the whole member; '' for the first page.

    Raises:
        InvalidInput: The cursor is none of ours.
    """
    if cursor is None:
        return ""
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if match is None:
        raise InvalidInput("after", f"{cursor!r:.60} is not a cursor", "pass the `next` of the page before, or leave it out")
    return f"{int(match[1]):015d}|{match[2]}"


def cursor_of(member: str) -> str:
    """The cursor that continues after a member."""
    created_at, name = member.split("|")[:2]
    return f"{int(created_at)}.{name}"


async def merge(fetch: Fetch, limit: int) -> tuple[list[str], bool]:
    """The first `limit` members over all buckets, and whether more follow.

    Args:
        fetch: Given buckets and a cap, each bucket's first members in order, at most that many.
        limit: The page size.

    A first look takes a few from each bucket; only buckets whose few are all on the page are asked for more, so a page costs
    about the same however many members there are.
    """
    cap = max(4, 2 * (limit + 1) // BUCKETS + 2)
    found = dict(enumerate(await fetch(range(BUCKETS), cap)))
    while True:
        merged = list(heapq.merge(*found.values()))
        page = merged[: limit + 1]
        last = page[-1] if len(page) > limit else None
        short = [bucket for bucket, members in found.items() if len(members) >= cap and (last is None or members[-1] < last)]
        if not short or cap > limit:
            return page[:limit], len(merged) > limit
        cap = limit + 1
        found |= dict(zip(short, await fetch(short, cap), strict=True))
