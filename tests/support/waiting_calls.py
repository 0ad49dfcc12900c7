"""Calls of each kind that wait, over a server's own store, for tests of the pages."""

import json
from typing import Annotated

from pydantic import Field
from writer import DESK, Writer, begin, call, lose, resolve, start, suspend

from holdfast.agent import Agent, App, tool
from holdfast.client import Approve
from holdfast.conversation import AgentSpec, Approval, Choice, Limits, Stop, ToolSpec
from holdfast.conversation.records.commands import ProposedCall


@tool(approval="required")
def refund(order: str, amount: Annotated[float, Field(gt=0, le=500)] = 10, note: str | None = None) -> str:
    """Refund an order."""
    return f"{order}: {amount} {note}"


@tool(executor="human", response_schema=str)
def ask(question: str) -> str:
    """Ask the customer a question."""
    return question


APP = App(agents=[Agent(name="desk", tools=[refund, ask])])
"""An app that says more of the tools that the writers' agent has."""
ARGUMENTS = {"order": "A1042"}
TOOLS = {
    "approval": "refund",
    "elicitation": "ask",
    "client_exec": "locate",
    "lost": "ship",
    "review": "lookup",
    "limit": "lookup",
}
REVIEW = {
    "title": "Publish the July report?",
    "message": "It goes to 240 customers.",
    "report_md": "# July\n\n- **Refunds** are up by 4 %\n- Complaints are down\n",
    "payload": json.dumps({"recipients": 240, "subject": "Your July report"}),
    "action": "publish",
}
"""What a review asks here, unless a test says otherwise."""


def narrowed(*decisions, response_schema=None):
    """A desk whose refund lets a person say these things alone."""
    choices = tuple(Choice(one) for one in decisions)
    refunds = ToolSpec(
        name="refund", approval=Approval.REQUIRED, decisions=choices, response_schema=response_schema, parameters=PARAMETERS
    )
    return AgentSpec(name="desk", model="test/model", tools=(refunds,), limits=Limits(approval_timeout_s=3600))


PARAMETERS = '{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}'


async def suspended(
    server,
    name,
    kind="approval",
    arguments=None,
    *,
    prompt=None,
    text="The mug arrived broken.",
    now=None,
    spec=DESK,
    review=None,
    calls=1,
    ruled=None,
    targets=None,
):
    """The writer of a new conversation that waits for a decision of this kind, on so many calls of one answer."""
    writer = server.stack.writers[name] = await Writer.of(server.store, name)
    if kind == "limit":
        spec = DESK.model_copy(update={"stop": Stop(tokens=100, then="ask")})
    writer.spec = spec
    asked = (TOOLS[kind], json.dumps(ARGUMENTS if arguments is None else arguments))
    if ruled is not None or targets is not None:
        called = {"tool_call_id": "call_ruled", "name": asked[0], "arguments": asked[1]}
        asked = ProposedCall(**called, ruled=ruled, targets=targets)
    await writer.do(start(text, spec=None if spec is DESK else spec), begin(), now=now)
    used = {"output_tokens": 120} if kind == "limit" else {}
    await writer.do(call(*[asked] * calls, prompt=prompt, **used), now=now)
    if kind == "lost":
        await writer.do(resolve(Approve()), lose(), now=now)
    if kind == "review":
        await writer.do(suspend(**(REVIEW | (review or {}))), now=now)
    return writer


def waiting(server, name, kind="approval", arguments=None, **how):
    """The id of the suspension that waits in a new conversation."""

    (suspension_id,) = all_waiting(server, name, kind, arguments, **how)
    return suspension_id


def all_waiting(server, name, kind="approval", arguments=None, **how):
    """The ids of the suspensions that wait in a new conversation, in the model's order."""

    async def written():
        await suspended(server, name, kind, arguments, **how)
        return [view.suspension_id for view in await server.store.pending_of(name)]

    return server.run(written())


def events_of(server, name):
    """The log of a conversation."""
    return [event for _, event in server.run(server.store.read(name, after=0, limit=500))]


def settled(server, name):
    """How the latest suspension of a conversation ended."""
    return next(event for event in reversed(events_of(server, name)) if event.kind == "suspension_settled")
