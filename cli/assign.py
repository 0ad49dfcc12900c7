"""`holdfast assign`: say who takes a pending call on, so that the others who may decide it see that."""

import asyncio
import sys
import uuid
from typing import Annotated, Any

import typer

from holdfast.conversation import Receipt
from holdfast.errors import InvalidInput

from .cancel import RequestId
from .display import clean, to_json
from .options import AsJson, Where
from .session import reached

Suspension = Annotated[str, typer.Argument(help="The suspension, as `holdfast pending` shows it.", metavar="SUSPENSION")]
OfConversation = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="Its conversation; needed where more than 10,000 calls wait."),
]


def run(
    where: Where,
    suspension: Suspension,
    *,
    to: Annotated[str | None, typer.Option("--to", metavar="NAME", help="Who takes it on; by default you yourself.")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="Nobody has it any more: it is given back.")] = False,
    conversation: OfConversation = None,
    request_id: RequestId = None,
    as_json: AsJson = False,
) -> None:
    """Say who takes a pending call on. It decides nothing: whoever may decide the call still may.

    The printed id makes the command safe to repeat: with the same `--request-id ID` it is recorded once.
    """
    if nobody and to is not None:
        raise InvalidInput("--nobody", "it does not go with --to", "leave one of them out")
    request_id = request_id if request_id is not None else uuid.uuid4().hex
    taker: Any = "" if nobody else ... if to is None else to
    receipt = asyncio.run(_assign(where, suspension, taker, request_id, conversation))
    if as_json:
        sys.stdout.write(to_json({**receipt.model_dump(mode="json"), "request_id": request_id}) + "\n")
        return
    what = "is given back" if nobody else "is yours" if to is None else f"is taken on by {to}"
    recorded = ", as was recorded before" if receipt.duplicate else ""
    text = f"{suspension} of {receipt.conversation_id} {what}{recorded} (seq {receipt.seq}, request {request_id})."
    sys.stdout.write(clean(text) + "\n")


async def _assign(where: Where, suspension: str, taker: Any, request_id: str, conversation: str | None) -> Receipt:
    async with reached(where) as opened:
        call = await opened.client.pending_call(suspension, conversation_id=conversation)
        return await opened.client.conversation(call.conversation_id).assign(call, taker, request_id=request_id)
