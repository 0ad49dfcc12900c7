"""`holdfast cancel`: cancel the turn of a conversation."""

import asyncio
import sys
import uuid
from typing import Annotated

import typer

from holdfast.conversation import Cancelled

from .display import clean, to_json
from .options import AsJson, Where
from .session import reached

RequestId = Annotated[str | None, typer.Option("--request-id", metavar="ID", help="Makes the command safe to repeat.")]


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    *,
    request_id: RequestId = None,
    as_json: AsJson = False,
) -> None:
    """Cancel the current turn of a conversation, with its pending calls. The next message begins another turn.

    The printed id makes the command safe to repeat: with the same `--request-id ID` it cancels no later turn.
    """
    request_id = request_id if request_id is not None else uuid.uuid4().hex
    cancelled = asyncio.run(_cancel(where, conversation, request_id))
    if as_json:
        sys.stdout.write(to_json({**cancelled.model_dump(mode="json"), "request_id": request_id}) + "\n")
        return
    what = "There was no turn to cancel"
    if cancelled.turn_id is not None:
        calls = f", with {', '.join(cancelled.calls)}" if cancelled.calls else ""
        what = f"Turn {cancelled.turn_id} is cancelled{calls}"
    recorded = "; this was recorded before" if cancelled.duplicate else ""
    sys.stdout.write(clean(f"{what} (request {request_id} to {cancelled.conversation_id}{recorded}).") + "\n")


async def _cancel(where: Where, conversation: str, request_id: str) -> Cancelled:
    async with reached(where) as opened:
        return await opened.client.conversation(conversation).cancel(request_id=request_id)
