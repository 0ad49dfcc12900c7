"""Pages over the buckets: cursors, merging, and the reading of index members.

What a caller hands in is checked here: each of these functions raises `InvalidInput` for what cannot be used.
"""

import heapq
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import InvalidInput

from .keys import BUCKETS

MOST_SCANNED = 10_000
"""Among how many open suspensions one is looked for by its id alone: the indexes are ordered by time."""
Fetch = Callable[[Sequence[int], int], Awaitable[Sequence[Sequence[str]]]]
_CURSOR = re.compile(r"([0-9]{1,15})\.([A-Za-z0-9._:-]{1,128})")
_RAW_BYTES = 512
"""How many bytes of a member that Holdfast never wrote stand in its cursor: enough to tell it from Holdfast's members."""
_RAW_CURSOR = re.compile(rf"x\.((?:[0-9a-f]{{2}}){{0,{_RAW_BYTES}}})(\+?)")
_NAME = "[A-Za-z0-9._:-]{1,128}"
_CONVERSATION_MEMBER = re.compile(rf"([0-9]{{15}})\|({_NAME})")
_PENDING_MEMBER = re.compile(rf"([0-9]{{15}})\|({_NAME})\|({_NAME})\|([0-9]{{1,15}})")


@dataclass(frozen=True, slots=True)
class PendingPlace:
    """A suspension as a member of a pending index names it: its time (ms UTC), its id, its conversation and its `seq` there."""

    conversation_id: str = ""
    seq: int = 0
    suspension_id: str = ""
    created_at: int = 0


def pending_place(member: str) -> PendingPlace | None:
    """The suspension that a member of a pending index names; None if Holdfast never wrote the member."""
    found = _PENDING_MEMBER.fullmatch(member)
    return None if found is None else PendingPlace(found[3], int(found[4]), found[2], int(found[1]))


def conversation_place(member: str) -> tuple[int, str] | None:
    """The start (ms UTC) and the id of the conversation that an index member names; None if Holdfast never wrote the member."""
    found = _CONVERSATION_MEMBER.fullmatch(member)
    return None if found is None else (int(found[1]), found[2])


def is_name(text: str) -> bool:
    """Whether a member of an index can hold this id."""
    return re.fullmatch(_NAME, text) is not None


def check_limit(limit: object) -> int:
    """The page size itself, once it is checked."""
    if isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= 1000:  # noqa: PLR2004 - the bound itself
        return limit
    raise InvalidInput("limit", f"{limit!r:.40} is not a page size", "use a whole number from 1 to 1000")


def check_scan(open_suspensions: int) -> None:
    """Refuse to look for one of so many open suspensions by its id alone."""
    if open_suspensions > MOST_SCANNED:
        problem = f"more than {MOST_SCANNED} calls wait, and none of so many is looked for by its suspension alone"
        raise InvalidInput("conversation_id", problem, "name the conversation, too: PendingCall.conversation_id")


def pending_after(cursor: str | None) -> str:
    """The text after which a page of suspensions begins; '' for the first page."""
    start = conversations_after(cursor)
    if not start or _RAW_CURSOR.fullmatch(cursor or ""):
        return start
    return f"{start}|\xff"  # a member goes on with the conversation and the place in its log


def conversations_after(cursor: object) -> str:
    """The whole member after which a page of conversations begins; '' for the first page."""
    if cursor is None:
        return ""
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    raw = _RAW_CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if raw is not None:
        return (bytes.fromhex(raw[1]).decode("latin-1") or "\0") + ("\xff" * _RAW_BYTES if raw[2] else "")
    if match is None:
        raise InvalidInput("after", f"{cursor!r:.60} is not a cursor", "pass the `next` of the page before, or leave it out")
    return f"{int(match[1]):015d}|{match[2]}"


def cursor_of(member: str, *, readable: bool = True) -> str:
    """The cursor that continues after a member; that of a member that Holdfast never wrote (not `readable`) holds its bytes."""
    if not readable:
        raw = member.encode("latin-1", "replace")
        return f"x.{raw[:_RAW_BYTES].hex()}{'+' if len(raw) > _RAW_BYTES else ''}"
    created_at, name = member.split("|")[:2]
    return f"{int(created_at)}.{name}"


async def merge(fetch: Fetch, limit: int) -> tuple[list[str], bool]:
    """The first `limit` members over all buckets, and whether more follow. Members are text of one character for each byte.

    Args:
        fetch: Given buckets and a cap, each bucket's first members in order, at most that many.
        limit: The page size.

    A first look takes a few members from each bucket; only buckets whose few are all on the page are asked for more, so a page
    costs about the same however many members there are.
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
