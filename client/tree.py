"""The tree of a conversation: the conversations that it and those below it have delegated to, and the calls that wait there.

A tree is walked from its root. Children that a call waits for are found in the state; those that are over, in the log of the
present or last turn.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from holdfast.conversation import State, Status, SuspensionKind
from holdfast.conversation.log.index import pending_entries
from holdfast.conversation.records.events import CallSuspended, TurnStarted
from holdfast.conversation.terms.delegation import MOST_DEPTH
from holdfast.errors import ConversationNotFound, StoreError, StoreUnavailable
from holdfast.persistence import Conversations, Listing, Store
from holdfast.persistence.pages import PendingPlace, conversation_member, cursor_of, pending_after
from holdfast.persistence.selection import Selection
from holdfast.persistence.views import shown

from .results import Result

MOST_NODES = 1000
"""The most conversations of a tree that are looked at."""
AT_ONCE = 16
READ_AT_ONCE, MOST_READS = 500, 20
"""How many entries of a turn are read at once, and how many reads its children are looked for in."""
NOT_STARTED = "it has not started yet"
GONE = "it was never started, or is gone"
ANOTHER = "another conversation has its id"


class Node(Result):
    """A conversation in a tree, with those that its present turn, or its last one, has delegated to.

    A child that cannot be shown says so in its `problem`: then only what its parent's call says of it is known.
    """

    conversation_id: str
    agent: str = Field(default="", description="The name of the conversation's agent.")
    status: Status | None = Field(default=None, description="Its status; None if it cannot be shown.")
    pending: int = Field(default=0, description="How many of its own calls wait for a decision.")
    children: list["Node"] = Field(default_factory=list, description="Those that it has delegated to, in the model's order.")
    tool_call_id: str = Field(default="", description="The parent's call that it was started for; empty at the root.")
    waited_for: bool = Field(default=False, description="Whether that call waits for it.")
    problem: str | None = Field(
        default=None,
        description="Why it or its children cannot be shown: not started yet, gone, unreadable, or not for you.",
    )
    left_out: int = Field(default=0, description="How many of its children are left out, since the tree is too large.")

    def walk(self) -> Iterator["Node"]:
        """The node and all nodes below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(slots=True)
class _Found:
    """A conversation in a tree, as its parent's call names it, with its state once it is read."""

    conversation_id: str
    agent: str = ""
    tool_call_id: str = ""
    suspension_id: str = ""
    waited_for: bool = False
    state: State | None = None
    quarantined: bool = False
    problem: str | None = None
    children: list["_Found"] = field(default_factory=list)
    left_out: int = 0

    def node(self) -> Node:
        """The conversation as a client shows it."""
        state = self.state
        status = None if state is None else Status.QUARANTINED if self.quarantined else state.status
        return Node(
            conversation_id=self.conversation_id,
            agent=self.agent if state is None else state.agent,
            status=status,
            pending=0 if state is None else len(pending_entries(state)),
            children=[child.node() for child in self.children],
            tool_call_id=self.tool_call_id,
            waited_for=self.waited_for,
            problem=self.problem,
            left_out=self.left_out,
        )


async def tree(store: Store, conversation_id: str) -> Node:
    """See `Conversation.tree`."""
    root = _Found(conversation_id, state=await store.load(conversation_id))
    root.quarantined = await store.quarantine(conversation_id) is not None
    async for _ in _walked(store, root, over=True):
        pass
    return root.node()


async def _walked(store: Store, root: _Found, *, over: bool) -> AsyncIterator[_Found]:
    """The conversations of a tree, level by level; `over`: also those that no call waits for any more."""
    level, left = [root], MOST_NODES - 1
    await _grow(store, root, over=over)
    for _ in range(MOST_DEPTH + 1):
        below = list[_Found]()
        for found in level:
            yield found
            found.left_out = max(len(found.children) - left, 0)
            del found.children[left:]
            left -= len(found.children)
            below += found.children
        for begin in range(0, len(below), AT_ONCE):
            await asyncio.gather(*(_read(store, one, over=over) for one in below[begin : begin + AT_ONCE]))
        level = below


async def _read(store: Store, found: _Found, *, over: bool) -> None:
    """Read the state of a child, and find its children."""
    name = found.conversation_id
    try:
        state, quarantine = await asyncio.gather(store.load(name), store.quarantine(name))
    except ConversationNotFound:
        found.problem = NOT_STARTED if found.waited_for else GONE
    except StoreUnavailable:
        raise
    except StoreError as error:
        found.problem = shown(str(error))
    else:
        if state.parent is None or state.parent.suspension_id != found.suspension_id:
            found.problem = ANOTHER
            return
        found.state, found.quarantined = state, quarantine is not None
        await _grow(store, found, over=over)


async def _grow(store: Store, found: _Found, *, over: bool) -> None:
    """Find the children of a conversation that was read."""
    state = found.state
    if state is None or (state.parent is not None and state.parent.depth < 1):
        return
    children = dict[str, _Found]()
    if over:
        try:
            children = {one.suspension_id: _child(one) for one in await _delegated(store, state)}
        except StoreUnavailable:
            raise
        except StoreError as error:
            found.problem = shown(f"its log cannot be read: {error}")
    for call in () if state.ended else state.calls.awaiting():
        wait = call.suspension
        if wait is not None and wait.kind is SuspensionKind.DELEGATE:
            child = children.setdefault(wait.suspension_id, _Found(wait.source, "", call.tool_call_id, wait.suspension_id))
            child.waited_for = True
    found.children = list(children.values())


def _child(event: CallSuspended) -> _Found:
    agent = "" if event.delegation is None else event.delegation.agent
    return _Found(event.source, agent, event.tool_call_id, event.suspension_id)


async def _delegated(store: Conversations, state: State) -> list[CallSuspended]:
    """The delegated calls of the present turn, or of the last one, in the order of the log."""
    turn = None if state.turn is None or state.turn.compacts else state.turn
    turn_id = turn.turn_id if turn is not None else "" if state.last is None else state.last.turn_id
    found, before = list[CallSuspended](), state.seq + 1
    none = not turn_id or (turn is not None and not turn.delegated)
    for _ in range(0 if none else MOST_READS):
        page = await store.read(state.conversation_id, before=before, limit=READ_AT_ONCE)
        for seq, event in reversed(page):
            before = seq
            if isinstance(event, TurnStarted) and event.turn_id == turn_id:
                return found[::-1]
            if isinstance(event, CallSuspended) and event.suspension_kind is SuspensionKind.DELEGATE:
                found.append(event)
        if not page:
            break
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Below:
    """The calls that wait in a conversation and in those below it, with their deadlines, as they were when it was walked."""

    waiting: Sequence[tuple[PendingPlace, int]]

    @classmethod
    async def walked(cls, store: Store, root: str) -> "Below":
        """Those of this root; `ConversationNotFound` if there is none."""
        found = list[tuple[PendingPlace, int]]()
        async for one in _walked(store, _Found(root, state=await store.load(root)), over=False):
            for entry in () if one.state is None or one.state.ended else pending_entries(one.state):
                place = PendingPlace(one.conversation_id, entry.seq, entry.suspension_id, entry.created_at)
                found.append((place, entry.expires_at))
        return cls(found)

    async def page(
        self,
        store: Store,
        *,
        limit: int,
        after: str | None = None,
        older_than_s: float | None = None,
        expires_within_s: float | None = None,
        **wanted: Any,
    ) -> Listing:
        """See `Lists.pending`: the same order, cursors and filters."""
        now = await store.now()
        since = None if older_than_s is None else max(now - int(older_than_s * 1000), 0)
        until = None if expires_within_s is None else now + int(expires_within_s * 1000)
        selection, start = Selection(**wanted, since=since, until=until), pending_after(after)
        placed = [
            (f"{conversation_member(place.created_at if until is None else ends, place.suspension_id)}|", place)
            for place, ends in self.waiting
        ]
        rest = sorted(((member, place) for member, place in placed if member > start), key=lambda one: one[0])
        page = rest[:limit]
        rows = await store.pending_at([place for _, place in page])
        kept = [row for row in rows if selection.keeps(row, frozenset())]
        return Listing(kept, cursor_of(page[-1][0]) if len(rest) > limit else None)
