"""`holdfast outbox`: what conversations owe and have not delivered, and what was set aside; deliver it now, or drop it."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from holdfast.client import AsyncClient
from holdfast.client.outbox import OutboxState, Undelivered
from holdfast.errors import InvalidInput

from .display import Said, clean, shorten, span, write_table
from .errors import ExitCode
from .session import Reached

MOST = 1000
"""How many of each state are listed at most."""
REASON_LENGTH = 80


async def run(
    on: Reached,
    *,
    retry: Annotated[str | None, typer.Option(metavar="ID", help="Deliver this now, also if it was set aside.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="ID", help="Remove this undelivered.")] = None,
) -> Said:
    """List what conversations owe notification targets (and each other) and have not delivered, and what was set aside.

    Of each conversation and target the first one is listed; the others follow it in order. What cannot be delivered is tried
    again for 72 hours and then set aside, as is what a target refuses for good. It needs Redis alone.

    Exit code: 1 if what --retry or --drop names is not in the outbox (any more), else 0.
    """
    if retry is not None and drop is not None:
        raise InvalidInput("--drop", "it contradicts --retry", "give one of the two")
    if retry is not None or drop is not None:
        name = retry if retry is not None else drop or ""
        found = await (on.client.redeliver(name) if retry is not None else on.client.drop(name))
        done = "is delivered as soon as its target takes it" if retry is not None else "is dropped"
        text = f"{name} {done}." if found else f"{name} is not in the outbox (any more)."
        return Said({"id": name, "found": found}, [clean(text)], code=ExitCode.DONE if found else ExitCode.FAILED)
    rows = [row for state in OutboxState for row in await _all(on.client, state)]
    return Said({"items": [row.model_dump(mode="json") for row in rows]}, partial(_draw, rows, await on.now()))


async def _all(client: AsyncClient, state: OutboxState) -> list[Undelivered]:
    found: list[Undelivered] = []
    after: str | None = None
    while len(found) < MOST:
        page = await client.outbox(state, limit=100, after=after)
        found += page.items
        after = page.next
        if after is None:
            break
    return found[:MOST]


def _draw(rows: Sequence[Undelivered], now: int) -> None:
    if not rows:
        sys.stdout.write("Nothing is owed.\n")
        return
    table = [
        [
            *map(
                clean,
                (
                    row.state.replace("_", " "),
                    row.target,
                    row.kind,
                    row.conversation_id,
                    span(now - row.owed_at),
                    "" if row.due_at is None else f"in {span(max(row.due_at - now, 0))}",
                    str(row.waiting or ""),
                    shorten(row.reason, REASON_LENGTH),
                    row.id,
                ),
            )
        ]
        for row in rows
    ]
    write_table(("STATE", "TARGET", "KIND", "CONVERSATION", "AGE", "NEXT TRY", "WAITING", "REASON", "ID"), table)
