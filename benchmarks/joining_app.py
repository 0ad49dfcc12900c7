"""The app of the benchmark of what comes into a turn: a tool that takes a while, and one for a person."""

import asyncio
import time

from holdfast.agent import Agent, App, tool

SLOW_S = 1.0


@tool
async def slow() -> str:
    """Take a while; returns when it ended, in seconds."""
    await asyncio.sleep(SLOW_S)
    return repr(time.time())


@tool(executor="human")
def ask() -> str:
    """Ask a person."""


app = App(agents=[Agent(name="bench", tools=[slow, ask])])
