"""The audit of a conversation: its chain of decisions, read from the log page by page and checked."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from holdfast.conversation import Cancelled, Event, Receipt, State
from holdfast.conversation.log.auditing import AuditEntry
from holdfast.conversation.log.chain import AuditBreak, ChainCheck
from holdfast.errors import CipherFailed, CorruptStore, InvalidInput, NewerRecord, StoreError
from holdfast.persistence import Store

READ_AT_ONCE = 100
"""How many events are read at once: each may be as large as a message."""
MOST_KEPT = 1000
UNREADABLE = (CorruptStore, NewerRecord, CipherFailed)
"""Errors that concern single entries of a log; all others end the audit."""
VERDICT = "audit_report"
"""The `kind` of the last line of an export."""
_HEAD = re.compile(r"[0-9a-f]{64}")

Read: TypeAlias = Callable[[Callable[[Store], Awaitable[Any]]], Awaitable[Any]]
"""A function that does some work on the store, within a deadline."""
Kept: TypeAlias = Receipt | Cancelled | str
"""What a person keeps of a message or decision: its receipt, or the receipt's head (`Receipt.audit_head`)."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the audit of one conversation found.

    Attributes:
        entries: The messages and decisions, in the order of the log; an unreadable one has a `problem` and nothing else.
        head: The head of the chain; empty if an older release wrote all of it.
        breaks: The places where the chain does not hold, at most 100; empty if it is intact.
    """

    conversation_id: str
    entries: list[AuditEntry]
    head: str
    breaks: list[AuditBreak] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """Whether every link holds, the chain leads to the conversation's state, and it has the heads that were looked for."""
        return not self.breaks

    @property
    def broken_at(self) -> int | None:
        """The first place in the log where the chain does not hold; None if none is known."""
        return min((one.seq for one in self.breaks if one.seq is not None), default=None)

    def verdict(self) -> dict[str, Any]:
        """All but the entries, as plain JSON values: the last line of an export."""
        return {"kind": VERDICT, **self._found()}

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return {**self._found(), "entries": [entry.to_dict() for entry in self.entries]}

    def _found(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("conversation_id", "head", "intact", "broken_at")}
        return {**found, "breaks": [asdict(one) for one in self.breaks]}


def kept_of(receipts: object, conversation_id: str) -> dict[str, int | None]:
    """The heads to look for, each with the place that its receipt names; `InvalidInput` if they are no such receipts."""
    if isinstance(receipts, str | Receipt | Cancelled):
        receipts = [receipts]
    if not isinstance(receipts, Iterable):
        raise InvalidInput("receipts", f"{receipts!r:.40} is no list", "give receipts, or their audit_head")
    given = list(receipts)
    if len(given) > MOST_KEPT:
        raise InvalidInput("receipts", f"there are {len(given)}", f"give {MOST_KEPT} at most")
    return dict(_head_of(one, conversation_id) for one in given)


def _head_of(one: object, conversation_id: str) -> tuple[str, int | None]:
    head = one.audit_head if isinstance(one, Receipt | Cancelled) else one
    if not isinstance(head, str) or not _HEAD.fullmatch(head):
        problem = f"{head!a:.80} is the head of no audit chain"
        raise InvalidInput("receipts", problem, "give receipts, or their audit_head: 64 hexadecimal digits")
    if isinstance(one, Receipt | Cancelled) and one.conversation_id != conversation_id:
        raise InvalidInput("receipts", f"one is of {one.conversation_id!a:.140}", "give receipts of this conversation")
    return head, one.seq if isinstance(one, Receipt) else None


async def audited(read: Read, check: ChainCheck) -> AsyncGenerator[AuditEntry, None]:
    """The entries of a conversation's chain; at their end, `check` knows what is wrong."""
    name, readable = check.conversation_id, 0
    state: State | None = None
    why: StoreError | None = None
    try:
        state = await read(lambda store: store.load(name))
    except UNREADABLE as error:
        why = error
    while True:
        page: Sequence[tuple[int, Event | StoreError]] = await read(lambda store: _page(store, name, check.seq))
        for seq, event in page:
            if isinstance(event, StoreError):
                yield check.unreadable(seq, str(event)[:300])
                continue
            readable += 1
            entry = check.add(seq, event)
            if state is not None:
                check.standing(state)
            if entry is not None:
                yield entry
        if isinstance(why, CipherFailed) and not readable:
            raise why
        if not page or all(isinstance(event, StoreError) for _, event in page):
            break
    if why is not None:
        check.note(None, f"the conversation's state cannot be read: {str(why)[:300]}")
    check.done(0 if state is None else state.seq)


async def _page(store: Store, conversation_id: str, after: int) -> Sequence[tuple[int, Event | StoreError]]:
    """The next entries of the log; an unreadable one is replaced by its error."""
    try:
        return list(await store.read(conversation_id, after=after, limit=READ_AT_ONCE))
    except UNREADABLE:
        pass
    found: list[tuple[int, Event | StoreError]] = []
    while len(found) < READ_AT_ONCE:
        try:
            rows = await store.read(conversation_id, after=after, limit=1)
        except UNREADABLE as error:
            after += 1
            found.append((after, error))
            continue
        if not rows:
            break
        found += rows
        after = rows[-1][0]
    return found


async def report(read: Read, conversation_id: str, kept: Mapping[str, int | None]) -> AuditReport:
    """The whole audit of a conversation; `audited` describes the errors."""
    check = ChainCheck(conversation_id, kept)
    return report_of(check, [entry async for entry in audited(read, check)])


def report_of(check: ChainCheck, entries: list[AuditEntry]) -> AuditReport:
    """The report of a finished check."""
    return AuditReport(check.conversation_id, entries, check.head, list(check.breaks))


async def lines(
    read: Read, *, conversation_id: str, receipts: Mapping[str, int | None], after: int
) -> AsyncGenerator[dict[str, Any], None]:
    """The entries after a place in the log as lines of an export; the last line is the verdict on the whole chain."""
    check = ChainCheck(conversation_id, receipts)
    async for entry in audited(read, check):
        if entry.seq > after:
            yield entry.to_dict()
    yield report_of(check, []).verdict()
