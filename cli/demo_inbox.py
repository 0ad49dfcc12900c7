"""`holdfast demo --inbox`: a few pending calls, and the inbox to decide them in, until Ctrl-C."""

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.client import AsyncClient
from holdfast.embedded.home import Home
from holdfast.testing import ModelServer, call, calls, say

from .demo import PATIENCE_S, environment, take_down
from .serve import check_installed

CUSTOMERS = (
    ("kettle-1001", "A-1001", 42.0, "My kettle (order A-1001) arrived broken. Can I have my money back?"),
    ("teapot-1002", "A-1002", 18.5, "The lid of the teapot from order A-1002 is **missing**."),
    ("mugs-1003", "A-1003", 240.0, "I ordered six mugs (A-1003):\n\n- two came\n- four did not"),
)


def run(port: int) -> int:
    """Run the inbox until Ctrl-C; gives the exit code. Port 0 takes any free port."""
    check_installed()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    with ExitStack() as stack:
        server = stack.enter_context(ModelServer(script=_played))
        stack.enter_context(environment(None, server.url))
        home = Home.open(folder)
        stack.callback(take_down, home)
        asyncio.run(_served(Console(highlight=False), folder, port))
    return 0


async def _served(console: Console, folder: Path, port: int) -> None:
    from holdfast.server import create_app, sign_in_link  # noqa: PLC0415 - the extra `server`
    from holdfast.server.listening import listen, open_socket  # noqa: PLC0415 - as above

    opened = open_socket("127.0.0.1", port)
    console.print("Starting a Redis and a Ray of the demo's own (a few seconds) ...", style="dim")
    async with AsyncClient.connect("holdfast.cli.demo_app:app", home=folder, timeout_s=PATIENCE_S) as client:
        for name, _, _, text in CUSTOMERS:
            await client.start("support", text, conversation_id=name)
        app = create_app(client)

        def ready(url: str) -> None:
            console.print(f"\n{len(CUSTOMERS)} customers wait. Open this link in a browser, and sign in there:", style="bold")
            console.print(sign_in_link(app, url), soft_wrap=True)
            console.print("Decide what waits: each agent then goes on by itself. Ctrl-C ends the demo.", style="dim")

        await listen(app, opened, ready=ready)


def _played(request: dict[str, Any]) -> dict[str, Any]:
    """The model's answer to a customer: its calls at once, and a last text after their results."""
    text = next(message["content"] for message in request["messages"] if message["role"] == "user")
    order, amount = next((order, amount) for _, order, amount, said in CUSTOMERS if said == text)
    if any(message["role"] == "tool" for message in request["messages"]):
        return say("I am sorry about that. What was decided about your refund is done.")
    return calls(
        call("look_up_order", {"order": order}),
        call("ask_customer", {"question": "Refund to your card, or as a voucher?"}),
        call("refund", {"order": order, "amount": amount}),
        content="Let me see to that.",
    )
