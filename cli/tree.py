"""`holdfast tree`: a conversation, and those below it that it has delegated to."""

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.client import Event, Node
from holdfast.errors import InvalidInput

from .display import Said, clean, console, shorten, to_json
from .hints import command
from .options import AsJson, ConversationId, Where
from .session import Reached, within

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree


SAID = ("tool", "text", "content", "error", "reason")
"""The fields of an event that its line shows."""
SAID_LENGTH = 200


def run(
    where: Where,
    conversation: ConversationId,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Print the events of all of them as they come, until Ctrl-C.")] = False,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="With --watch: only events after this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a conversation and those below it: what each does, and how many of its calls wait for a decision.

    Below a conversation are those that its present turn, or its last one, has delegated to. `--watch` begins with the
    conversation's first event, and ends with the conversation; with `--json` each line is one event, with its `cursor`.
    """
    if after is not None and not watch:
        raise InvalidInput("--after", "it needs --watch", "add --watch, or leave it out")
    if not watch:
        within(where, partial(_show, conversation=conversation, as_json=as_json))
        return
    with contextlib.suppress(KeyboardInterrupt):
        within(where, partial(_watch, conversation=conversation, after=after or 0, as_json=as_json))


async def _show(on: Reached, *, conversation: str, as_json: bool) -> None:
    found = await on.client.conversation(conversation).tree()
    Said(found.model_dump(mode="json"), partial(_draw, found, on.where)).write(as_json=as_json)


async def _watch(on: Reached, *, conversation: str, after: str | int, as_json: bool) -> None:
    async for event in on.client.conversation(conversation).events(descendants=True, live=False, after=after):
        sys.stdout.write((_as_json(event) if as_json else _told(event)) + "\n")
        sys.stdout.flush()


def _as_json(event: Event) -> str:
    names = ("conversation_id", "seq", "kind", "at", "data", "cursor")
    return to_json({name: getattr(event, name) for name in names})


def _told(event: Event) -> str:
    said = " ".join(str(event.data[name]) for name in SAID if event.data.get(name))
    return f"{clean(event.conversation_id)}  {event.kind}  {shorten(clean(said), SAID_LENGTH)}".rstrip()


def _draw(root: Node, where: Where) -> None:
    from rich.tree import Tree  # noqa: PLC0415 - `--json` does without

    drawn = Tree(_line(root), highlight=False)
    _grow(drawn, root)
    screen = console()
    screen.print(drawn, soft_wrap=True)
    if any(one.pending for one in root.walk()):
        screen.print(f"\nWhat waits: {command(['pending', '--root', root.conversation_id], where)}", soft_wrap=True)


def _grow(drawn: "Tree", node: Node) -> None:
    for child in node.children:
        _grow(drawn.add(_line(child)), child)
    if node.left_out:
        drawn.add(f"and {node.left_out} more")


def _line(node: Node) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - as above

    line = Text(clean(node.conversation_id))
    line.append(f"  {clean(node.agent) or '?'}", "bold")
    if node.status is not None:
        line.append(f"  {node.status}")
    if node.pending:
        line.append(f", {node.pending} pending", "yellow")
    if node.problem is not None:
        line.append(f"  ({clean(node.problem)})", "dim")
    return line
