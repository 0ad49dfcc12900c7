"""A support agent whose refunds wait for a person.

Run it with `ask.py` beside this file. Workers import this module, so it holds declarations and no connections: what tools
need open is opened by `lifespan`, once per worker.
"""

from collections.abc import Iterator

from holdfast import Agent, App, Limits, ToolContext, tool

ORDERS = {"1042": {"item": "mug", "paid": 42.0}, "1043": {"item": "teapot", "paid": 96.0}}


def lifespan(_: App) -> Iterator[dict[str, dict[str, float]]]:
    """Open what the tools share; a database handle in earnest."""
    yield {"refunds": {}}


@tool
def look_up_order(order: str) -> dict[str, object]:
    """What was ordered and what was paid.

    Args:
        order: The order's number.
    """
    return ORDERS[order]


@tool(approval="required", prompt=lambda arguments: f"Refund {arguments['amount']} for order {arguments['order']}?")
def refund(order: str, amount: float, context: ToolContext) -> str:
    """Refund what was paid for an order, or a part of it."""
    key = f"{context.conversation_id}/{context.tool_call_id}"  # the same key if this run is ever repeated
    context.resources["refunds"].setdefault(key, amount)
    return f"refunded {amount:.2f} for order {order}"


@tool(executor="human", response_schema=str, answer_timeout_s=86_400)
def ask_customer(question: str) -> str:
    """Ask the customer a question; the answer is the result, and this body never runs."""


app = App(
    agents=[
        Agent(
            name="support",
            model="openai/gpt-4o-mini",
            instructions="You answer for a tea shop. Look an order up before you refund it.",
            tools=[look_up_order, refund, ask_customer],
            limits=Limits(max_model_calls=10),
        )
    ],
    lifespan=lifespan,
)
