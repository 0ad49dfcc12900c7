"""Pages over the buckets: cursors, merging, and index members.

The functions check the caller's arguments: each raises `InvalidInput` for an unusable one.
"""

import heapq
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput

from .keys import BUCKETS

if TYPE_CHECKING:
    from holdfast.conversation.log.index import PendingEntry

MOST_SCANNED = 10_000
"""The most open suspensions that are searched for one id: the indexes are ordered by time."""
Fetch = Callable[[Sequence[int], int], Awaitable[Sequence[Sequence[str]]]]
_CURSOR = re.compile(r"([0-9]{1,15})\.([A-Za-z0-9._:-]{1,128})")
_RAW_BYTES = 512
"""The most bytes that a cursor holds of a member that Holdfast never wrote: enough to tell members apart."""
_RAW_CURSOR = re.compile(rf"x\.((?:[0-9a-f]{{2}}){{0,{_RAW_BYTES}}})(\+?)")
_NAME = "[A-Za-z0-9._:-]{1,128}"
_CONVERSATION_MEMBER = re.compile(rf"([0-9]{{15}})\|({_NAME})")
_PENDING_MEMBER = re.compile(rf"([0-9]{{15}})\|({_NAME})\|({_NAME})\|([0-9]{{1,15}})")


@dataclass(frozen=True, slots=True)
class PendingPlace:
    """A suspension as named by a pending index: its time (ms UTC), its id, its conversation and its `seq` there."""

    conversation_id: str = ""
    seq: int = 0
    suspension_id: str = ""
    created_at: int = 0


def pending_place(member: str) -> PendingPlace | None:
    """The suspension named by an index member; None if Holdfast never wrote the member."""
    found = _PENDING_MEMBER.fullmatch(member)
    return None if found is None else PendingPlace(found[3], int(found[4]), found[2], int(found[1]))


def conversation_place(member: str) -> tuple[int, str] | None:
    """The start (ms UTC) and id of the conversation named by an index member; None if Holdfast never wrote the member."""
    found = _CONVERSATION_MEMBER.fullmatch(member)
    return None if found is None else (int(found[1]), found[2])


def pending_member(conversation_id: str, entry: "PendingEntry") -> str:
    """The index member of an open suspension."""
    return f"{entry.created_at:015d}|{entry.suspension_id}|{conversation_id}|{entry.seq}"


def conversation_member(created_at: int, conversation_id: str) -> str:
    """The index member of a conversation."""
    return f"{created_at:015d}|{conversation_id}"


def is_name(text: str) -> bool:
    """Whether an index member can hold this id."""
    return re.fullmatch(_NAME, text) is not None


def check_limit(limit: object) -> int:
    """The page size, checked."""
    if isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= 1000:  # noqa: PLR2004 - the bound itself
        return limit
    raise InvalidInput("limit", f"{limit!r:.40} is not a page size", "use a whole number from 1 to 1000")


def check_scan(open_suspensions: int) -> None:
    """Refuse to search more than `MOST_SCANNED` open suspensions for an id."""
    if open_suspensions > MOST_SCANNED:
        problem = f"more than {MOST_SCANNED} calls wait: too many to search for one by its suspension alone"
        raise InvalidInput("conversation_id", problem, "name the conversation, too: PendingCall.conversation_id")


def pending_after(cursor: str | None) -> str:
    """The text after which a page of suspensions begins; '' for the first page."""
    start = conversations_after(cursor)
    if not start or _RAW_CURSOR.fullmatch(cursor or ""):
        return start
    return f"{start}|\xff"  # sorts after every member of this start and id


def conversations_after(cursor: object) -> str:
    """The member after which a page of conversations begins; '' for the first page."""
    if cursor is None:
        return ""
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    raw = _RAW_CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if raw is not None:
        return (bytes.fromhex(raw[1]).decode("latin-1") or "\0") + ("\xff" * _RAW_BYTES if raw[2] else "")
    if match is None:
        raise InvalidInput("after", f"{cursor!r:.60} is not a cursor", "pass the `next` of the page before, or leave it out")
    return conversation_member(int(match[1]), match[2])


def cursor_of(member: str, *, readable: bool = True) -> str:
    """The cursor after a member; for a member that Holdfast never wrote (not `readable`) it holds the member's bytes."""
    if not readable:
        raw = member.encode("latin-1", "replace")
        return f"x.{raw[:_RAW_BYTES].hex()}{'+' if len(raw) > _RAW_BYTES else ''}"
    created_at, name = member.split("|")[:2]
    return f"{int(created_at)}.{name}"


async def merge(fetch: Fetch, limit: int) -> tuple[list[str], bool]:
    """The first `limit` members over all buckets, and whether more follow. Members are texts of one character per byte.

    `fetch` returns each given bucket's first members in order, up to a cap. The first look takes a few of each bucket, and only
    buckets whose few are all on the page are asked for more: a page costs about the same however many members there are.
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
