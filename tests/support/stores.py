"""What a client stands on in unit tests: a store at hand, and no way to the actors, or writers in their place."""

import asyncio
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import Any

from writer import Writer

from holdfast.actors.answers import Replied
from holdfast.counting import Counts
from holdfast.errors import ConfigurationError, ConversationNotFound, HoldfastError
from holdfast.registry.registry import Refused
from holdfast.settings import Settings


class InMemory:
    """A stack whose store is given, and perhaps an app."""

    def __init__(self, store: Any, app: Any = None) -> None:
        self.settings = Settings(redis_url="unix:///nowhere")
        self.app_path = None if app is None else "shop:app"
        self._store = store
        self._app = app
        self.may_start = False
        self.absent: str | None = None
        self.counts = Counts()
        self.begun: OrderedDict[str, Any] = OrderedDict()
        self.waits = 0

    @property
    def ready(self) -> Any:
        """There is no transport."""
        return None

    async def store(self) -> Any:
        return self._store

    async def loaded_app(self) -> Any:
        if self._app is None:
            raise ConfigurationError("app", "start needs an app, and none is named", "pass it to connect")
        return self._app

    async def see_to_ray(self) -> None:
        """There is none."""

    async def close(self) -> None:
        """Nothing was opened."""


class WithActors(InMemory):
    """A stack whose commands are judged and written at once, by one writer for each conversation; no work is carried out."""

    def __init__(self, store: Any, *writers: Writer, app: Any = None) -> None:
        super().__init__(store, app)
        self.writers = {writer.conversation_id: writer for writer in writers}
        self.delivered: list[Any] = []
        self._writing = asyncio.Lock()
        self.failing: HoldfastError | None = None

    @property
    def ready(self) -> "WithActors":
        """The transport, which is this object."""
        return self

    async def workers(self) -> int:
        return 1

    @asynccontextmanager
    async def asking(self, _give_up: float):
        yield

    async def lost(self, _transport: Any) -> bool:
        return False

    async def deliver(self, delivery: Any) -> Any:
        """What the command leads to, or the error that was set for all of them."""
        self.delivered.append(delivery.command)
        if self.failing is not None:
            return delivery.given_up(self.failing)
        try:
            async with self._writing:
                return Replied(await (await self.writer(delivery)).do(lambda _: delivery.command, now=now()))
        except HoldfastError as error:
            return Refused(error)

    async def writer(self, delivery: Any) -> Writer:
        """The writer of a delivery's conversation, which begins with a start."""
        name = delivery.conversation_id
        if name not in self.writers:
            if not delivery.create:
                raise ConversationNotFound(name)
            self.writers[name] = await Writer.of(self._store, name)
        return self.writers[name]


def now() -> int:
    """The time, in ms UTC."""
    return time.time_ns() // 1_000_000
