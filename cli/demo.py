"""`holdfast demo`: the whole story in a minute, on the embedded default and without an API key."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.client import Answer, Approve, AsyncClient, AsyncConversation, Decision, Receipt, Status
from holdfast.client.results import AsyncPendingCall
from holdfast.client.stack_gateway import at_stack
from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import stop_ray
from holdfast.embedded.local_redis import stop_redis
from holdfast.testing import ModelServer, call, calls, say

from .display import clean, clean_block, to_json

ASKED = "My kettle (order A-1001) arrived broken. Can I have my money back?"
SCRIPT = [
    calls(
        call("look_up_order", {"order": "A-1001"}),
        call("browser_locale", {}),
        call("ask_customer", {"question": "Refund to your card, or as a voucher?"}),
        call("refund", {"order": "A-1001", "amount": 42.0}),
    ),
    say("I am sorry about the kettle. 42.00 EUR are on their way back to your card."),
]
DECISIONS: dict[str, tuple[str, Decision]] = {
    "browser_locale": ("the customer's browser answers", Answer({"language": "de-DE", "time_zone": "Europe/Berlin"})),
    "ask_customer": ("the customer answers", Answer("card")),
    "refund": ("a supervisor approves", Approve()),
}
PATIENCE_S = 90.0


def run(model: str | None = None, *, keep: bool = False) -> int:
    """Run the demo; gives 0 if the story ended as it should, else 1.

    `model` is a real model in litellm's naming, called with the key in the environment; by default a scripted model server
    answers. With `keep`, the home and its servers stay.
    """
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    scripted: AbstractContextManager[Any] = nullcontext() if model else ModelServer(script=SCRIPT)
    began = time.perf_counter()
    with ExitStack() as stack:
        server = stack.enter_context(scripted)
        stack.enter_context(environment(model, server.url if server is not None else None))
        home = Home.open(folder)
        try:
            ended_well = asyncio.run(_story(console, folder))
        finally:
            if keep:
                console.print(f"\nKept running: holdfast pending --home {folder}; holdfast down --home {folder}", style="dim")
            else:
                take_down(home)
    console.print(f"Done in {time.perf_counter() - began:.0f} s.", style="dim")
    return 0 if ended_well else 1


async def _story(console: Console, folder: Path) -> bool:
    console.print(
        Panel.fit(
            "An agent stops where a person must approve, answer or act.\n"
            "Holdfast keeps the stopped conversation: no process waits, no crash loses it, no decision runs twice.",
            title="holdfast demo",
        )
    )
    console.print("Starting a Redis and a Ray of the demo's own (a few seconds) ...", style="dim")
    async with AsyncClient.connect("holdfast.cli.demo_app:app", home=folder, timeout_s=PATIENCE_S) as client:
        conversation = await client.start("support", ASKED, conversation_id="demo")
        _chapter(console, 1, "A customer writes, the model asks for four calls at once")
        console.print(f"  customer: {ASKED}")
        state = await conversation.wait(timeout_s=PATIENCE_S)
        while state.running:
            state = await conversation.wait(after=state.seq, timeout_s=PATIENCE_S)
        if state.status is not Status.AWAITING_INPUT:
            console.print(Text(f"  the conversation is {state.status}: {clean(state.error or state.reply or '')}", style="red"))
            return False
        ran = [clean(message["name"]) for message in await conversation.messages() if message["role"] == "tool"]
        console.print(Text(f"  {', '.join(ran) or 'none'} ran at once; the others wait for someone:"))
        _chapter(console, 2, "What waits (`holdfast pending` shows this, from Redis alone)")
        shown = (await client.pending()).items
        console.print(_table(shown))
        pid = await _kill(client, conversation)
        _chapter(console, 3, f"An actor takes it up; kill -9 {pid}, and that process is gone")
        still = (await client.pending()).items
        same = [item.suspension_id for item in still] == [item.suspension_id for item in shown]
        console.print(f"  still waiting: {len(still)} calls, {'the very same' if same else 'NOT the same'}")
        _chapter(console, 4, "The answers come; the first one revives the conversation")
        times = [await _resolve(console, item) for item in sorted(shown, key=lambda item: list(DECISIONS).index(item.tool))]
        _chapter(console, 5, "The conversation goes on where it stopped")
        state = await conversation.wait(after=times[-1][0].seq, timeout_s=PATIENCE_S)
        _transcript(console, await conversation.messages())
        _figures(console, [milliseconds for _, milliseconds in times], state.seq)
        return state.status is Status.IDLE and same


async def _kill(client: AsyncClient, conversation: AsyncConversation) -> int:
    transport = await at_stack(client.gateway).stack.transport()
    pid = await transport.held(conversation.id)
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(_gone, pid)
    return pid


def _gone(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


async def _resolve(console: Console, item: AsyncPendingCall) -> tuple[Receipt, float]:
    who, decision = DECISIONS[item.tool]
    began = time.perf_counter()
    receipt = await item.resolve(decision)
    milliseconds = (time.perf_counter() - began) * 1000
    value = json.dumps(decision.value) if isinstance(decision, Answer) else ""
    console.print(Text(f"  {who}: {type(decision).__name__}({value})"))
    console.print(f"    receipt: seq {receipt.seq}, durable after {milliseconds:.1f} ms", style="green")
    return receipt, milliseconds


def _chapter(console: Console, number: int, title: str) -> None:
    console.print(Text(f"\n{number}. {title}", style="bold"))


def _table(items: list[AsyncPendingCall]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("tool", "waits for", "arguments", "prompt"):
        table.add_column(name)
    for item in items:
        arguments = ", ".join(f"{clean(name)}={clean(to_json(value))}" for name, value in item.arguments.items())
        table.add_row(Text(clean(item.tool)), item.kind or "-", Text(arguments or "-"), Text(clean_block(item.prompt or "-")))
    return table


def _transcript(console: Console, messages: list[dict[str, Any]]) -> None:
    for message in messages:
        match message:
            case {"role": "tool"}:
                console.print(Text(f"  {clean(message['name'])}: {clean(message['content'])}", style="dim"))
            case {"role": "user"}:
                console.print(Text(f"  customer: {clean_block(message['content'])}"))
            case {"content": str(content)}:
                console.print(Text(f"  agent: {clean_block(content)}", style="bold green"))
            case _:
                names = ", ".join(clean(called["function"]["name"]) for called in message["tool_calls"])
                console.print(Text(f"  agent calls {names}", style="dim"))


def _figures(console: Console, milliseconds: list[float], events: int) -> None:
    warm = sorted(milliseconds[1:])[len(milliseconds[1:]) // 2]
    console.print(
        f"\nFigures: revived and acknowledged in {milliseconds[0]:.0f} ms; a warm decision in {warm:.1f} ms, fsync included; "
        f"{events} events in the log, each once."
    )


@contextmanager
def environment(model: str | None, url: str | None) -> Iterator[None]:
    """Set the demo's environment while the block runs: the scripted model's address, and no settings of the user's stack."""
    before = dict(os.environ)
    for name in ("APP", "REDIS_URL", "RAY_ADDRESS", "NAMESPACE", "HOME", "EMBEDDED"):
        os.environ.pop(f"HOLDFAST_{name}", None)
    if url is not None:
        os.environ.update(OPENAI_API_BASE=url, OPENAI_API_KEY="no-key-needed")
    if model is not None:
        os.environ["HOLDFAST_DEMO_MODEL"] = model
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def take_down(home: Home) -> None:
    """Stop the servers of a demo's home, and remove it."""
    stop_ray(home)
    stop_redis(home)
    shutil.rmtree(home.path, ignore_errors=True)
    shutil.rmtree(home.runtime, ignore_errors=True)
