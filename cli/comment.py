"""`holdfast comment`: write to the others who may decide a pending call."""

import asyncio
import sys
import uuid
from typing import Annotated

import typer

from holdfast.conversation import Receipt

from .assign import OfConversation, Suspension
from .cancel import RequestId
from .display import clean, to_json
from .options import AsJson, Where
from .session import reached


def run(
    where: Where,
    suspension: Suspension,
    text: Annotated[str, typer.Argument(help="The comment.", metavar="TEXT")],
    *,
    conversation: OfConversation = None,
    request_id: RequestId = None,
    as_json: AsJson = False,
) -> None:
    """Write to the others who may decide a pending call. The model does not read it, and it decides nothing.

    The printed id makes the command safe to repeat: with the same `--request-id ID` it is recorded once.
    """
    request_id = request_id if request_id is not None else uuid.uuid4().hex
    receipt = asyncio.run(_comment(where, suspension, text, request_id, conversation))
    if as_json:
        sys.stdout.write(to_json({**receipt.model_dump(mode="json"), "request_id": request_id}) + "\n")
        return
    recorded = "was recorded before" if receipt.duplicate else "is recorded"
    said = f"The comment on {suspension} of {receipt.conversation_id} {recorded} (seq {receipt.seq}, request {request_id})."
    sys.stdout.write(clean(said) + "\n")


async def _comment(where: Where, suspension: str, text: str, request_id: str, conversation: str | None) -> Receipt:
    async with reached(where) as opened:
        call = await opened.client.pending_call(suspension, conversation_id=conversation)
        return await opened.client.conversation(call.conversation_id).comment(call, text, request_id=request_id)
