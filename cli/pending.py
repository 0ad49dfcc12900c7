"""`holdfast pending`: the pending calls, and the command that resolves each. It needs Redis, or a server, alone."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.client.results import AsyncPendingCall, Page
from holdfast.conversation import SuspensionKind
from holdfast.errors import InvalidInput

from .display import clean, console, is_whole, is_whole_json, lines, shorten, span, table, to_json
from .hints import command, next_step
from .options import AsJson, Where
from .pauses import notice, standing
from .session import Reached, reached

LIMIT = 50
SHORTEST, LONGEST = 20, 80
"""How many characters of the arguments are shown at least and at most."""
PROMPT_LENGTH = 300

ELSEWISE = {
    SuspensionKind.APPROVAL: "An approval takes --approve, --approve --arguments JSON (edited), or --deny REASON.",
    SuspensionKind.ELICITATION: "A question takes --answer JSON (text goes in double quotes), or --deny REASON.",
    SuspensionKind.CLIENT_EXEC: "A client's call takes --answer JSON, or --fail ERROR.",
    SuspensionKind.LOST: "A lost run takes --redispatch (run it again), --answer JSON (what it returned), or --fail ERROR.",
}


def run(
    where: Where,
    conversation: Annotated[str | None, typer.Argument(help="Only this conversation's calls.")] = None,
    *,
    limit: Annotated[int | None, typer.Option(help=f"How many are listed at most; {LIMIT} if left out.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's calls.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind: approval, elicitation, client_exec or lost.")] = None,
    as_json: AsJson = False,
) -> None:
    """List pending calls, oldest first, each with the command that resolves it.

    Long arguments are cut; `holdfast show` has all of them, and the conversation. A command that lets a call run is printed
    only where the whole call is shown.
    """
    asyncio.run(_pending(where, conversation, limit=limit, after=after, agent=agent, kind=kind, as_json=as_json))


async def _pending(
    where: Where,
    conversation: str | None,
    *,
    limit: int | None,
    after: str | None,
    agent: str | None,
    kind: str | None,
    as_json: bool,
) -> None:
    async with reached(where) as opened:
        if conversation is None:
            page = await opened.client.pending(limit=LIMIT if limit is None else limit, after=after, agent=agent, kind=kind)
        else:
            filters = {"limit": limit, "after": after, "agent": agent, "kind": kind}
            page = await _of(opened, conversation, filters)
        pauses = await standing(opened.client)
        if as_json:
            items = [call.to_dict() for call in page.items]
            said = {"items": items, "next": page.next, "paused": [asdict(one) for one in pauses]}
            sys.stdout.write(to_json(said, indent=2) + "\n")
            return
        now = await opened.now()
    sys.stdout.write(notice(pauses, now))
    draw(page.items, now, where)
    if page.next is not None:
        given = {"--limit": limit, "--agent": agent, "--kind": kind, "--after": page.next}
        words = [str(word) for option, value in given.items() if value is not None for word in (option, value)]
        sys.stdout.write(f"\nThere are more: {command(['pending', *words], where)}\n")


async def _of(opened: Reached, conversation: str, filters: Mapping[str, object]) -> Page[AsyncPendingCall]:
    for name, value in filters.items():
        if value is not None:
            raise InvalidInput(f"--{name}", "it is for the list over all conversations", "leave it out, or the conversation")
    return Page(await opened.client.conversation(conversation).pending())


def draw(calls: Sequence[AsyncPendingCall], now: int, where: Where) -> None:
    """Print the table: a line for each call, and under it its prompt and the command that resolves it."""
    if not calls:
        sys.stdout.write("Nothing is pending.\n")
        return
    screen = console()
    columns = ("AGE", "LEFT", "CONVERSATION", "AGENT", "KIND", "TOOL")
    cells = [_cells(call, now) for call in calls]
    taken = sum(max(map(len, column)) + 2 for column in zip(columns, *cells, strict=True))
    room = min(max(screen.width - taken, SHORTEST), LONGEST)
    drawn = table(*columns, "ARGUMENTS")
    arguments = [to_json(call.arguments) if call.problem is None else "?" for call in calls]
    for row, text in zip(cells, arguments, strict=True):
        drawn.add_row(*row, shorten(clean(text), room))
    header, *rows = lines(screen, drawn)
    screen.print(header, soft_wrap=True)
    for call, line, text in zip(calls, rows, arguments, strict=True):
        screen.print(line, soft_wrap=True)
        if call.problem is not None:
            screen.print(f"  it cannot be read: {clean(call.problem)}", style="red", soft_wrap=True)
        if call.prompt:
            screen.print(f"  it asks: {shorten(clean(call.prompt), PROMPT_LENGTH)}", soft_wrap=True)
        whole = is_whole_json(text, room) and is_whole(call.prompt or "", PROMPT_LENGTH)
        if (step := next_step(call, where, whole=whole)) is not None:
            screen.print(f"  {step}", style="cyan", soft_wrap=True)
    screen.print()
    for kind, elsewise in ELSEWISE.items():
        if any(call.kind is kind for call in calls):
            screen.print(elsewise, style="dim", soft_wrap=True)


def _cells(call: AsyncPendingCall, now: int) -> tuple[str, ...]:
    left = "?" if call.expires_at is None else span(call.expires_at - now) if call.expires_at > now else "due"
    age = span(now - call.created_at) if call.created_at else "?"
    names = (call.conversation_id, call.agent, call.kind or "", call.tool)
    return (age, left, *(clean(name) or "?" for name in names))
