"""The queue of an activation: commands, and requests to leave the conversation, in the order in which they came."""

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.conversation import Command, Reply
from holdfast.errors import HoldfastError, StoreError, StoreUnavailable
from holdfast.work_context import REQUEST


@dataclass(slots=True)
class Asked:
    """A command, its future reply and its HTTP request's id or ''; `outside` is false for the conversation's own commands."""

    command: Command
    outside: bool = True
    request: str = field(default_factory=REQUEST.get)
    reply: "asyncio.Future[Reply]" = field(default_factory=asyncio.Future)

    def answer(self, reply: Reply) -> None:
        """Give the reply, unless its caller has stopped waiting."""
        if not self.reply.done():
            self.reply.set_result(reply)

    def fail(self, error: HoldfastError) -> None:
        """Give an error in place of the reply, unless its caller has stopped waiting."""
        if not self.reply.done():
            self.reply.set_exception(error)


@dataclass(slots=True)
class Leave:
    """A request to leave the conversation if it rests; `done` becomes true if it was left."""

    done: "asyncio.Future[bool]" = field(default_factory=asyncio.Future)

    def settle(self, left: bool) -> None:  # noqa: FBT001 - the answer itself
        """Give the answer, unless its caller has stopped waiting."""
        if not self.done.done():
            self.done.set_result(left)


Item: TypeAlias = Asked | Leave


class Mailbox(asyncio.Queue[Item]):
    """A queue of commands and of requests to leave."""

    def tell(self, command: Command) -> None:
        """Add a command whose reply is not awaited."""
        asked = Asked(command, outside=False)
        asked.reply.add_done_callback(_retrieve)
        self.put_nowait(asked)

    def refuse(self, error: StoreError) -> None:
        """Fail every command from outside with `StoreUnavailable`, since none was judged; keep all other items."""
        for _ in range(self.qsize()):
            match self.get_nowait():
                case Asked(outside=True) as asked:
                    asked.fail(StoreUnavailable(str(error)))
                case item:
                    self.put_nowait(item)

    def close(self, error: HoldfastError) -> None:
        """Fail every waiting command with this error, and answer every `Leave` with true, since the activation is over."""
        while not self.empty():
            match self.get_nowait():
                case Asked() as asked:
                    asked.fail(error)
                case Leave() as leave:
                    leave.settle(left=True)


def _retrieve(reply: "asyncio.Future[Reply]") -> None:
    """Retrieve a reply's error: the effect of an unrecorded outcome stays outstanding."""
    if not reply.cancelled():
        reply.exception()
