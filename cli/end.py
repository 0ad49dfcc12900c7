"""`holdfast end`: end a conversation for good."""

import asyncio
import sys
import uuid
from typing import Annotated

import typer

from holdfast.conversation import Receipt
from holdfast.conversation.ids import check_conversation_id
from holdfast.errors import InvalidInput

from .cancel import RequestId
from .display import clean, to_json
from .options import AsJson, Where
from .session import reached


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    request_id: RequestId = None,
    as_json: AsJson = False,
) -> None:
    """End a conversation for good: its turn and its pending calls are cancelled, and it takes no message any more.

    On a terminal the command asks first; elsewhere it needs --yes. The printed id makes the command safe to repeat.
    """
    check_conversation_id(conversation)
    if not yes and not _meant(conversation):
        sys.stderr.write("Nothing was done.\n")
        raise typer.Exit(1)
    request_id = request_id if request_id is not None else uuid.uuid4().hex
    receipt = asyncio.run(_end(where, conversation, request_id))
    if as_json:
        sys.stdout.write(to_json({**receipt.model_dump(mode="json"), "request_id": request_id}) + "\n")
        return
    recorded = "had ended by this" if receipt.duplicate else "has ended"
    said = f"{receipt.conversation_id} {recorded} (request {request_id}, seq {receipt.seq})."
    sys.stdout.write(clean(said) + "\n")


def _meant(conversation: str) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("--yes", "to end a conversation is for good, and nobody can be asked here", "give --yes")
    sys.stderr.write(f"End {conversation} for good? It takes no message any more, and its pending calls are cancelled. [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _end(where: Where, conversation: str, request_id: str) -> Receipt:
    async with reached(where) as opened:
        return await opened.client.conversation(conversation).end(request_id=request_id)
