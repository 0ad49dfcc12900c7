"""The person's own editor, for a text."""

import asyncio
import os
import shlex
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from holdfast.errors import InvalidInput


async def edited(app: App[None], text: str, suffix: str) -> str:
    """The text as the editor of VISUAL or EDITOR (else vi) left it; the screen is the editor's meanwhile.

    Raises:
        InvalidInput: The editor could not be started, or failed; or it left no text.
    """
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:  # it is this user's alone
        file = Path(folder, f"text{suffix}")
        await asyncio.to_thread(file.write_text, text, "utf-8")
        try:
            with app.suspend():
                code = await _run([*words, str(file)])
        except SuspendNotSupported:
            code = await _run([*words, str(file)])
        app.refresh(layout=True)
        if code:
            raise InvalidInput("EDITOR", f"{words[0]} failed ({code})", "nothing was decided; set EDITOR to one that works")
        try:
            return await asyncio.to_thread(file.read_text, "utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("EDITOR", f"what it left is no text ({error})", "nothing was decided") from error


async def _run(words: list[str]) -> int | str:
    try:
        process = await asyncio.create_subprocess_exec(*words)
    except OSError as error:
        return error.strerror or "it cannot be run"
    return await process.wait()
