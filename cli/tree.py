"""`holdfast tree`: a conversation, and those below it that it has delegated to."""

from functools import partial
from typing import TYPE_CHECKING

from holdfast.client import Node

from .display import Said, clean, console
from .hints import command
from .options import ConversationId, Where
from .session import Reached

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree


async def run(on: Reached, conversation: ConversationId) -> Said:
    """Show a conversation and those below it: what each does, and how many of its calls wait for a decision.

    Below a conversation are those that its present turn, or its last one, has delegated to.
    """
    found = await on.client.conversation(conversation).tree()
    return Said(found.model_dump(mode="json"), partial(_draw, found, on.where))


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
