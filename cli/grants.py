"""`holdfast grants`: what runs in a conversation without asking, and the end of that."""

import asyncio
import sys
import uuid
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.conversation import Grant
from holdfast.errors import InvalidInput

from .cancel import RequestId
from .display import clean, console, lines, span, table, to_json
from .options import AsJson, Where
from .session import reached


def run(
    where: Where,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    *,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="GRANT", help="End this grant, by its id.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="With --revoke: why, for the log.")] = None,
    request_id: RequestId = None,
    as_json: AsJson = False,
) -> None:
    """List the grants that stand in a conversation: what runs there without asking. With --revoke, end one.

    Nothing begins by a grant once its revocation is printed. What begins without asking after that does so by another grant, a
    permission rule or its tool's own declaration.
    """
    if revoke is None:
        for option, given in (("--reason", reason), ("--request-id", request_id)):
            if given is not None:
                raise InvalidInput(option, "it is for a revocation", "add --revoke GRANT, or leave it out")
        asyncio.run(_list(where, conversation, as_json=as_json))
    else:
        request_id = request_id if request_id is not None else uuid.uuid4().hex
        asyncio.run(_revoke(where, conversation, revoke, reason or "", request_id=request_id, as_json=as_json))


async def _list(where: Where, conversation: str, *, as_json: bool) -> None:
    async with reached(where) as opened:
        found = await opened.client.conversation(conversation).grants()
        if as_json:
            sys.stdout.write(to_json({"items": dumped(found)}, indent=2) + "\n")
            return
        now = await opened.now()
    _draw(found, now)


async def _revoke(where: Where, conversation: str, grant_id: str, reason: str, *, request_id: str, as_json: bool) -> None:
    async with reached(where) as opened:
        receipt = await opened.client.conversation(conversation).revoke(grant_id, reason, request_id=request_id)
    if as_json:
        sys.stdout.write(to_json({**receipt.model_dump(mode="json"), "request_id": request_id}) + "\n")
        return
    recorded = "was revoked before" if receipt.duplicate else "is revoked"
    said = f"{grant_id} of {receipt.conversation_id} {recorded} (seq {receipt.seq}, request {request_id})."
    sys.stdout.write(clean(said) + "\n")


def dumped(grants: Sequence[Grant]) -> list[dict[str, object]]:
    """The grants as plain JSON values."""
    return [grant.model_dump(mode="json") for grant in grants]


def described(grant: Grant, now: int) -> str:
    """A grant in words, on one line; `now` is in ms UTC."""
    by = "" if grant.by is None else f", given by {grant.by.id}"
    ends = "until it is revoked" if grant.ends_at is None else f"for {span(grant.ends_at - now)} more"
    return clean(f"{grant.grant_id}: {grant.kind} {grant.pattern} up to {grant.level.value}, {ends}{by}")


def _draw(grants: Sequence[Grant], now: int) -> None:
    if not grants:
        sys.stdout.write("No grant stands: whatever asks, asks each time.\n")
        return
    drawn = table("ID", "KIND", "PATTERN", "LEVEL", "ENDS", "GIVEN BY")
    for grant in grants:
        ends = "never" if grant.ends_at is None else f"in {span(grant.ends_at - now)}"
        by = "nobody in particular" if grant.by is None else grant.by.id
        drawn.add_row(*map(clean, (grant.grant_id, grant.kind, grant.pattern, grant.level.value, ends, by)))
    screen = console()
    for line in lines(screen, drawn):
        screen.print(line, soft_wrap=True)
