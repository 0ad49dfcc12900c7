"""`holdfast demo`: the whole story in a minute."""

from importlib import import_module
from typing import Annotated

import typer


def run(
    *,
    model: Annotated[str | None, typer.Option(help="A real model, as litellm names it; its key is in the environment.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's stack running at the end.")] = False,
    inbox: Annotated[bool, typer.Option("--inbox", help="Let conversations wait in the inbox, in a browser.")] = False,
    port: Annotated[int, typer.Option(help="The port of the inbox; 0 takes any that is free.")] = 8484,
) -> int | None:
    """Show in a minute how a conversation waits, dies and is revived; without an API key.

    With `--inbox`, some conversations wait for you in the browser instead, until Ctrl-C (`pip install 'holdfast[server]'`).
    """
    if inbox:
        shown: int | None = import_module(".demo_inbox", __package__).run(port)
        return shown
    code: int | None = import_module(".demo", __package__).run(model=model, keep=keep)
    return code
