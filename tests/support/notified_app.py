"""An app with notification targets, whose webhook's address the environment says."""

import os
import signal
from pathlib import Path

from holdfast.agent import Agent, App, Notice, Webhook, tool

EVENTS = ["suspended", "settled", "turn_completed"]


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


async def note(notice: Notice) -> None:
    """Write down, outside, which process was told of what; it dies of the order "deadly"."""
    folder = Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent"))
    with (folder / f"{notice.conversation_id}.told").open("a") as lines:
        lines.write(f"{os.getpid()} {notice.kind} {notice.call.arguments['order'] if notice.call else ''}\n")
    if notice.call and notice.call.arguments["order"] == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)


URL = os.environ.get("NOTIFIED_URL", "http://127.0.0.1:1/")
app = App(
    agents=[Agent(name="desk", tools=[refund])],
    env=["*_API_KEY", "*_API_BASE", "NOTIFIED_URL"],
    notify=[Webhook(URL, secret_env="NOTIFIED_SECRET", events=EVENTS, allow_private=True), note],
)
