"""`holdfast cancel`: cancel the turn of a conversation, or what it waits for."""

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from holdfast.client import Conversation
from holdfast.conversation import Cancelled, SuspensionKind
from holdfast.errors import InvalidInput

from .display import clean, to_json
from .options import AsJson, Where
from .session import reached

RequestId = Annotated[str | None, typer.Option("--request-id", metavar="ID", help="Makes the command safe to repeat.")]


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    *,
    turn: Annotated[str | None, typer.Option("--turn", metavar="ID", help="Only this turn: once it is over, nothing.")] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="Wait until no body of it goes on any more, at most so long.")
    ] = 0,
    pending: Annotated[bool, typer.Option("--pending", help="Only the calls that wait; the turn goes on.")] = False,
    kind: Annotated[
        SuspensionKind | None, typer.Option("--kind", help="With --pending: only those that wait for this.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="With --pending: why; the model reads it.")] = "",
    request_id: RequestId = None,
    as_json: AsJson = False,
) -> None:
    """Cancel the current turn of a conversation, with its pending calls. The next message begins another turn.

    The printed id makes the command safe to repeat: with the same `--request-id ID` it cancels no later turn.
    """
    request_id = request_id if request_id is not None else uuid.uuid4().hex
    if pending and (turn is not None or wait_s):
        raise InvalidInput("--pending", "it leaves the turn alone", "leave --turn and --wait out")
    if not pending and (kind is not None or reason):
        raise InvalidInput("--kind and --reason", "they are for the calls that wait", "add --pending")

    async def cancelling(found: Conversation) -> Cancelled:
        if pending:
            return await found.cancel_pending(kind, reason, request_id=request_id)
        return await found.cancel(turn, wait_s=wait_s, request_id=request_id)

    cancelled = asyncio.run(_carried_out(where, conversation, cancelling))
    if as_json:
        sys.stdout.write(to_json({**cancelled.model_dump(mode="json"), "request_id": request_id}) + "\n")
        return
    calls = ", ".join(cancelled.calls)
    if cancelled.turn_id is None:
        what = "Nothing waits" if pending else "There was no turn to cancel"
    elif pending:
        what = f"Cancelled in turn {cancelled.turn_id}, which goes on: {calls}"
    else:
        what = f"Turn {cancelled.turn_id} is cancelled" + (f", with {calls}" if calls else "")
    if cancelled.running:
        what += f"; {', '.join(cancelled.running)} still runs"
    recorded = "; this was recorded before" if cancelled.duplicate else ""
    sys.stdout.write(clean(f"{what} (request {request_id} to {cancelled.conversation_id}{recorded}).") + "\n")


async def _carried_out(
    where: Where, conversation: str, cancelling: Callable[[Conversation], Awaitable[Cancelled]]
) -> Cancelled:
    async with reached(where) as opened:
        return await cancelling(opened.client.conversation(conversation))
