"""`holdfast outbox`: what conversations owe and have not delivered, and what was set aside; deliver it now, or drop it."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
ALL = "all"
"""What --retry and --drop take in place of an id, with --target."""


async def run(
    on: Reached,
    *,
    target: Annotated[str | None, typer.Option(metavar="NAME", help="Only what is for the target of that name.")] = None,
    retry: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Deliver this now, also if it was set aside; `all`: all set aside for --target."),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(metavar="ID", help="Remove this undelivered; `all`: all set aside for --target.")
    ] = None,
) -> Said:
    """List what conversations owe notification targets (and each other) and have not delivered, and what was set aside.

    Of each conversation and target the first one is listed; the others follow it in order. What cannot be delivered is tried
    again for 72 hours and then set aside, as is what a target refuses for good. It needs Redis alone.

    Exit code: 1 if what --retry or --drop names is not in the outbox (any more), else 0.
    """
    if retry is not None and drop is not None:
        raise InvalidInput("--drop", "it contradicts --retry", "give one of the two")
    name = drop if retry is None else retry
    if name is not None:
        if (name == ALL) != (target is not None):
            raise InvalidInput(
                "--target", "it goes with `all`, and `all` with it", "say --target NAME --retry all, or give an id"
            )
        act = on.client.drop if retry is None else on.client.redeliver
        if target is not None:
            count = await _done(on, target, act)
            done = "delivered as soon as the target takes them" if retry is not None else "dropped"
            return Said({"target": target, "count": count}, [clean(f"{count} set aside for {target}: {done}.")])
        found = await act(name)
        done = "is delivered as soon as its target takes it" if retry is not None else "is dropped"
        text = f"{name} {done}." if found else f"{name} is not in the outbox (any more)."
        return Said({"id": name, "found": found}, [clean(text)], code=ExitCode.DONE if found else ExitCode.FAILED)
    rows = [row for state in OutboxState for row in await _all(on.client, state, target)]
    return Said({"items": [row.model_dump(mode="json") for row in rows]}, partial(_draw, rows, await on.now()))


async def _done(on: Reached, target: str, act: Callable[[str], Awaitable[bool]]) -> int:
    """Retry or drop what was set aside for a target until now, and not what is set aside again meanwhile; how many it were."""
    now, count = await on.now(), 0
    async for row in _each(on.client, OutboxState.SET_ASIDE, target):
        if (row.set_aside_at or 0) > now:
            break
        count += await act(row.id)
    return count


async def _all(client: AsyncClient, state: OutboxState, target: str | None) -> list[Undelivered]:
    found: list[Undelivered] = []
    async for row in _each(client, state, target):
        found.append(row)
        if len(found) == MOST:
            break
    return found


async def _each(client: AsyncClient, state: OutboxState, target: str | None) -> AsyncIterator[Undelivered]:
    after: str | None = None
    while True:
        page = await client.outbox(state, limit=100, after=after)
        for row in page.items:
            if target is None or row.target == target:
                yield row
        after = page.next
        if after is None:
            return


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
