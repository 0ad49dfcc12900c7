"""`holdfast list`: all conversations."""

import sys
from dataclasses import asdict
from typing import Annotated, Any

from holdfast.client.filters import CONVERSATIONS
from holdfast.persistence import ConversationRow

from .display import clean, span, to_json, write_table
from .hints import more, notice, standing
from .options import PAGE, AsJson, chosen, options_of
from .session import Reached


async def run(on: Reached, *, as_json: AsJson = False, **filters: Annotated[Any, options_of(CONVERSATIONS), PAGE]) -> None:
    """List conversations, oldest first."""
    given = chosen(filters)
    page = await on.client.conversations(**given)
    pauses, now = await standing(on.client), await on.now()
    if as_json:
        said = {"items": [asdict(row) for row in page.items], "next": page.next, "paused": [asdict(one) for one in pauses]}
        sys.stdout.write(to_json(said, indent=2) + "\n")
        return
    sys.stdout.write(notice(pauses, now))
    if not page.items:
        narrowed = given.keys() - {"limit"}
        sys.stdout.write("There are no such conversations.\n" if narrowed else "There are no conversations.\n")
        return
    problems = [[(f"it cannot be read: {clean(row.problem)}", "red")] if row.problem is not None else [] for row in page.items]
    columns = ("CONVERSATION", "AGENT", "STATUS", "PENDING", "AGE", "LAST CHANGE")
    write_table(columns, [_cells(row, now) for row in page.items], below=problems.__getitem__)
    if page.next is not None:
        sys.stdout.write(more("list", given, page.next, on.where))


def _cells(row: ConversationRow, now: int) -> tuple[str, ...]:
    age = span(now - row.created_at) if row.created_at else "?"
    name = clean(row.conversation_id)
    if row.problem is not None or row.status is None:
        return (name or "?", "?", "?", "?", age, "?")
    status = row.status if row.stopped is None else f"{row.status} (stopped: {row.stopped})"
    return (name, clean(row.agent), status, str(row.pending), age, f"{span(now - row.updated_at)} ago")
