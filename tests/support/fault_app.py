"""The app of the fault tests: runs that are held and counted from outside, one tool for each meaning of a lost run."""

import asyncio

from shop_app import _gate, note

from holdfast import Approvers, Compact, Context, Deny, Escalate
from holdfast.agent import Agent, App, Budget, Limits, Stop, Suspend, ToolContext, delegate, tool


async def _held(kind: str, context: ToolContext) -> str:
    note(kind, context)
    while not _gate(context).exists():
        await asyncio.sleep(0.02)
    return f"{kind} is done"


@tool(approval="required")
async def pay(context: ToolContext) -> str:
    """Pay; a person is asked what became of it if its run is lost."""
    return await _held("pay", context)


@tool(approval="required", on_lost="error")
async def pay_once(context: ToolContext) -> str:
    """Pay; the model reads that the outcome is unknown if its run is lost."""
    return await _held("pay_once", context)


@tool(approval="required", on_lost="redispatch")
async def pay_by_key(context: ToolContext) -> str:
    """Pay at a service that knows the key; a run that is lost may run again."""
    return await _held("pay_by_key", context)


@tool(approval="required", approvers=Approvers(minimum=2, stated=True))
async def pay_by_two(context: ToolContext) -> str:
    """Pay, once two people have agreed."""
    return await _held("pay_by_two", context)


@tool(
    approval="required",
    approval_timeout_s=5,
    on_timeout=Escalate(["role:lead"], for_s=4, then=Deny("too late")),
    reminders_s=[2],
)
async def pay_in_time(context: ToolContext) -> str:
    """Pay, if somebody has the time: others are asked after a while, and then it is denied."""
    return await _held("pay_in_time", context)


@tool
async def pay_reviewed(context: ToolContext) -> str:
    """Pay once a person has looked at it; the body says what is to be looked at."""
    done = await _held("pay_reviewed", context)
    if context.decision is None:
        raise Suspend("Pay?", payload={"amount": 5}, resume="pass_to_tool")
    return f"{done}: {context.decision.verdict}"


@tool(on_lost="redispatch")
async def look(context: ToolContext) -> str:
    """Look it up, without asking anybody."""
    return await _held("look", context)


@tool(executor="human")
def ask(question: str) -> str:
    """Ask the user."""


@tool(executor="human", answer_timeout_s=4)
def ask_briefly(question: str) -> str:
    """Ask the user, who has little time."""


@tool(approval="required")
def refund(context: ToolContext) -> str:
    """Refund; nobody holds it."""
    note("refund", context)
    return "refunded"


@tool(executor="client")
def locate() -> str:
    """Where the user is."""


@tool(executor="client", on_lost="error")
def stamp() -> str:
    """Stamp the user's card, once."""


@tool(executor="client", approval="required", on_lost="redispatch")
def camera() -> str:
    """Take a picture."""


till = Agent(
    name="till",
    instructions="Sell.",
    tools=[pay, pay_once, pay_by_key, pay_by_two, pay_in_time, pay_reviewed, look, ask, ask_briefly],
)
payments = Agent(name="payments", tools=[refund])
compliance = Agent(name="compliance", tools=[delegate(payments, name="pay_back")])
orchestrator = Agent(name="orchestrator", tools=[delegate(compliance, name="check")])
desk = Agent(
    name="desk",
    tools=[
        delegate(payments, name="hand_over"),
        delegate(payments, name="hand_over_soon", deadline_s=6),
        delegate(payments, name="hand_over_asked", approval="required"),
    ],
)
counter = Agent(name="counter", tools=[locate, stamp, camera], client_grace_s=None, limits=Limits(client_timeout_s=600))
writer = Agent(name="writer", context=Context(budget=2000, preview=None, compact=Compact()))
frugal = Agent(name="frugal", tools=[look], budget=Budget(tokens=10**9, per="day"))
tight = Agent(name="tight", budget=Budget(tokens=1, per="day"))
careful = Agent(name="careful", tools=[look], stop=Stop(content="careful", then="ask"))
agents = [till, orchestrator, compliance, payments, desk, counter, writer, frugal, tight, careful]
app = App(agents=agents, env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"])
