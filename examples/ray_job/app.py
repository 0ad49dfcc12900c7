"""The app of the job: an agent that answers, and asks a person where it must."""

from holdfast import Agent, App, tool


@tool
def look_up_order(order: str) -> dict[str, object]:
    """What was ordered and what was paid."""
    return {"order": order, "item": "mug", "paid": 42.0}


@tool(approval="required")
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} for order {order}"


app = App(agents=[Agent(name="support", instructions="You answer for a tea shop.", tools=[look_up_order, refund])])
