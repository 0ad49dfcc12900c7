"""The benchmarks' app: one agent that asks a person."""

from holdfast.agent import Agent, App, tool


@tool(executor="human")
def ask(question: str) -> str:
    """Ask the user."""


app = App(agents=[Agent(name="bench", tools=[ask])])
