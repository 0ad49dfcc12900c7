"""`holdfast resume`: let new work begin again after `holdfast pause`."""

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.client import Pause

from .display import to_json
from .options import AsJson, Where
from .pauses import described, whose
from .session import reached


def run(
    where: Where,
    *,
    agent: Annotated[str | None, typer.Option(help="Lift this agent's pause; without it, the namespace's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Lift a pause: waiting work goes on by itself. A pause of the namespace and those of agents are lifted one by one."""
    lifted, left, now = asyncio.run(_resume(where, agent))
    if as_json:
        said = {"lifted": None if lifted is None else asdict(lifted), "paused": [asdict(one) for one in left]}
        sys.stdout.write(to_json(said) + "\n")
        return
    if lifted is None:
        sys.stdout.write(f"New work of {whose(agent)} was not paused; nothing was done.\n")
    else:
        sys.stdout.write(f"New work of {whose(agent)} goes on.\n")
    sys.stdout.writelines(f"Still: {described(one, now)}.\n" for one in left)


async def _resume(where: Where, agent: str | None) -> tuple[Pause | None, list[Pause], int]:
    async with reached(where) as opened:
        lifted = await opened.client.resume(agent)
        return lifted, await opened.client.paused(), await opened.now()
