"""The app of the conversations in flight: an agent without tools, so that a turn is one model call, and two with one tool.

How often the model calls the tool is a matter of the stub, which knows it by its name.
"""

from holdfast.agent import Agent, App, tool


@tool
async def look(question: str) -> str:  # noqa: ARG001 - the model's
    """Look it up."""
    return "It is there."


@tool(executor="human")
def ask(question: str) -> str:
    """Ask the user."""


app = App(agents=[Agent(name="flight"), Agent(name="look", tools=[look]), Agent(name="ask", tools=[ask])])
