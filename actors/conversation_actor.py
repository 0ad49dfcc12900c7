"""The Ray shell of a conversation: it hosts one at a time and is adopted by the next when that one is left.

It imports neither litellm nor the user's app.
"""

import asyncio
import contextlib
import logging
import os
import time
from dataclasses import dataclass
from typing import TypeAlias

from ray.actor import exit_actor

from holdfast.conversation import Command, ConversationNotFound, Fenced, HoldfastError, LeaseHeld, Reply, StoreError, schema
from holdfast.persistence import Because, Owner, RedisStore

from . import wire
from .hosting import Hosting
from .ray_crew import RayCrew
from .settings import ActorSettings

logger = logging.getLogger("holdfast.actor")


@dataclass(frozen=True, slots=True)
class Hosted:
    """The actor hosts the conversation now."""


@dataclass(frozen=True, slots=True)
class NotHosted:
    """The actor does not host the conversation: ask `ensure_started` again."""


@dataclass(frozen=True, slots=True)
class Occupied:
    """The actor hosts another conversation that does not rest."""


@dataclass(frozen=True, slots=True)
class OwnedElsewhere:
    """Somebody else owns the conversation."""

    owner: Owner


@dataclass(frozen=True, slots=True)
class Replied:
    """The command was judged, and what it led to is durable."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Failed:
    """The command was refused, or its outcome is unknown."""

    error: HoldfastError


OFFER_AFTER_S = 0.02
"""How long a conversation must have come to rest before its actor goes on offer."""

Activation: TypeAlias = Hosted | Occupied | OwnedElsewhere | Failed
AnswerToAsk: TypeAlias = Replied | Failed | NotHosted


class ConversationActor:
    """Hosts one conversation at a time."""

    def __init__(self, settings: ActorSettings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._store: RedisStore | None = None
        self._crew: RayCrew | None = None
        self._hosting: Hosting | None = None
        self._activating = asyncio.Lock()
        self._housekeeping: asyncio.Task[None] | None = None
        self._blank_since = _clock()
        self._rested = asyncio.Event()

    async def warm(self, *, offer: bool) -> str:
        """Connect to the store and, if asked to, offer oneself for adoption; the actor's name."""
        store = await self._connected()
        await asyncio.to_thread(schema.problem, "{}", {})  # its library is imported now, not at the first answer
        if offer:
            await store.offer(self._name, 0)
        return self._name

    async def activate(self, conversation_id: str, seen_token: str, because: Because, *, create: bool) -> Activation:
        """Host a conversation, leaving the one before if that rests."""
        async with self._activating:
            try:
                store = await self._connected()
            except HoldfastError as error:
                return Failed(error)
            if self._hosts(conversation_id):
                return Hosted()
            if self._hosting is not None and not await self._hosting.passivate():
                return Occupied()
            self._hosting = None
            hosting = Hosting(
                store,
                self._crew_of(store),
                conversation_id=conversation_id,
                holder=self._name,
                timing=self._settings.timing,
                clock=_clock,
                rested=self._rested,
            )
            try:
                moved = await hosting.activate(seen_token=seen_token, because=because, create=create)
            except (LeaseHeld, ConversationNotFound, StoreError) as error:
                await self._offer_blank(store)
                return Failed(error)
            if moved is not None:
                await self._offer_blank(store)
                return OwnedElsewhere(moved.owner)
            self._hosting = hosting
            return Hosted()

    async def ask(self, asked: bytes) -> bytes:
        """Have a command judged, if this actor hosts it: `(conversation_id, command)` to an `AnswerToAsk`, packed."""
        return wire.pack(await self._judged(*wire.unpack(asked)))

    async def _judged(self, conversation_id: str, command: Command) -> AnswerToAsk:
        if not self._hosts(conversation_id) and self._activating.locked():
            async with self._activating:  # it may be this very conversation that is being activated
                pass
        hosting = self._hosting
        if hosting is None or not self._hosts(conversation_id):
            return NotHosted()
        try:
            return Replied(await hosting.ask(command))
        except Fenced:
            return NotHosted()
        except HoldfastError as error:
            return Failed(error)

    async def ping(self) -> str | None:
        """The conversation that is hosted, if any."""
        return self._hosting.conversation_id if self._hosting is not None and not self._hosting.over else None

    async def pid(self) -> int:
        """The process of this actor."""
        return os.getpid()

    def _hosts(self, conversation_id: str) -> bool:
        hosting = self._hosting
        return hosting is not None and hosting.conversation_id == conversation_id and not hosting.over

    async def _connected(self) -> RedisStore:
        if self._store is None:
            address = self._settings.store
            store = RedisStore(address.redis_url, namespace=address.namespace, store_id=address.store_id)
            await store.open()
            self._store = store
            self._housekeeping = asyncio.create_task(self._keep_house(store))
        return self._store

    def _crew_of(self, store: RedisStore) -> RayCrew:
        if self._crew is None:
            self._crew = RayCrew(store, self._settings)
        return self._crew

    async def _offer_blank(self, store: RedisStore) -> None:
        self._blank_since = _clock()
        try:
            await store.offer(self._name, 0)
        except StoreError as error:
            logger.warning("%s could not offer itself: %s", self._name, error)

    async def _keep_house(self, store: RedisStore) -> None:
        """Leave what rests for long, stay on offer while idle, and end when there are blank actors enough."""
        timing = self._settings.timing
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timing.tick_ms / 1000):
                    await self._rested.wait()
            self._rested.clear()
            await asyncio.sleep(OFFER_AFTER_S)
            try:
                await self._tidy(store)
            except StoreError as error:
                logger.warning("%s: %s", self._name, error)

    async def _tidy(self, store: RedisStore) -> None:
        linger_ms = self._settings.timing.linger_ms
        async with self._activating:
            hosting, now = self._hosting, _clock()
            if hosting is not None and hosting.over:
                self._hosting = None
                await self._offer_blank(store)
            elif hosting is not None and hosting.rested_at is not None:
                if now - hosting.rested_at < OFFER_AFTER_S * 1000:
                    self._rested.set()  # it worked meanwhile: look again when it has rested for as long
                elif now - hosting.rested_at < linger_ms:
                    await store.offer(self._name, hosting.rested_at)
                elif await hosting.passivate():
                    self._hosting = None
                    await self._offer_blank(store)
            elif hosting is None:
                spare = now - self._blank_since >= linger_ms and await store.offers() > self._settings.fleet.standby
                if not spare:
                    await store.offer(self._name, 0)
                elif await store.withdraw(self._name):  # nobody has taken it meanwhile
                    exit_actor()


def _clock() -> int:
    return time.time_ns() // 1_000_000
