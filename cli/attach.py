"""`holdfast attach`: carry out the calls of a client in a conversation, by a program on this machine."""

import asyncio
import contextlib
import signal
import sys
from functools import partial
from typing import Annotated, Any

import typer

from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import OnDetach

from .display import clean, shorten, to_json
from .options import AsJson, ConversationId, Where
from .program import Program
from .session import Reached, within

WORDS_LENGTH = 200
SAID = {
    "claimed": "is claimed",
    "answered": "has its result",
    "failed": "failed",
    "stale": "is not for this client any more",
    "refused": "could not be carried out",
    "cancelled": "is over: nobody waits for its result",
    "given_back": "is given back",
}
"""What happens to a call at a client, in words."""


def run(
    where: Where,
    conversation: ConversationId,
    *,
    tool: Annotated[list[str], typer.Option(metavar="NAME", help="A tool whose calls it carries out; again for more.")],
    program: Annotated[str, typer.Option("--exec", metavar="COMMAND", help="The program, with its arguments.")],
    client_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The client's id; with the same one it goes on after it was killed.")
    ] = None,
    on_detach: Annotated[
        OnDetach, typer.Option(help="What becomes of what waits for this client once it leaves.")
    ] = OnDetach.KEEP,
    as_json: AsJson = False,
) -> None:
    """Carry out the calls of a client in a conversation by a program on this machine, until it ends or Ctrl-C.

    The program is started for each call that this client has claimed, up to 16 at once, without a shell. The arguments are a
    JSON object on its input. What it prints is the result, as JSON or else as a text; another exit code than 0 is the call's
    error, with the end of its standard error. HOLDFAST_ATTACHED_TOOL, _CALL, _CONVERSATION and _ATTEMPT name the call; it
    gets no other HOLDFAST_ variable. It is ended (SIGTERM, after 5 s SIGKILL) once nobody waits for its result. With `--json`,
    each line tells what happened to a call.
    """
    handler = Program(program)
    given = {"handlers": dict.fromkeys(tool, handler), "client_id": client_id, "on_detach": on_detach}
    with contextlib.suppress(KeyboardInterrupt):
        within(where, partial(_attach, conversation=conversation, given=given, as_json=as_json))


async def _attach(on: Reached, *, conversation: str, given: dict[str, Any], as_json: bool) -> None:
    attached = on.client.conversation(conversation).attach(**given)
    about = {"conversation_id": conversation, "client_id": attached.client_id}
    write = partial(_write, as_json=as_json)
    attached.told = lambda kind, call, words: _told(write, about, kind, call, words)
    async with attached, _until_told_to_end():
        tools = list(given["handlers"])
        line = f"Attached to {conversation} as {attached.client_id}; it carries out: {', '.join(tools)}."
        write({"kind": "attached", **about, "tools": tools}, line)
        await attached.serve()
        write({"kind": "ended", **about}, f"{conversation} has ended.")


def _told(write: Any, about: dict[str, str], kind: str, call: AsyncPendingCall, words: str) -> None:
    names = {name: getattr(call, name) for name in ("suspension_id", "tool_call_id", "tool")}
    more = f": {shorten(words, WORDS_LENGTH)}" if words else ""
    write({"kind": kind, **about, **names, "words": words}, f"{call.tool} ({call.tool_call_id}) {SAID[kind]}{more}")


def _write(data: dict[str, Any], line: str, *, as_json: bool) -> None:
    sys.stdout.write(to_json(data) + "\n" if as_json else f"{clean(line)}\n")
    sys.stdout.flush()


@contextlib.asynccontextmanager
async def _until_told_to_end() -> Any:
    """A block that SIGTERM, or the end of its terminal (SIGHUP), ends as if it had come to its end."""
    loop, task, told = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    ends = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]

    def end() -> None:
        told.set()
        if task is not None:
            task.cancel()

    for one in ends:
        loop.add_signal_handler(one, end)
    try:
        yield
    except asyncio.CancelledError:
        if not told.is_set() or (task is not None and task.uncancel()):
            raise
    finally:
        for one in ends:
            loop.remove_signal_handler(one)
