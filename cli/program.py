"""A program that carries out the calls of a client: arguments on its input, the result on its output."""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from typing import Any

from holdfast.client.handlers import RESULT_BYTES, ClientContext
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput

ERRORS_BYTES = 2_000
"""How many bytes of a program's errors are kept: the last ones."""
END_S = 5.0
"""Seconds between asking a program to end (SIGTERM) and killing it."""
AT_ONCE = 64 * 1024
_WITHHELD = "HOLDFAST_"
"""The prefix of the variables that a program does not get: Holdfast's settings, with tokens, keys and addresses. A program
works on what a model asks for."""


class ProgramFailed(Exception):
    """A program gave no result."""


class Program:
    """A command as a handler. Each call starts it anew, in a session of its own, without a shell.

    It gets the arguments as a JSON object on its input. Its output is the result: a JSON value, or else a text, without the
    line end. Another exit code than 0 is the call's error, with the end of its standard error. It is ended once nobody waits
    for the result any more.

    Raises:
        InvalidInput: The command has no words, or its first word is no program.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise InvalidInput("--exec", f"{command!a:.60} cannot be read ({error})", "close its quotes") from error
        if not self._words or shutil.which(self._words[0]) is None:
            problem = f"there is no program {self._words[0]!a:.60}" if self._words else "it is empty"
            raise InvalidInput("--exec", problem, "name a program in PATH, or give its path")

    async def __call__(self, arguments: dict[str, Any], context: ClientContext) -> Any:
        """The result of the program; raises `ProgramFailed`."""
        process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(context),
            start_new_session=True,
        )
        working = asyncio.ensure_future(_worked(process, jsontext.dumps(arguments)))
        leaving = asyncio.ensure_future(context.wait_cancelled())
        ended = False
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ProgramFailed("nobody waits for its result any more")
            output, errors = working.result()
            ended = True
        finally:
            leaving.cancel()
            try:
                if not ended:
                    await _ended(process)
            finally:  # also if this is cancelled
                working.cancel()
                process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else closes its pipes
            await asyncio.gather(working, leaving, return_exceptions=True)
        if process.returncode:
            raise ProgramFailed(f"it exited with {process.returncode}{': ' if errors else ''}{errors}")
        return result_of(output)


def result_of(output: bytes) -> Any:
    """The result that a program's output stands for; `ProgramFailed` if it is not UTF-8."""
    try:
        text = output.decode()
    except UnicodeDecodeError as error:
        raise ProgramFailed(f"its output is not UTF-8 ({error.reason} at byte {error.start})") from error
    try:
        return jsontext.loads(text)
    except jsontext.NotJson:
        return text.removesuffix("\n")


def _environment(context: ClientContext) -> dict[str, str]:
    call = context.call
    told = {"CONVERSATION": call.conversation_id, "TOOL": call.tool, "CALL": call.tool_call_id, "ATTEMPT": str(context.attempt)}
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(_WITHHELD)}
    return kept | {f"HOLDFAST_ATTACHED_{name}": value for name, value in told.items()}


async def _worked(process: asyncio.subprocess.Process, arguments: str) -> tuple[bytes, str]:
    """The output of a process, and the end of its errors, once it has exited."""
    writing = asyncio.ensure_future(_written(process, arguments.encode()))
    failing = asyncio.ensure_future(_tail(process))
    try:
        output = await _output(process)
        errors = await failing
        await process.wait()
    finally:
        writing.cancel()
        failing.cancel()
        await asyncio.gather(writing, failing, return_exceptions=True)
    return output, errors


async def _written(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # it does not read all of it
            process.stdin.write(data)
            await process.stdin.drain()
        process.stdin.close()


async def _output(process: asyncio.subprocess.Process) -> bytes:
    found = bytearray()
    while process.stdout is not None and (chunk := await process.stdout.read(AT_ONCE)):
        found += chunk
        if len(found) > RESULT_BYTES:
            raise ProgramFailed(f"its output has more than {RESULT_BYTES} bytes")
    return bytes(found)


async def _tail(process: asyncio.subprocess.Process) -> str:
    found = b""
    while process.stderr is not None and (chunk := await process.stderr.read(AT_ONCE)):
        found = (found + chunk)[-ERRORS_BYTES:]
    return found.decode(errors="replace").strip()


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a process, and what it has started: that may run on though the process has exited, and hold its output open."""
    try:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            async with asyncio.timeout(END_S):
                await process.wait()
    except TimeoutError:
        pass
    finally:  # also if this is cancelled
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
