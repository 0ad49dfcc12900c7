"""`holdfast pause`: stop new work, of an agent or of the whole namespace."""

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.client import Pause

from .display import clean, to_json
from .hints import command
from .options import AsJson, Where
from .pauses import described
from .session import reached


def run(
    where: Where,
    *,
    agent: Annotated[str | None, typer.Option(help="Only this agent's work.")] = None,
    reason: Annotated[str, typer.Option(help="The reason, shown wherever the pause is.")] = "",
    as_json: AsJson = False,
) -> None:
    """Stop new work until `holdfast resume`: turns, model calls and runs that have not begun wait, and nothing is lost.

    Work that has begun goes on. Messages, decisions, cancellations, ends and deadlines are recorded as before. Once this
    command has ended, no new work begins. It needs Redis alone.

    With --json, `known` is false where no conversation has the agent, which may be misspelt.
    """
    pause, known, now = asyncio.run(_pause(where, agent, reason))
    if as_json:
        sys.stdout.write(to_json(asdict(pause) | {"known": known}) + "\n")
        return
    standing = " It was paused before; nothing was changed." if pause.duplicate else ""
    words = ["resume", *(["--agent", agent] if agent is not None else [])]
    sys.stdout.write(f"{described(pause, now)}.{standing}\nTo go on: {command(words, where)}\n")
    if not known:
        sys.stderr.write(clean(f"note: there is no conversation of an agent {agent!r} here") + "\n")


async def _pause(where: Where, agent: str | None, reason: str) -> tuple[Pause, bool, int]:
    async with reached(where) as opened:
        pause = await opened.client.pause(agent, reason)
        known = agent is None or bool((await opened.client.conversations(agent=agent, limit=1)).items)
        return pause, known, await opened.now()
