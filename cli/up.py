"""`holdfast up`: start the embedded stack, or join the configured one; with an app, its workers too."""

import asyncio
import sys
from typing import Annotated

import typer

from . import readiness
from .display import clean
from .options import Where
from .redis_url import masked
from .session import session

READY_S = 120.0


RollBack = Annotated[bool, typer.Option("--roll-back", help="Replace a newer release of Holdfast on purpose.")]


def run(where: Where, *, roll_back: RollBack = False) -> None:
    """Start the embedded stack of the home, or join the configured Redis and Ray; with an app, publish it.

    From then on, all conversations of the app run its code as it is here, with the values that its variables have here.

    The stack keeps running after this command; `holdfast down` stops an embedded one. A Holdfast that
    `holdfast down --cluster` has stopped is started again.
    """
    asyncio.run(_up(where, roll_back=roll_back))


async def _up(where: Where, *, roll_back: bool) -> None:
    async with session(where, with_app=True, roll_back=roll_back, publish=True, lift=True) as opened:
        stack = opened.stack
        transport = await stack.transport()
        store = await stack.store()
        redis = "embedded" if stack.settings.redis_url is None else "configured"
        ray = "embedded" if stack.settings.ray_address is None else "configured"
        await readiness.sweeper(transport.settings, within_s=READY_S)
        lines = [
            f"Redis   {masked(store.url)} ({redis}; store {store.store_id}, namespace {store.namespace})",
            f"Ray     {transport.cluster.address} ({ray}; cluster {transport.cluster.cluster_id}; the sweeper is there)",
        ]
        if stack.app_path is not None:
            pids = await readiness.workers(store, transport.settings, stack.app_path, within_s=READY_S)
            agents = ", ".join(agent.name for agent in stack.app().agents) or "none"
            lines.append(f"app     {stack.app_path} (agents: {agents}; workers: {', '.join(map(str, pids))})")
    sys.stdout.writelines(f"{clean(line)}\n" for line in lines)
