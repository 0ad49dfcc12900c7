"""`holdfast demo`: the whole story in a minute."""

from importlib import import_module
from typing import Annotated

import typer


def run(
    *,
    model: Annotated[str | None, typer.Option(help="A real model, as litellm names it; its key is in the environment.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's stack running at the end.")] = False,
) -> int | None:
    """Show in a minute how a conversation waits, dies and is revived; without an API key."""
    code: int | None = import_module(".demo", __package__).run(model=model, keep=keep)
    return code
