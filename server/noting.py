"""The routes of notes on pending calls: who takes one on, and comments of its approvers."""

import uuid
from typing import Any

from holdfast.client import AsyncConversation, verbs
from holdfast.client.replies import NotedReply

from .bodies import AssignBody, CommentBody
from .decisions import page_of
from .operation import Asked, of


async def assign(asked: Asked) -> NotedReply:
    """Record who takes a pending call on."""
    key, body = asked.key or uuid.uuid4().hex, asked.body
    to: Any = asked.caller.principal if body.to is None else body.to
    conversation = await _conversation(asked)
    receipt = await conversation.assign(asked.path["suspension_id"], to, request_id=key)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def comment(asked: Asked) -> NotedReply:
    """Record a comment on a pending call."""
    key, conversation = asked.key or uuid.uuid4().hex, await _conversation(asked)
    receipt = await conversation.comment(asked.path["suspension_id"], asked.body.text, request_id=key)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def _conversation(asked: Asked) -> AsyncConversation:
    """The conversation of the suspension; the caller's access to it was checked before.

    Raises:
        StaleCall: The suspension is not open, and the request does not name its conversation; or a page names an unknown one.
    """
    suspension_id, named = asked.path["suspension_id"], asked.body.conversation_id
    if (page := page_of(asked)) is not None:
        await page.check_kind(suspension_id)
        return asked.client.conversation(page.conversation_id)
    if named is not None:
        return asked.client.conversation(named)
    return asked.client.conversation((await asked.client.pending_call(suspension_id)).conversation_id)


OPERATIONS = (
    of(
        verbs.ASSIGN,
        "Note who takes a pending call on; it decides nothing. The body is optional: by default it is you.",
        assign,
        reply=NotedReply,
        body=AssignBody,
    ),
    of(
        verbs.COMMENT,
        "Write to the others who may decide a pending call; the model does not read it.",
        comment,
        reply=NotedReply,
        body=CommentBody,
    ),
)
