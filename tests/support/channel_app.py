"""An app that tells a channel and a mailbox, whose messages have links, and writes down what its workers' environment has."""

import os
from pathlib import Path

from holdfast.agent import Agent, App, Email, Notice, Notify, Slack, tool
from holdfast.conversation import Principal

DECIDER = Principal("finance-channel", roles=["finance"])
ANA = Principal("ana@shop.example", roles=["finance"])


def write_down(name: str, text: str) -> None:
    """Note something outside, for the test."""
    with (Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent")) / name).open("a") as lines:
        lines.write(f"{text}\n")


@tool(approval="required", approvers=["role:finance"])
def refund(order: str) -> str:
    """Refund an order."""
    begun_with = Path("/proc/self/environ").read_text()
    write_down(f"{order}.environment", f"{'LINK_KEYS' in begun_with} {'HOLDFAST_LINK_KEYS' in os.environ}")
    return f"refunded {order}"


async def note(notice: Notice) -> None:
    """Write down the links that a function gets."""
    write_down(f"{notice.call.arguments['order']}.links", " ".join(notice.links) or "none")


app = App(
    agents=[Agent(name="desk", tools=[refund]), Agent(name="mailer", tools=[refund])],
    env=["*_API_KEY", "*_API_BASE", "MAIL_PORT", "SSL_CERT_FILE"],
    notify=[
        Slack(url_env="CHANNEL_URL", events=["suspended", "settled"], agents=["desk"], decider=DECIDER, allow_private=True),
        Email(
            "ana@shop.example",
            sender="desk@shop.example",
            host="localhost",
            port=int(os.environ.get("MAIL_PORT", "587")),
            agents=["mailer"],
            decider=ANA,
        ),
        Notify(note, events=["suspended"], agents=["desk"], decider=DECIDER),
    ],
)
