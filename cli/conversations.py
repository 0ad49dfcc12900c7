"""`holdfast list`: all conversations."""

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.persistence import ConversationRow

from .display import clean, console, lines, span, table, to_json
from .hints import command
from .options import AsJson, Where
from .pauses import notice, standing
from .session import reached

LIMIT = 50


def run(
    where: Where,
    *,
    status: Annotated[str | None, typer.Option(help="Only this status: idle, generating, awaiting_input, failed, ...")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's conversations.")] = None,
    limit: Annotated[int, typer.Option(help="How many are listed at most.")] = LIMIT,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")] = None,
    as_json: AsJson = False,
) -> None:
    """List conversations, oldest first."""
    asyncio.run(_list(where, status=status, agent=agent, limit=limit, after=after, as_json=as_json))


async def _list(where: Where, *, status: str | None, agent: str | None, limit: int, after: str | None, as_json: bool) -> None:
    async with reached(where) as opened:
        page = await opened.client.conversations(status=status, agent=agent, limit=limit, after=after)
        pauses = await standing(opened.client)
        now = await opened.now()
    if as_json:
        said = {"items": [asdict(row) for row in page.items], "next": page.next, "paused": [asdict(one) for one in pauses]}
        sys.stdout.write(to_json(said, indent=2) + "\n")
        return
    sys.stdout.write(notice(pauses, now))
    if not page.items:
        sys.stdout.write("There are no such conversations.\n" if status or agent or after else "There are no conversations.\n")
        return
    screen = console()
    drawn = table("CONVERSATION", "AGENT", "STATUS", "PENDING", "AGE", "LAST CHANGE")
    for row in page.items:
        drawn.add_row(*_cells(row, now))
    header, *drawn_rows = lines(screen, drawn)
    screen.print(header, soft_wrap=True)
    for row, line in zip(page.items, drawn_rows, strict=True):
        screen.print(line, soft_wrap=True)
        if row.problem is not None:
            screen.print(f"  it cannot be read: {clean(row.problem)}", style="red", soft_wrap=True)
    if page.next is not None:
        given = {"--status": status, "--agent": agent, "--limit": None if limit == LIMIT else limit, "--after": page.next}
        words = [str(word) for option, value in given.items() if value is not None for word in (option, value)]
        sys.stdout.write(f"\nThere are more: {command(['list', *words], where)}\n")


def _cells(row: ConversationRow, now: int) -> tuple[str, ...]:
    age = span(now - row.created_at) if row.created_at else "?"
    name = clean(row.conversation_id)
    if row.problem is not None or row.status is None:
        return (name or "?", "?", "?", "?", age, "?")
    return (name, clean(row.agent), row.status, str(row.pending), age, f"{span(now - row.updated_at)} ago")
