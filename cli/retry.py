"""`holdfast retry`: take up a conversation in quarantine again."""

import asyncio
import contextlib
import sys
from typing import Annotated

import typer

from holdfast.errors import ConversationNotFound, StoreError

from .display import clean, to_json
from .options import AsJson, Where
from .session import reached


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Lift a conversation's quarantine, so that it is taken up again where it stood.

    A conversation is put in quarantine when its own work took process after process down, or when it cannot be read or
    carried on. `holdfast list --status quarantined` names them all, `holdfast show` says why. It needs Redis alone.
    """
    lifted = asyncio.run(_retry(where, conversation))
    if as_json:
        sys.stdout.write(to_json({"conversation_id": conversation, "lifted": lifted}) + "\n")
    else:
        said = "is taken up again" if lifted else "is not in quarantine; nothing was done"
        sys.stdout.write(clean(f"{conversation} {said}.") + "\n")


async def _retry(where: Where, conversation_id: str) -> bool:
    async with reached(where) as opened:
        conversation, store = opened.client.conversation(conversation_id), await opened.store()
        if store is None:
            with contextlib.suppress(StoreError):  # its state may be unreadable
                await conversation.state()
        else:
            owner = await store.owner(conversation_id)  # as above
            if owner is None or not owner.started:
                raise ConversationNotFound(conversation_id)
        return await conversation.retry()
