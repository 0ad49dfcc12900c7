"""An agent of a tea shop that looks into the customer's cart in the browser, asks for a day, and orders once it is approved.

`server.py` beside this file serves the chat with it.
"""

from holdfast import Agent, App, ToolContext, tool

DAYS = ["Monday", "Wednesday", "Friday"]


@tool(executor="client")
def cart() -> list[dict[str, str | int]]:
    """What is in the customer's cart: the page looks it up. Whoever has the page may say what they like."""


@tool(executor="human", response_schema={"enum": DAYS, "title": "Day of delivery"})
def ask_day(question: str) -> str:
    """Ask the customer for the day of the delivery."""


@tool(
    approval="required", prompt=lambda arguments: f"Order {arguments['quantity']} x {arguments['item']} for {arguments['day']}?"
)
def order(item: str, quantity: int, day: str, context: ToolContext) -> str:
    """Order an item; the customer approves it."""
    key = f"{context.conversation_id}/{context.tool_call_id}"  # the idempotency key for what takes the order
    return f"ordered {quantity} x {item} for {day} under {key}"


app = App(
    agents=[
        Agent(
            name="shop",
            model="openai/gpt-4o-mini",
            instructions="You take orders for a tea shop. Look into the cart, ask for the day, then order.",
            tools=[cart, ask_day, order],
        )
    ],
)
