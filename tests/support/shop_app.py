"""The app that fault and concurrency tests use: each kind of tool, and runs that can be held and counted from outside."""

import asyncio
import json
import os
import time
from pathlib import Path

from holdfast.agent import Agent, App, Context, Limits, Tool, ToolContext, tool

RUNS = Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent"))


def note(kind: str, context: ToolContext, **more: object) -> None:
    """Write down, outside, that a body ran: one line in the conversation's file."""
    entry = {"kind": kind, "key": context.tool_call_id, "attempt": context.attempt, "pid": os.getpid(), **more}
    with (RUNS / context.conversation_id).open("a") as lines:
        lines.write(json.dumps(entry) + "\n")


def _gate(context: ToolContext) -> Path:
    return RUNS / f"{context.conversation_id}.gate"


@tool
def lookup(order: str) -> dict[str, object]:
    """Look an order up."""
    return {"order": order, "total": 42}


@tool(approval="required")
async def refund(order: str, amount: float, context: ToolContext) -> str:
    """Refund an order."""
    note("refund", context, order=order, amount=amount)
    return f"refunded {amount:g} of {order}"


@tool
def slow(context: ToolContext) -> str:
    """Block until the gate is there."""
    note("slow", context)
    while not _gate(context).exists():
        time.sleep(0.02)
    return "slow is done"


@tool(approval="required")
async def slow_refund(context: ToolContext) -> str:
    """Wait until the gate is there, without blocking."""
    note("slow_refund", context)
    while not _gate(context).exists():
        await asyncio.sleep(0.02)
    return "refunded slowly"


@tool(streaming=True)
async def report(context: ToolContext) -> str:
    """Report progress."""
    for step in range(3):
        context.report_progress({"step": step})
    return "reported"


@tool(executor="human")
def ask(question: str) -> str:
    """Ask the user."""


@tool(executor="human", answer_timeout_s=1.5)
def ask_briefly(question: str) -> str:
    """Ask the user, who has little time."""


@tool(executor="human", response_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
def ask_number(question: str) -> dict:
    """Ask for a number."""


@tool(executor="client")
def where() -> dict[str, float]:
    """Where the user is."""


@tool(executor="client", approval="required")
def camera(mode: str) -> str:
    """Take a picture."""


@tool(executor="client")
def look(mode: str = "", n: int = 0) -> str:
    """Look around."""


@tool(executor="client", on_lost="error")
def pay() -> str:
    """Pay with the user's device."""


@tool
def manual(page: int) -> str:
    """Read the manual."""
    return "\n".join(f"{page}.{number}: press the button {number} times" for number in range(2000))


READER = Agent(name="reader", instructions="Read.", tools=[manual], context=Context(budget=50_000))
"""An agent whose long results are sent as previews."""
BRIEF = Agent(name="phone", instructions="Look around.", tools=[look], limits=Limits(client_timeout_s=4), client_grace_s=1)
"""An agent whose clients have little time."""
BUYER = Agent(name="buyer", instructions="Buy.", tools=[look, pay, camera, ask], client_grace_s=1)

TOOLS = [lookup, refund, slow, slow_refund, report, ask, ask_briefly, ask_number, where, camera]

SCHOLAR = Agent(
    name="scholar",
    model="anthropic/claude-sonnet-4-5",
    instructions="Search.",
    tools=[
        refund,
        Tool(name="web_search", executor="provider", definition={"type": "web_search_20250305", "name": "web_search"}),
    ],
)

app = App(
    agents=[
        Agent(name="support", instructions="Help.", tools=TOOLS, client_grace_s=None),
        Agent(name="clerk", instructions="File.", overridable={"model": ["openai/gpt-4o"], "max_tokens": 500}),
        SCHOLAR,
        BRIEF,
        BUYER,
        READER,
    ],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
)
