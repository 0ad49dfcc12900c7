"""An app whose agents ask each other: an orchestrator, compliance below it, and refunds that a person approves below that."""

from typing import Any

from holdfast.agent import Agent, App, Limits, delegate, tool


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


def for_compliance(context: Any) -> Any:
    """What compliance is given of the orchestrator's context."""
    return {"order": context["order"]} if context else None


payments = Agent(name="payments", tools=[refund])
compliance = Agent(name="compliance", tools=[delegate(payments, name="pay")])
orchestrator = Agent(
    name="orchestrator",
    tools=[
        delegate(compliance, name="check", deadline_s=600, context=for_compliance),
        delegate("payments", name="pay", approval="required"),
    ],
    limits=Limits(descendants=12),
)
app = App(agents=[orchestrator, compliance, payments])
