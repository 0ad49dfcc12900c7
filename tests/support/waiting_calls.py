"""Calls of each kind that wait, over a server's own store, for tests of the pages."""

import json
from typing import Annotated

from pydantic import Field

from holdfast.agent import Agent, App, tool
from holdfast.client import Approve
from holdfast.testing.writer import Writer, begin, call, lose, resolve, start


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
TOOLS = {"approval": "refund", "elicitation": "ask", "client_exec": "locate", "lost": "ship"}


async def suspended(server, name, kind="approval", arguments=None, *, prompt=None, text="The mug arrived broken.", now=None):
    """The writer of a new conversation that waits for a decision of this kind."""
    writer = server.stack.writers[name] = await Writer.of(server.store, name)
    asked = call((TOOLS[kind], json.dumps(ARGUMENTS if arguments is None else arguments)), prompt=prompt)
    await writer.do(start(text), begin(), asked, now=now)
    if kind == "lost":
        await writer.do(resolve(Approve()), lose(), now=now)
    return writer


def waiting(server, name, kind="approval", arguments=None, **how):
    """The id of the suspension that waits in a new conversation."""

    async def written():
        await suspended(server, name, kind, arguments, **how)
        (view,) = await server.store.pending_of(name)
        return view.suspension_id

    return server.run(written())


def events_of(server, name):
    """The log of a conversation."""
    return [event for _, event in server.run(server.store.read(name, after=0, limit=500))]


def settled(server, name):
    """How the latest suspension of a conversation ended."""
    return next(event for event in reversed(events_of(server, name)) if event.kind == "suspension_settled")
