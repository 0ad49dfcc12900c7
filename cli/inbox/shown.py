"""One call as the screen shows it: whole, with its path, what a decision does, and its conversation's last messages."""

import asyncio
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.cli.display import clean, clean_block, shorten, span
from holdfast.cli.grants import described
from holdfast.cli.hints import KINDS, asked_by, below, lines_of, touching
from holdfast.cli.questions import drawn
from holdfast.client import AsyncClient
from holdfast.client.inbox.around import Around, around_of, delegated
from holdfast.client.inbox.kinds import asked_in, effect_of, kind_of
from holdfast.client.inbox.text import as_json
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import SuspensionKind
from holdfast.conversation.terms.parts import in_words

MESSAGE_LENGTH = 4_000
TASK_LENGTH, SAID_LENGTH = 1_000, 300
NARROW = 60
"""Columns that any screen has for a text."""
_WRAPPING = Console(file=io.StringIO())
_HEAD, _DIM, _BOLD = "bold underline", "dim", "bold"
_ROLES: Mapping[str, tuple[str, str]] = {
    "user": ("User", "bold green"),
    "assistant": ("Agent", "bold blue"),
    "tool": ("Result", "bold"),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A whole call, and what stands around it."""

    call: AsyncPendingCall
    around: Around = field(default_factory=Around)
    task: str = ""
    above: Mapping[str, str] = field(default_factory=dict)


async def look(client: AsyncClient, call: AsyncPendingCall) -> Shown:
    """The whole call, read anew, and what stands around it; `StaleCall` if it does not wait any more."""
    whole, around, (task, above) = await asyncio.gather(
        client.pending_call(call.suspension_id, conversation_id=call.conversation_id),
        around_of(client.conversation(call.conversation_id)),
        delegated(client, call),
    )
    return Shown(whole, around, task, above)


def text_of(shown: Shown, now: int, ended: str = "", width: int = NARROW) -> Text:
    """All that is shown of a call, in so many columns; `now` is in ms UTC."""
    call, said = shown.call, Text()
    kind = KINDS[call.kind]
    said.append(f"{kind_of(call).label}: {clean(call.tool) or 'unknown'}\n", f"bold {kind.color}")
    left = (
        "no deadline" if call.expires_at is None else f"{span(call.expires_at - now)} left" if call.expires_at > now else "due"
    )
    said.append(f"{clean(call.agent)} · {clean(call.conversation_id)} · waits {span(now - call.created_at)} · {left}\n", _DIM)
    if ended:
        said.append(f"\nIt was {clean(ended)}.\n", "bold reverse")
    if call.problem is not None:
        said.append(f"\nIt cannot be read: {clean(call.problem)}\n", "bold red")
    if asks := "" if call.questions else call.prompt or call.title or "":
        said.append(f"\n{quoted(asks, width)}\n", _BOLD)
    said.append(f"\n{effect_of(call)}\n")
    asker = shown.around.history.senders.get(call.tool_call_id) or call.requester
    facts = [below(call), f"asks for: {clean(call.action)}" if call.action else "", asked_by(call), touching(call)]
    facts += [f"asked for by {clean(asker.id)}"] if asker is not None else []
    facts += lines_of(call, now)
    for fact in filter(None, facts):
        said.append(f"{fact}\n", _DIM)
    said.append(what_of(call, width))
    _around(said, shown, now, width)
    return said


def what_of(call: AsyncPendingCall, width: int = NARROW) -> Text:
    """The report, what is reviewed, the questions or the arguments, whole."""
    said = Text()
    if call.report_md:
        _section(said, "Its report", quoted(call.report_md, width))
    if call.payload is not None:
        _section(said, "What it is about", clean_block(as_json(call.payload)))
    if call.questions is not None:
        _section(said, "Its questions", "\n\n".join(drawn(one, number) for number, one in enumerate(call.questions, 1)))
    elif call.problem is None:
        called = "What it was called with" if call.kind is SuspensionKind.REVIEW else "Arguments"
        _section(said, called, clean_block(as_json(call.arguments)) if call.arguments else "none")
    return said


def _around(said: Text, shown: Shown, now: int, width: int) -> None:
    around = shown.around
    if around.grants:
        _section(said, "Runs without asking here", "\n".join(described(one, now) for one in around.grants))
    if shown.task:
        _section(said, "What it was asked", quoted(shown.task, width, TASK_LENGTH))
    for name, words in shown.above.items():
        _section(said, f"Said last in {clean(name)}, above it", quoted(words, width, SAID_LENGTH))
    said.append("\nLast messages\n", _HEAD)
    if around.problem:
        said.append(f"They cannot be read: {clean(around.problem)}\n", "red")
    for message in around.messages:
        _message(said, message, width)


def _message(said: Text, message: Mapping[str, Any], width: int) -> None:
    role, style = _ROLES.get(str(message.get("role")), (clean(str(message.get("role"))), _BOLD))
    said.append(f"{role}\n", style)
    content = message.get("content")
    if content:
        said.append(f"{quoted(in_words(content), width, MESSAGE_LENGTH)}\n")
    for one in message.get("tool_calls") or ():
        asked = one["function"]
        said.append(f"calls {clean(asked['name'])} {shorten(clean(asked['arguments']), MESSAGE_LENGTH)}\n", "yellow")


def _section(said: Text, head: str, body: str) -> None:
    said.append(f"\n{head}\n", _HEAD)
    said.append(f"{body}\n")


def quoted(text: str, width: int = NARROW, longest: int | None = None) -> str:
    """Somebody else's words, marked line by line so that they cannot pose as this program's, also where a line is wrapped."""
    cut = text if longest is None or len(text) <= longest else f"{text[:longest]}…"
    lines = Text(clean_block(cut.strip("\n"))).wrap(_WRAPPING, max(width - 2, 20), overflow="fold")
    return "\n".join(f"│ {line.plain}" for line in lines)


def headline(call: AsyncPendingCall) -> str:
    """A call in one line, for the title of a question about it."""
    return shorten(f"{clean(call.tool)} of {clean(call.conversation_id)} {clean(asked_in(call))}".strip(), 120)
