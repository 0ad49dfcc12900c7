"""An app whose model asks questions, and that decides by itself where nobody attends."""

from shop_app import note

from holdfast.agent import Agent, App, ToolContext, Unattended, UnattendedCall, ask_user_questions, tool
from holdfast.conversation import Answer, Approve, Decision, Deny


@tool(approval="required")
def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    note("pay", context, amount=amount)
    return f"paid {amount}"


def _about_payments(asked: UnattendedCall) -> Decision:
    if asked.arguments["amount"] > 1_000:
        raise RuntimeError("nobody has said what is done with so much")
    return Approve(reason="small") if asked.arguments["amount"] < 100 else Deny("too much for a night")


def _first_options(asked: UnattendedCall) -> Decision:
    return Answer({one.id: one.options[0] for one in asked.questions or () if one.options})


TOOLS = [ask_user_questions, pay]
app = App(
    agents=[
        Agent(name="host", instructions="Ask.", tools=TOOLS),
        Agent(name="clerk", tools=TOOLS, unattended=Unattended(approvals="deny", questions="defaults")),
        Agent(name="night", tools=TOOLS, unattended=Unattended(approvals=_about_payments, questions=_first_options)),
    ],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
)
