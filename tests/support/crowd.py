"""Many conversations at once, and whole lists of them, page by page."""

from collections.abc import Awaitable, Callable
from typing import Any

from writer import Writer, begin, call, start

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.persistence import ConversationRow, Conversations, Listing, Lists

BEGAN_AT = 1_700_000_000_000


async def walk(page: Callable[[str | None], Awaitable[Listing]], limit: int) -> list[Any]:
    """Every item of a list, page by page; each page but the last is full."""
    items: list[Any] = []
    after: str | None = None
    while True:
        found = await page(after)
        items += found.items
        if found.next is None:
            assert len(found.items) <= limit
            return items
        assert len(found.items) == limit
        after = found.next


async def pending(
    store: Lists, limit: int = 7, agent: str | None = None, kind: SuspensionKind | None = None
) -> list[PendingView]:
    """Every pending call, page by page."""
    return await walk(lambda after: store.pending(limit=limit, after=after, agent=agent, kind=kind), limit)


async def conversations(
    store: Lists, limit: int = 7, agent: str | None = None, status: Status | None = None
) -> list[ConversationRow]:
    """Every conversation, page by page."""
    return await walk(lambda after: store.conversations(limit=limit, after=after, agent=agent, status=status), limit)


async def crowd(store: Conversations, count: int, *, apart_ms: int = 1) -> list[Writer]:
    """Many conversations of two agents, all suspended: each waits for an answer, an approval or both."""
    made = []
    for number in range(count):
        writer = await Writer.of(store, f"crowd-{number}")
        tools = (("ask",), ("refund",), ("ask", "refund"))[number % 3]
        agent = "sales" if number % 4 == 0 else "desk"
        await writer.do(start(agent=agent), begin(), call(*tools), now=BEGAN_AT + apart_ms * number)
        made.append(writer)
    return made
