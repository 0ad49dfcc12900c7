"""`holdfast send`: a user's next message to a conversation."""

import asyncio
import sys
import uuid
from typing import Annotated

import typer

from holdfast.conversation import Receipt
from holdfast.errors import InvalidMessage

from .display import clean, to_json
from .options import AsJson, Where
from .session import reached

MOST_BYTES = 64 * 1024 * 1024
"""How many bytes of a pipe are read at most; the agent's limits say how long a message may be."""


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    text: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    *,
    message_id: Annotated[str | None, typer.Option(metavar="ID", help="Makes the command safe to repeat.")] = None,
    as_json: AsJson = False,
) -> None:
    """Send the user's next message to a conversation; done once it is durable. During a turn, messages queue in order.

    The printed id makes the command safe to repeat: with the same `--message-id ID` it prints the same receipt.
    """
    given = _from_stdin() if text == "-" else text
    message_id = message_id if message_id is not None else uuid.uuid4().hex
    receipt = asyncio.run(_send(where, conversation, given, message_id))
    if as_json:
        sys.stdout.write(to_json({**receipt.model_dump(mode="json"), "message_id": message_id}) + "\n")
        return
    recorded = "was recorded before" if receipt.duplicate else "is recorded"
    sys.stdout.write(clean(f"Message {message_id} to {receipt.conversation_id} {recorded} (seq {receipt.seq}).") + "\n")


async def _send(where: Where, conversation: str, text: str, message_id: str) -> Receipt:
    async with reached(where) as opened:
        return await opened.client.conversation(conversation).send(text, message_id=message_id)


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InvalidMessage("text", f"standard input has more than {MOST_BYTES} bytes", "send less, or a reference to it")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"standard input is not UTF-8 ({error.reason} at byte {error.start})"
        raise InvalidMessage("text", problem, "send text in UTF-8") from error
