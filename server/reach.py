"""The conversations that a caller may touch, if the credential names agents, or one conversation perhaps with those below it.

Others seem not to exist.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from holdfast.client import (
    Ancestor,
    AsyncClient,
    ConversationExists,
    ConversationNotFound,
    InvalidInput,
    Page,
    StaleCall,
    StaleReason,
)
from holdfast.client.results import exactly
from holdfast.client.tree import Node
from holdfast.conversation.ids import check_conversation_id

from .caller import Caller

MOST_KNOWN = 10_000
"""For how many conversations the agent, and what is above, is remembered; neither ever changes."""

T = TypeVar("T")


class Reach:
    """A client's conversations, and which caller may touch them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._places: OrderedDict[str, tuple[Ancestor, ...]] = OrderedDict()

    async def check(self, caller: Caller, conversation_id: str) -> None:
        """Refuse a conversation that the caller may not touch with `ConversationNotFound`, as if it did not exist."""
        elsewhere = caller.is_page and check_conversation_id(conversation_id) != caller.conversation_id
        if elsewhere and not (caller.tree and _within(caller, await self._place(conversation_id))):
            raise ConversationNotFound(conversation_id)
        if caller.agents is not None and not caller.touches(await self._agent(check_conversation_id(conversation_id))):
            raise ConversationNotFound(conversation_id)

    async def check_exists(self, caller: Caller, conversation_id: str) -> None:
        """Refuse a conversation that the caller may not touch or that was never started, both by `ConversationNotFound`."""
        await self.check(caller, conversation_id)
        await self._agent(check_conversation_id(conversation_id))

    async def check_start(self, caller: Caller, conversation_id: str) -> None:
        """Refuse to start a conversation under an id that the caller may not touch, saying only that it is taken."""
        if caller.agents is None:
            return
        try:
            agent = await self._agent(check_conversation_id(conversation_id))
        except ConversationNotFound:
            return
        if not caller.touches(agent):
            raise ConversationExists(conversation_id)

    async def check_suspension(self, caller: Caller, suspension_id: str, conversation_id: str | None) -> None:
        """Refuse a suspension of a conversation that the caller may not touch, as if it did not exist."""
        if caller.agents is None and caller.conversation_id is None:
            return
        if conversation_id is not None:
            await self.check(caller, conversation_id)
            return
        unknown = StaleCall("", suspension_id, StaleReason.UNKNOWN)
        try:
            call = exactly(await self._client.pending_call(suspension_id), suspension_id)
        except InvalidInput:  # a beginning: that of others' ids, too
            raise unknown from None
        place = (*call.path, Ancestor(conversation_id=call.conversation_id, agent=call.agent))
        if not caller.touches(call.agent) or not _within(caller, place):
            raise unknown

    async def _agent(self, conversation_id: str) -> str:
        return (await self._place(conversation_id))[-1].agent

    async def _place(self, conversation_id: str) -> tuple[Ancestor, ...]:
        found = self._places.get(conversation_id)
        if found is None:
            found = self._places[conversation_id] = await self._client.access.place_of(conversation_id)
        self._places.move_to_end(conversation_id)
        if len(self._places) > MOST_KNOWN:
            self._places.popitem(last=False)
        return found


def _within(caller: Caller, place: Sequence[Ancestor]) -> bool:
    """Whether a page may touch the last of these conversations, which stand above each other; True if the caller is no page."""
    reached = place if caller.tree else place[-1:]
    return caller.conversation_id is None or any(one.conversation_id == caller.conversation_id for one in reached)


def seen(caller: Caller, node: Node) -> Node:
    """A tree that the caller may touch, as they may see it: of a child that they may not touch, only that there is one."""
    children = [seen(caller, one) if _touches(caller, one) else _hidden(one) for one in node.children]
    return node.model_copy(update={"children": children})


def _touches(caller: Caller, node: Node) -> bool:
    return caller.touches(node.agent) and (caller.tree or not caller.is_page)


def _hidden(node: Node) -> Node:
    return Node(conversation_id="", tool_call_id=node.tool_call_id, waited_for=node.waited_for, problem="you may not see it")


def conversation_named(query: Any, body: Any) -> str | None:
    """The conversation that a query or a body names."""
    found: str | None = getattr(query, "conversation_id", None) or getattr(getattr(body, "root", body), "conversation_id", None)
    return found


async def listed(
    caller: Caller,
    fetch: Callable[..., Awaitable[Page[T]]],
    *,
    limit: int,
    after: str | None,
    agent: str | None = None,
    **filters: Any,
) -> Page[T]:
    """A page of what the caller may touch. With several agents it lists agent after agent; the cursor tells the next one.

    `fetch` gives a page of one agent, or of all, by these arguments.
    """
    caller.check_whole()
    if caller.agents is None:
        return await fetch(limit=limit, after=after, agent=agent, **filters)
    agents = sorted(caller.agents if agent is None else caller.agents & {agent})
    begin = 0
    if after is not None:
        name, mark, inner = after.rpartition("~")
        if not mark or name not in agents:
            raise InvalidInput("after", f"{after!a:.40} is not a cursor", "pass the `next` of the page before")
        begin, after = agents.index(name), inner or None
    items: list[T] = []
    for place in range(begin, len(agents)):
        page = await fetch(limit=limit - len(items), after=after, agent=agents[place], **filters)
        items += page.items
        after = None
        if page.next is not None:
            return Page(items=items, next=f"{agents[place]}~{page.next}")
        if len(items) == limit:
            return Page(items=items, next=f"{agents[place + 1]}~" if place + 1 < len(agents) else None)
    return Page(items=items)
