"""`holdfast message`: what became of one message. It needs Redis, or a server, alone."""

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.client import Message, MessageStatus

from .display import clean, clean_block, span, to_json
from .options import AsJson, Where
from .session import reached

SAID = {
    MessageStatus.QUEUED: "is queued",
    MessageStatus.RUNNING: "is being answered, or waits for somebody",
    MessageStatus.COMPLETED: "was answered",
    MessageStatus.FAILED: "could not be answered",
    MessageStatus.CANCELLED: "was not answered: its turn was cancelled",
    MessageStatus.DROPPED: "was not answered: the conversation ended before",
}


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    message: Annotated[str, typer.Argument(help="The message's id, which `holdfast send` and receipts say.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show what became of a message: its status, its turn, and the reply or the error."""
    found, now = asyncio.run(_message(where, conversation, message))
    if as_json:
        sys.stdout.write(to_json({"conversation_id": conversation, **asdict(found)}, indent=2) + "\n")
        return
    turn = "" if found.turn_id is None else f" (turn {found.turn_id}, try {found.attempts})"
    age = span(now - found.accepted_at)
    sys.stdout.write(clean(f"Message {found.message_id}, sent {age} ago, {SAID[found.status]}{turn}.") + "\n")
    for text in (found.reply, found.error):
        if text:
            sys.stdout.write(clean_block(text) + "\n")


async def _message(where: Where, conversation: str, message: str) -> tuple[Message, int]:
    async with reached(where) as opened:
        return await opened.client.conversation(conversation).message(message), await opened.now()
