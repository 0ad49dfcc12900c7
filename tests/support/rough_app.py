"""An app whose tools do what tools must not do."""

import asyncio
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from shop_app import note

from holdfast.agent import Agent, App, Limits, ToolContext, tool

RUNS = Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent"))


@tool
def crash(context: ToolContext) -> str:
    """Take the process down, until somebody has corrected the cause."""
    note("crash", context)
    if not (RUNS / f"{context.conversation_id}.corrected").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "it went well"


@tool
def wait_for_gate(context: ToolContext) -> str:
    """Block until the gate is there."""
    note("wait_for_gate", context)
    while not (RUNS / f"{context.conversation_id}.gate").exists():
        time.sleep(0.02)
    return "the gate is open"


@tool
async def take_a_while(context: ToolContext) -> str:
    """Take five seconds."""
    note("take_a_while", context)
    await asyncio.sleep(5)
    return "it took a while"


@tool
async def until_cancelled(context: ToolContext) -> str:
    """Go on until nobody waits any more, and then a moment longer."""
    note("until_cancelled", context)
    await context.wait_cancelled()
    await asyncio.sleep(0.5)
    note("tidied up", context)
    return "it was stopped"


@tool
def poll_until_cancelled(context: ToolContext) -> str:
    """Do so in a thread."""
    note("until_cancelled", context)
    while not context.cancelled:
        time.sleep(0.01)
    time.sleep(0.5)
    note("tidied up", context)
    return "it was stopped"


@tool
def leave(context: ToolContext) -> str:
    """Call sys.exit."""
    note("leave", context)
    sys.exit(3)


@tool
async def leave_async(context: ToolContext) -> str:
    """Call sys.exit on the event loop."""
    note("leave_async", context)
    sys.exit(3)


@tool
def fork(context: ToolContext) -> str:
    """Fork, and let both come back."""
    note("fork", context)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "forked"


@tool
def chatter() -> str:
    """Print a lot."""
    for number in range(2000):
        print("chatter", number)  # noqa: T201 - the point
        print("chatter", number, file=sys.stderr)  # noqa: T201 - as above
    return "said it all"


@tool
def unserialisable() -> object:
    """Return what is no JSON."""
    return threading.Lock()


@tool
def huge() -> str:
    """Return 300 MB."""
    return "x" * 300_000_000


@tool
def not_a_number() -> float:
    """Return NaN."""
    return float("nan")


@tool(run_timeout_s=1)
def hang() -> str:
    """Block a thread beyond the bound."""
    time.sleep(20)
    return "too late"


@tool(run_timeout_s=1)
async def hang_async() -> str:
    """Wait beyond the bound."""
    await asyncio.sleep(3600)
    return "never"


@tool(run_timeout_s=2)
async def block_the_loop() -> str:
    """Block the event loop that async callbacks share, beyond the bound."""
    time.sleep(20)  # noqa: ASYNC251 - the point
    return "too late"


@tool
async def quick() -> str:
    """Be quick."""
    await asyncio.sleep(0)
    return "quick"


@tool
def stubborn() -> str:
    """Raise what few expect."""
    raise StopIteration("nothing follows")


LEAKED: list[bytearray] = []


@tool
def leak() -> str:
    """Keep 600 MB for good."""
    LEAKED.append(bytearray(os.urandom(1)) * 600_000_000)
    return "leaked"


@tool
async def cancelled_inside() -> str:
    """Wait for something that is cancelled."""
    other = asyncio.create_task(asyncio.sleep(60))
    other.cancel()
    await other
    return "never"


@tool
async def cancels_itself() -> str:
    """Cancel its own task."""
    asyncio.current_task().cancel()
    await asyncio.sleep(0)
    return "never"


class Unspeakable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


@tool
def unspeakable() -> str:
    """Raise what cannot be printed."""
    raise Unspeakable


@tool(on_lost="error")
def hold_the_interpreter(context: ToolContext) -> str:
    """Never give the interpreter back, so that nothing else of the process goes on."""
    note("hold_the_interpreter", context)
    re.match(r"(a+)+$", "a" * 100 + "b")
    return "never"


def checked(conversation: str) -> str:
    """Take the process down that judges the arguments, until somebody has corrected the cause."""
    with (RUNS / conversation).open("a") as lines:
        lines.write(json.dumps({"kind": "checked", "pid": os.getpid()}) + "\n")
    if not (RUNS / f"{conversation}.corrected").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return conversation


@tool
def deadly_to_judge(conversation: Annotated[str, AfterValidator(checked)]) -> str:
    """Have arguments whose check, a part of the model call, takes the process down."""
    return f"judged {conversation}"


TOOLS = [
    *(
        crash,
        wait_for_gate,
        take_a_while,
        until_cancelled,
        poll_until_cancelled,
        leave,
        leave_async,
        fork,
        chatter,
        unserialisable,
        huge,
        not_a_number,
    ),
    *(hang, hang_async, block_the_loop, quick, stubborn, cancelled_inside, cancels_itself, unspeakable, leak),
    *(hold_the_interpreter, deadly_to_judge),
]

app = App(
    agents=[Agent(name="rough", tools=TOOLS, limits=Limits(run_timeout_s=60))],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
)
