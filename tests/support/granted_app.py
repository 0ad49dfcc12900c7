"""An app whose tools say what they touch, so that grants cover their calls; one does not say it."""

from typing import Any

from shop_app import note

from holdfast.agent import Agent, App, ToolContext, tool
from holdfast.conversation import Target


def _written(arguments: dict[str, Any]) -> list[Target]:
    """The file that is written, and where it goes."""
    file = Target("path", arguments["path"], level="write")
    return [file, Target("domain", arguments["to"], level="write")] if arguments.get("to") else [file]


@tool(approval="required", targets=_written)
def write(path: str, context: ToolContext, to: str = "") -> str:
    """Write a file, here or at a host."""
    note("write", context, path=path)
    return f"wrote {path}"


@tool(approval="required")
def deploy(context: ToolContext) -> str:
    """Deploy."""
    note("deploy", context)
    return "deployed"


app = App(
    agents=[Agent(name="editor", instructions="Edit.", tools=[write, deploy])],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
)
