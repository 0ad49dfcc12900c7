"""Pages over the buckets: cursors, merging, and index members.

The functions check the caller's arguments: each raises `InvalidInput` for an unusable one.
"""

import heapq
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput

from .keys import BUCKETS, index_name

if TYPE_CHECKING:
    from holdfast.conversation.log.index import PendingEntry

Fetch = Callable[[Sequence[int], int], Awaitable[Sequence[Sequence[str]]]]
_CURSOR = re.compile(r"([0-9]{1,15})\.([A-Za-z0-9._:-]{1,128})")
_RAW_BYTES = 512
"""The most bytes that a cursor holds of a member that Holdfast never wrote: enough to tell members apart."""
_RAW_CURSOR = re.compile(rf"x\.((?:[0-9a-f]{{2}}){{0,{_RAW_BYTES}}})(\+?)")
_NAME = "[A-Za-z0-9._:-]{1,128}"
_CONVERSATION_MEMBER = re.compile(rf"([0-9]{{15}})\|({_NAME})")
_PENDING_MEMBER = re.compile(rf"([0-9]{{15}})\|({_NAME})\|({_NAME})\|([0-9]{{1,15}})")
_ID_MEMBER = re.compile(rf"({_NAME})\|\|({_NAME})")
BY_ID, BY_DEADLINE, BY_TOOL, BY_DECIDER = "i", "e", "t:", "w:"
"""The pending indexes beside those by agent and kind: in order of the ids, in order of the deadlines, and by name."""
SHORTEST_ID = 6
"""The least characters of a suspension's id by which it is found."""


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


def further_members(conversation_id: str, entry: "PendingEntry") -> Iterator[tuple[str, str]]:
    """The names of the pending indexes that hold an open suspension besides those by agent and kind, and its member of each."""
    member = pending_member(conversation_id, entry)
    yield BY_ID, f"{entry.suspension_id}||{conversation_id}"
    yield BY_DEADLINE, f"{entry.expires_at:015d}{member[15:]}"
    yield f"{BY_TOOL}{entry.tool}", member
    for name in entry.who or ("",):
        yield f"{BY_DECIDER}{name}", member


def pending_members(conversation_id: str, agent: str, entries: Iterable["PendingEntry"]) -> Iterator[tuple[str, str]]:
    """The names of the pending indexes that hold these open suspensions of one conversation, each with a member."""
    for entry in entries:
        for of_agent, kind in product((None, agent), (None, entry.kind.value)):
            yield index_name("pending", of_agent, kind), pending_member(conversation_id, entry)
        yield from ((f"pending:{name}", member) for name, member in further_members(conversation_id, entry))


def place_by_id(member: str) -> PendingPlace | None:
    """The id and conversation of a suspension named by a member of the index by id; None if Holdfast never wrote the member."""
    found = _ID_MEMBER.fullmatch(member)
    return None if found is None else PendingPlace(found[2], suspension_id=found[1])


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


def ambiguous(beginning: str, ids: Sequence[str]) -> InvalidInput:
    """The error for the beginning of several suspensions' ids."""
    problem = f"{beginning!r:.80} is the beginning of several: {', '.join(ids)}"
    return InvalidInput("suspension_id", problem, "give more of the id, or the conversation, too")


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


async def merge(fetch: Fetch, limit: int, sources: int = BUCKETS) -> tuple[list[str], bool]:
    """The first `limit` members over all sources, and whether more follow. Members are texts of one character per byte.

    A source is one index of a bucket; a member of several sources is one member. `fetch` returns each given source's first
    members in order, up to a cap. The first look takes a few of each, and only sources whose few are all on the page are asked
    for more: a page costs about the same however many members there are.
    """
    cap = max(4, 2 * (limit + 1) // sources + 2)
    found = dict(enumerate(await fetch(range(sources), cap)))
    while True:
        merged = [member for member, _ in groupby(heapq.merge(*found.values()))]
        page = merged[: limit + 1]
        last = page[-1] if len(page) > limit else None
        short = [source for source, members in found.items() if len(members) >= cap and (last is None or members[-1] < last)]
        if not short or cap > limit:
            return page[:limit], len(merged) > limit
        cap = limit + 1
        found |= dict(zip(short, await fetch(short, cap), strict=True))
