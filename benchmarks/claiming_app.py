"""The app of the benchmark of claims: an agent that asks a person, and one whose tool a client carries out."""

from benchmarks.bench_app import ask
from holdfast import Agent, App, tool


@tool(executor="client")
def locate(question: str) -> str:
    """Find out where the user is."""


app = App(agents=[Agent(name="asks", tools=[ask]), Agent(name="locates", tools=[locate])])
