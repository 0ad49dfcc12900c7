"""The demo's app: a support agent with a gated refund, a question to a person, and a lookup in the user's browser."""

import os

from holdfast.agent import Agent, App, ToolContext, tool

ORDERS = {"A-1001": {"item": "kettle", "paid": 42.0, "delivered": "2026-11-18"}}


@tool
def look_up_order(order: str) -> dict[str, object]:
    """Look an order up."""
    return dict(ORDERS.get(order, {"error": "no such order"}))


@tool(approval="required", prompt=lambda arguments: f"Refund {arguments['amount']} EUR for order {arguments['order']}?")
async def refund(order: str, amount: float, context: ToolContext) -> str:
    """Refund money for an order. A person approves before it runs."""
    return f"refunded {amount:.2f} EUR for {order}, reference {context.tool_call_id[-6:]}"


@tool(executor="human", response_schema={"enum": ["card", "voucher"]}, prompt=lambda arguments: str(arguments["question"]))
def ask_customer(question: str) -> str:  # type: ignore[empty-body]
    """Ask the customer a question: card or voucher."""


@tool(executor="client")
def browser_locale() -> dict[str, str]:  # type: ignore[empty-body]
    """Ask the customer's browser for its language and time zone."""


INSTRUCTIONS = """You are a support agent of a kettle shop. When a customer asks for a refund, make these calls at once, in
one message: look_up_order for the order, browser_locale, ask_customer with the question "Refund to your card, or as a
voucher?", and refund with the order and the amount 42. When all have answered, tell the customer in two short sentences what
was done."""

app = App(
    agents=[
        Agent(
            name="support",
            model=os.environ.get("HOLDFAST_DEMO_MODEL", "openai/gpt-4o-mini"),
            instructions=INSTRUCTIONS,
            tools=[look_up_order, refund, ask_customer, browser_locale],
        )
    ],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_DEMO_*"],
)
