"""An app whose calls are for certain people to decide: by a role, by the amount, by two of them, and by a rule."""

from typing import Any

from shop_app import note

from holdfast.agent import Agent, App, Approvers, Rule, Rules, ToolContext, tool

SECRET = Rule("lookup(secret-*)", name="secret orders", reason="They are secret.", approvers=["role:board"])


@tool(approval="required", approvers=Approvers("role:finance", minimum=2, not_requester=True))
def transfer(amount: float, context: ToolContext) -> str:
    """Transfer."""
    note("transfer", context, amount=amount)
    return f"transferred {amount:g}"


def _by_amount(arguments: dict[str, Any]) -> list[str]:
    return ["role:cfo"] if arguments["amount"] > 10_000 else ["role:finance"]


@tool(approval="required", approvers=_by_amount)
def pay(amount: float, context: ToolContext) -> str:
    """Pay."""
    note("pay", context, amount=amount)
    return f"paid {amount:g}"


@tool(primary="order")
def lookup(order: str, context: ToolContext) -> str:
    """Look an order up."""
    note("lookup", context, order=order)
    return f"{order} is paid"


app = App(
    agents=[Agent(name="treasury", instructions="Keep.", tools=[transfer, pay, lookup])],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
    rules=Rules(ask=[SECRET]),
)
