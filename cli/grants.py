"""`holdfast grants`: list or end the grants of a conversation, or all grants and votes of one giver."""

import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Annotated

import typer

from holdfast.client import AsyncClient
from holdfast.client.given import Given
from holdfast.conversation import Grant, Proof
from holdfast.errors import ConversationEnded, HoldfastError, InvalidInput

from .display import Said, clean, span, write_table
from .errors import ExitCode
from .options import Key
from .session import Reached


async def run(
    on: Reached,
    conversation: Annotated[
        str | None, typer.Argument(help="The conversation's id; with --by, all of them without one.")
    ] = None,
    *,
    revoke: Annotated[str | None, typer.Option(metavar="GRANT", help="End this grant, by its id.")] = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="The grants and votes of this person or program.")] = None,
    end: Annotated[bool, typer.Option("--end", help="With --by: end these grants and votes.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why it ends, for the log.")] = None,
    request_id: Key = None,
) -> Said:
    """List the grants that stand in a conversation: what runs there without asking. With --revoke, end one.

    With --by, list what somebody has given in all conversations: grants, and votes on calls that wait; with --end, end them.

    No run begins by a grant once its revocation is printed. A run that then begins without asking is allowed by another grant,
    a permission rule or its tool's own declaration.
    """
    if revoke is None and not end:
        for option, said in (("--reason", reason), ("--request-id", request_id)):
            if said is not None:
                raise InvalidInput(option, "it is for a revocation", "add --revoke GRANT, or leave it out")
    if by is not None:
        if revoke is not None or request_id is not None:
            raise InvalidInput("--by", "it is about all grants", "leave --revoke and --request-id out; --end ends all of it")
        given = [one async for one in all_given(on.client, by) if conversation in (None, one.conversation_id)]
        failed = {one.conversation_id: await ended(on.client, one, by, reason or "") for one in given} if end else {}
        return of_giver(given, failed, await on.now(), ended=end)
    if end:
        raise InvalidInput("--end", "it does not say whose grants end", "add --by NAME")
    if conversation is None:
        raise InvalidInput("CONVERSATION", "it is missing", "name a conversation, or say --by NAME")
    if revoke is not None:
        request_id = request_id if request_id is not None else uuid.uuid4().hex
        receipt = await on.client.conversation(conversation).revoke(revoke, reason or "", request_id=request_id)
        recorded = "was revoked before" if receipt.duplicate else "is revoked"
        text = f"{revoke} of {receipt.conversation_id} {recorded} (seq {receipt.seq}, request {request_id})."
        return Said({**receipt.model_dump(mode="json"), "request_id": request_id}, [text], indent=None)
    found = await on.client.conversation(conversation).grants()
    return Said({"items": [one.model_dump(mode="json") for one in found]}, partial(_draw, found, await on.now()))


async def all_given(client: AsyncClient, by: str, proof: Proof | None = None) -> AsyncIterator[Given]:
    """All standing grants and votes of a principal, conversation by conversation."""
    after: str | None = None
    while True:
        page = await client.given(by, proof=proof, after=after)
        for one in page.items:
            yield one
        if page.next is None:
            return
        after = page.next


async def ended(client: AsyncClient, one: Given, by: str, reason: str, proof: Proof | None = None) -> str | None:
    """End a principal's grants and votes in a conversation; gives None once ended, else why that is not certain."""
    if one.problem is not None:
        return one.problem
    try:
        await client.conversation(one.conversation_id).revoke_given(by, reason, proof=proof)
    except (InvalidInput, ConversationEnded):  # it has ended meanwhile
        return None
    except HoldfastError as error:  # it must not hide the others
        return str(error)
    return None


def of_giver(found: Sequence[Given], failed: Mapping[str, str | None], now: int, *, ended: bool) -> Said:
    """A principal's grants and votes and, if they were to be `ended`, the results. `now`: ms UTC."""
    items, lines = [], []
    for one in found:
        problem = failed.get(one.conversation_id) or one.problem
        state = f"not read or ended: {problem}" if problem is not None else "ended" if ended else "stands"
        said = [described(grant, now) for grant in one.grants]
        said += [f"a vote of {vote.by} on {vote.suspension_id}" for vote in one.votes]
        lines.append(f"{one.conversation_id} ({state}): " + "; ".join(said))
        items.append(one.model_dump(mode="json") | ({"ended": failed[one.conversation_id] is None} if ended else {}))
    code = ExitCode.FAILED if any(problem is not None for problem in failed.values()) else ExitCode.DONE
    return Said({"items": items}, lines or ["No such grant or vote stands."], code=code)


def described(grant: Grant, now: int) -> str:
    """A grant in words, on one line; `now` is in ms UTC."""
    by = "" if grant.by is None else f", given by {grant.by.id}"
    ends = "until it is revoked" if grant.ends_at is None else f"for {span(grant.ends_at - now)} more"
    return clean(f"{grant.grant_id}: {grant.kind} {grant.pattern} up to {grant.level.value}, {ends}{by}")


def _draw(grants: Sequence[Grant], now: int) -> None:
    if not grants:
        sys.stdout.write("No grant stands: each call that needs approval asks.\n")
        return
    rows = []
    for grant in grants:
        ends = "never" if grant.ends_at is None else f"in {span(grant.ends_at - now)}"
        by = "unknown" if grant.by is None else grant.by.id
        rows.append([*map(clean, (grant.grant_id, grant.kind, grant.pattern, grant.level.value, ends, by))])
    write_table(("ID", "KIND", "PATTERN", "LEVEL", "ENDS", "GIVEN BY"), rows)
