"""`ensure_started`: whoever holds a conversation id gets the handle of the actor that hosts it, reviving it if need be."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections import OrderedDict
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError

from holdfast.actors import (
    RAY_NAMESPACE,
    ActorSettings,
    AnswerToAsk,
    ConversationActor,
    Failed,
    Hosted,
    NotHosted,
    Occupied,
    OwnedElsewhere,
    find,
    in_cluster,
)
from holdfast.actors.wire import pack, unpack
from holdfast.conversation import Command, ConversationNotFound, LeaseHeld, StoreError, StoreUnavailable
from holdfast.persistence import Because, Owner, Store

logger = logging.getLogger("holdfast.registry")

_RemoteActor = ray.remote(ConversationActor)
HANDLES = 10_000
HIRING_AT_ONCE = 2
PATIENCE_S = 5.0
"""How long one actor is waited for, at least, before the store is asked whether another may take over."""


class Registry:
    """A function over the store and Ray, with a cache of handles; any number of them may work at once."""

    def __init__(self, store: Store, settings: ActorSettings) -> None:
        self._store = store
        self._settings = settings
        self._hosts: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self._dead: set[str] = set()
        self._not_hosting: dict[str, str] = {}
        self._ensuring: dict[str, asyncio.Lock] = {}
        self._hiring = 0
        self._patience_s = max(settings.timing.lease_ms / 2000, PATIENCE_S)

    async def ask(self, conversation_id: str, command: Command, *, timeout_s: float, create: bool = False) -> AnswerToAsk:
        """Have a command judged by whoever hosts the conversation; asked anew as often as the host changes.

        Raises:
            TimeoutError: No answer in time; whether the command was judged is unknown.
            ConversationNotFound: It was never started.
            LeaseHeld: Its owner does not answer, and its lease did not run out in time.
        """
        give_up = time.monotonic() + timeout_s
        delay_s = 0.01
        while True:
            left_s = give_up - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            name, actor = await self.ensure_started(conversation_id, timeout_s=left_s, create=create)
            try:
                left_s = min(give_up - time.monotonic(), self._patience_s)
                answered = await asyncio.wait_for(actor.ask.remote(pack((conversation_id, command))), max(left_s, 0.001))
                answer: AnswerToAsk = unpack(answered)
            except ActorDiedError:
                self.died(conversation_id, name)
                continue
            except TimeoutError:  # it may hang: the store decides whether another may take over, and ids make this safe
                with contextlib.suppress(StoreError):  # without it, the same one is asked again; "unknown" is the answer then
                    await self.not_hosted(conversation_id, name)
            except RayActorError as error:  # unavailable is no proof of death
                logger.debug("%s: %s", name, error)
            else:
                if not isinstance(answer, NotHosted):
                    return answer
                await self.not_hosted(conversation_id, name)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, 0.5)

    async def pid(self, conversation_id: str) -> int | None:
        """The process that hosts the conversation now, None if none does. For demonstrations and tests of faults."""
        owner = await self._store.owner(conversation_id)
        actor = find(owner.holder) if owner is not None and owner.holder else None
        if actor is None:
            return None
        try:
            pid: int = await actor.pid.remote()
        except RayActorError:
            return None
        return pid

    def died(self, conversation_id: str, name: str) -> None:
        """The actor of that name is proven dead (`ActorDiedError`)."""
        if len(self._dead) > HANDLES:
            self._dead.clear()
        self._dead.add(name)
        self._hosts.pop(conversation_id, None)

    async def not_hosted(self, conversation_id: str, name: str) -> None:
        """The actor of that name said that it does not host the conversation."""
        self._hosts.pop(conversation_id, None)
        owner = await self._store.owner(conversation_id)
        if owner is not None and owner.holder == name:
            self._not_hosting[conversation_id] = owner.token

    async def ensure_started(self, conversation_id: str, *, timeout_s: float, create: bool = False) -> tuple[str, Any]:
        """The name and handle of the actor that hosts the conversation, revived from the store if there is none that lives.

        Raises:
            ConversationNotFound: It was never started, and `create` is false.
            LeaseHeld: Its owner does not answer, and its lease did not run out in time.
            StoreUnavailable: The store refuses, and went on refusing.
            TimeoutError: It took too long.
        """
        cached = self._hosts.get(conversation_id)
        if cached is not None:
            return cached
        lock = self._ensuring.setdefault(conversation_id, asyncio.Lock())
        refusals: list[StoreUnavailable] = []
        try:
            async with asyncio.timeout(timeout_s), lock:
                host = self._hosts.get(conversation_id) or await self._ensure(
                    conversation_id, timeout_s, refusals, create=create
                )
        except TimeoutError:
            if refusals:
                raise refusals[-1] from None
            raise
        finally:
            if not lock.locked():
                self._ensuring.pop(conversation_id, None)
        self._hosts[conversation_id] = host
        while len(self._hosts) > HANDLES:
            self._hosts.popitem(last=False)
        return host

    async def _ensure(
        self, conversation_id: str, timeout_s: float, refusals: list[StoreUnavailable], *, create: bool
    ) -> tuple[str, Any]:
        give_up = time.monotonic() + timeout_s
        delay_s = 0.01
        adopted: tuple[str, Any] | None = None
        while True:
            owner = await self._store.owner(conversation_id)
            if (owner is None or not owner.started) and not create:
                raise ConversationNotFound(conversation_id)
            owner = owner or Owner("", 0, "")
            because = Because.ASKED
            if owner.holder:
                handle = None if owner.holder in self._dead else await asyncio.to_thread(find, owner.holder)
                if handle is None:  # this cluster is the store's only one, and knows no actor of that name
                    because = Because.DIED
                elif self._not_hosting.get(conversation_id) != owner.token:
                    return owner.holder, handle
            name, actor = adopted or await self._adopt()
            adopted = None
            match await self._activate(name, actor, conversation_id, owner.token, because, create=create):
                case Hosted():
                    self._not_hosting.pop(conversation_id, None)
                    return name, actor
                case OwnedElsewhere() | Occupied() | None:
                    pass
                case Failed(LeaseHeld() as held):
                    if time.monotonic() + held.retry_after_ms / 1000 > give_up:
                        raise held
                    self._not_hosting.pop(conversation_id, None)  # it lives on: perhaps it answers now
                    delay_s = max(delay_s, min(held.retry_after_ms / 1000, 0.5))
                case Failed(StoreUnavailable() as unavailable):
                    refusals[:] = [unavailable]
                    adopted = name, actor  # it is as good as any other
                case Failed(error):
                    raise error
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, 0.5)

    async def _activate(
        self, name: str, actor: Any, conversation_id: str, seen_token: str, because: Because, *, create: bool
    ) -> Hosted | Occupied | OwnedElsewhere | Failed | None:
        try:
            activation: Hosted | Occupied | OwnedElsewhere | Failed = await asyncio.wait_for(
                actor.activate.remote(conversation_id, seen_token, because, create=create), self._patience_s
            )
        except (RayActorError, TimeoutError) as error:
            logger.debug("%s could not be adopted: %s", name, error)
            return None
        return activation

    async def _adopt(self) -> tuple[str, Any]:
        """An actor that is on offer, or a cold one; only a few are made at once, since those on their way may suffice."""
        while True:
            name = await self._store.take()
            if name is not None:
                handle = None if name in self._dead else await asyncio.to_thread(find, name)
                if handle is not None:
                    return name, handle
            elif self._hiring < HIRING_AT_ONCE:
                self._hiring += 1
                try:
                    return await warmed(self._settings, offer=False)
                except RayError as error:
                    logger.warning("an actor did not start: %s", error)
                    await asyncio.sleep(1)
                finally:
                    self._hiring -= 1
            else:
                await asyncio.sleep(0.02)


def hire_actor(settings: ActorSettings) -> tuple[str, Any]:
    """A new actor, blank and cold."""
    in_cluster()
    name = f"{settings.prefix}actor:{uuid.uuid4().hex[:12]}"
    handle = _RemoteActor.options(
        name=name,
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        max_restarts=0,
        max_concurrency=1000,
    ).remote(settings, name)
    return name, handle


async def warmed(settings: ActorSettings, *, offer: bool) -> tuple[str, Any]:
    """A new actor, connected to the store; with `offer`, it is on offer too. Ended again if that fails or is given up.

    Raises:
        RayError: It did not start, or cannot reach the store.
    """
    name, handle = hire_actor(settings)
    try:
        await handle.warm.remote(offer=offer)
    except BaseException:
        ray.kill(handle)
        raise
    return name, handle
