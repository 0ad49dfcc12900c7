"""What a hosted conversation is asked, in order: commands, and that it be left."""

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.conversation import Command, Reply
from holdfast.errors import HoldfastError, StoreError, StoreUnavailable


@dataclass(slots=True)
class Asked:
    """A command and whoever waits for its reply; `outside` if that is not the conversation itself."""

    command: Command
    outside: bool = True
    reply: "asyncio.Future[Reply]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def answer(self, reply: Reply) -> None:
        """Give the reply, unless nobody waits for it any more."""
        if not self.reply.done():
            self.reply.set_result(reply)

    def fail(self, error: HoldfastError) -> None:
        """Give an error instead."""
        if not self.reply.done():
            self.reply.set_exception(error)


@dataclass(slots=True)
class Leave:
    """That the conversation be left, if it rests; the answer is whether it was."""

    done: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, left: bool) -> None:  # noqa: FBT001 - the answer itself
        """Give the answer, unless nobody waits for it any more."""
        if not self.done.done():
            self.done.set_result(left)


Item: TypeAlias = Asked | Leave


class Mailbox:
    """A queue of items."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Item] = asyncio.Queue()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return self._queue.empty()

    @property
    def size(self) -> int:
        """How many items wait."""
        return self._queue.qsize()

    async def next(self) -> Item:
        """The next item, once there is one."""
        return await self._queue.get()

    def put(self, item: Item) -> None:
        """Add an item at the end."""
        self._queue.put_nowait(item)

    def tell(self, command: Command) -> None:
        """Add a command for whose reply nobody waits."""
        asked = Asked(command, outside=False)
        asked.reply.add_done_callback(_retrieve)
        self.put(asked)

    def refuse(self, error: StoreError) -> None:
        """Tell everybody outside why nothing goes on; nothing of theirs was judged. Its own outcomes stay."""
        for _ in range(self._queue.qsize()):
            match self._queue.get_nowait():
                case Asked(outside=True) as asked:
                    asked.fail(StoreUnavailable(str(error)))
                case item:
                    self.put(item)

    def close(self, error: HoldfastError) -> None:
        """Give everybody who waits this error; who wanted the conversation left has it left."""
        while not self._queue.empty():
            match self._queue.get_nowait():
                case Asked() as asked:
                    asked.fail(error)
                case Leave() as leave:
                    leave.settle(left=True)


def _retrieve(reply: "asyncio.Future[Reply]") -> None:
    """Nobody waits for the reply to an outcome; a failed one is carried out again by what is outstanding."""
    if not reply.cancelled():
        reply.exception()
