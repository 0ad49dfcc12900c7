"""The conversation around a pending call."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.client import AsyncClient, AsyncConversation, ConversationState, Grant, HoldfastError, PendingCall
from holdfast.client.last_words import last_words
from holdfast.client.log_pages import END
from holdfast.conversation.terms.parts import in_words
from holdfast.redaction import PLAIN

from .history import MOST_EVENTS, History, history_of

LAST_MESSAGES = 8
"""How many messages of the conversation stand beside a call."""


@dataclass(frozen=True, slots=True)
class Around:
    """The context of a conversation's calls; empty if it cannot be read, and `problem` says why.

    `earlier` is the cursor for the messages before its last ones; None if there are none.
    """

    state: ConversationState[Any] | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    earlier: str | None = None
    history: History = field(default_factory=History)
    grants: Sequence[Grant] = ()
    problem: str = ""


async def around_of(conversation: AsyncConversation, *, messages: int = LAST_MESSAGES, events: int = MOST_EVENTS) -> Around:
    """The context of a conversation's calls, with its last messages, and the history from its latest events."""
    try:
        state = await conversation.state()
        page, history, grants = await asyncio.gather(
            conversation.messages_page(limit=messages, before=END), history_of(conversation, events), conversation.grants()
        )
    except HoldfastError as error:  # the call itself is shown nevertheless
        return Around(problem=PLAIN.redacted(str(error)))
    return Around(state, page.items, page.previous, history, grants)


async def delegated(
    client: AsyncClient, call: PendingCall[Any], may_see: Callable[[str], bool] = lambda _: True
) -> tuple[str, dict[str, str]]:
    """The task of a call's conversation, and what was said last above it, by the conversation; unreadable ones are left out.

    `may_see` says whether the viewer may see conversations of an agent.
    """
    task, above = "", dict[str, str]()
    if call.path:
        with contextlib.suppress(HoldfastError):
            first = await client.conversation(call.conversation_id).messages_page(limit=1)
            task = in_words(first.items[0]["content"]) if first.items else ""
    for one in call.path:
        if may_see(one.agent):
            with contextlib.suppress(HoldfastError):
                above[one.conversation_id] = await last_words(client.conversation(one.conversation_id))
    return task, above
