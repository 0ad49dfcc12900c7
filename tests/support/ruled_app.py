"""An app under permission rules that stand in a file beside it: they change without its code."""

import os
from pathlib import Path
from typing import Any

from shop_app import note

from holdfast.agent import Agent, App, Rules, Tool, ToolContext, TurnContext, tool

FILE = Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent")) / "rules.json"


@tool(approval="required", primary="command")
def shell(command: str, context: ToolContext) -> str:
    """Run a command."""
    note("shell", context, command=command)
    return f"ran {command}"


@tool(primary="order")
def lookup(order: str, context: ToolContext) -> str:
    """Look an order up."""
    note("lookup", context, order=order)
    return f"{order} is paid"


@tool
def wipe(context: ToolContext) -> str:
    """Delete everything."""
    note("wipe", context)
    return "it is all gone"


@tool(approval=lambda arguments: arguments["amount"] > 100)
def pay(amount: float, context: ToolContext) -> str:
    """Pay."""
    note("pay", context, amount=amount)
    return f"paid {amount:g}"


def _ships_alone(arguments: dict[str, Any], turn: TurnContext) -> str:
    known = turn.requester is not None and turn.requester.id == (turn.context or {}).get("owner")
    return "auto" if known and arguments["to"] == "home" else "required"


@tool(approval=_ships_alone)
def ship(to: str, context: ToolContext) -> str:
    """Ship."""
    note("ship", context, to=to)
    return f"shipped to {to}"


@tool(executor="client", approval="required", primary="mode")
def camera(mode: str) -> str:
    """Take a picture."""


SEARCHER = Agent(
    name="searcher",
    model="anthropic/claude-sonnet-4-5",
    tools=[
        lookup,
        Tool(name="web_search", executor="provider", definition={"type": "web_search_20250305", "name": "web_search"}),
    ],
)

app = App(
    agents=[
        Agent(name="keeper", instructions="Keep.", tools=[shell, lookup, wipe, pay, ship, camera], client_grace_s=None),
        SEARCHER,
    ],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
    rules=Rules.load(FILE) if FILE.exists() else None,
)
