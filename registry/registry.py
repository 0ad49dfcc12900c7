"""`ensure_started`: whoever holds a conversation id gets the handle of the actor that hosts it, reviving it if need be."""

import asyncio
import logging
from collections import OrderedDict

from holdfast.actors import Failed, Hosted, Occupied, OwnedElsewhere, Replied
from holdfast.background import Background
from holdfast.backoff import Backoff
from holdfast.conversation import Command, State, decide
from holdfast.errors import ConversationNotFound, HoldfastError, LeaseHeld, Overloaded, Quarantined, StoreUnavailable
from holdfast.persistence import Conversations, Owner, TakeoverReason
from holdfast.settings import Timing

from .actors import ActorDied, Actors, ActorUnavailable, Handle
from .pool import Pool

logger = logging.getLogger("holdfast.registry")

HANDLES = 10_000
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5
RETRY_AFTER_MS = 1000
PATIENCE_S = 5.0
"""How long one actor is waited for, at least, before the store is asked whether another may take over."""


class Registry:
    """A function over the store and the actors, with a cache of handles; any number of them may work at once.

    Attributes:
        patience_s: How long an actor is waited for before the store is asked whether another may take over.
    """

    def __init__(self, store: Conversations, actors: Actors, *, pool: Pool, timing: Timing) -> None:
        self.patience_s = max(timing.lease_ms / 2000, PATIENCE_S)
        self._store = store
        self._actors = actors
        self._pool = pool
        self._hosts: OrderedDict[str, tuple[str, Handle]] = OrderedDict()
        self._not_hosting: dict[str, str] = {}
        self._ensuring: dict[str, asyncio.Lock] = {}
        self._noting = Background()

    async def ensure_started(self, conversation_id: str, *, timeout_s: float, create: bool = False) -> tuple[str, Handle]:
        """The name and handle of the actor that hosts the conversation, revived from the store if there is none that lives.

        Raises:
            ConversationNotFound: It was never started, and `create` is false.
            LeaseHeld: Its owner does not answer, and its lease did not run out in time.
            Quarantined: It is in quarantine.
            StoreUnavailable: The store refuses, and went on refusing.
            Overloaded: There are as many actors as there may be, and each went on being at work.
            TimeoutError: It took too long.
        """
        cached = self._hosts.get(conversation_id)
        if cached is not None:
            return cached
        until = _now() + timeout_s
        lock = self._ensuring.setdefault(conversation_id, asyncio.Lock())
        try:
            async with asyncio.timeout_at(until):
                await lock.acquire()
            try:
                host = self._hosts.get(conversation_id) or await self._revived(conversation_id, until, create=create)
            finally:
                lock.release()
        finally:
            if not lock.locked():
                self._ensuring.pop(conversation_id, None)
        self._hosts[conversation_id] = host
        while len(self._hosts) > HANDLES:
            self._hosts.popitem(last=False)
        return host

    async def _revived(self, conversation_id: str, until: float, *, create: bool) -> tuple[str, Handle]:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        free: tuple[str, Handle] | None = None
        hindrance: HoldfastError | None = None  # why it takes so long, as far as that is known
        try:
            async with asyncio.timeout_at(until):
                while True:
                    owner = await self._owner(conversation_id, create=create)
                    host, because = await self._host(conversation_id, owner)
                    if host is not None:
                        return host
                    if free is None:
                        try:
                            free = await self._pool.take()
                        finally:
                            if self._pool.full:
                                hindrance = Overloaded(conversation_id, RETRY_AFTER_MS)
                    host, free, held_s = free, None, 0.0
                    match await self._activate(host, conversation_id, owner.token, because, create=create):
                        case Hosted():
                            self._not_hosting.pop(conversation_id, None)
                            return host
                        case Failed(LeaseHeld() as held):
                            held_s = held.retry_after_ms / 1000
                            if _now() + held_s > until:
                                raise held
                            self._not_hosting.pop(conversation_id, None)  # it lives on: perhaps it answers now
                        case Failed(StoreUnavailable() as unavailable):
                            hindrance = unavailable
                            free = host  # it is as good as any other
                        case Failed(error):
                            raise error
                        case _:
                            pass
                    await backoff.sleep(at_least_s=min(held_s, LONGEST_PAUSE_S))
        except TimeoutError:
            if hindrance is not None:
                raise hindrance from None
            raise

    async def _owner(self, conversation_id: str, *, create: bool) -> Owner:
        """Who owns the conversation; an owner without a name if there is none yet."""
        owner = await self._store.owner(conversation_id)
        if (owner is None or not owner.started) and not create:
            raise ConversationNotFound(conversation_id)
        if owner is not None and owner.quarantine is not None:  # known without an actor, of which there may be none
            raise Quarantined(conversation_id, owner.quarantine.reason, owner.quarantine.at)
        return owner or Owner("", 0, "")

    async def _host(self, conversation_id: str, owner: Owner) -> tuple[tuple[str, Handle] | None, TakeoverReason]:
        """The owner's actor if it can be asked; if not, why another may take over."""
        name, because = owner.holder, TakeoverReason.ASKED
        if not name:
            return None, because
        dead = self._pool.is_dead(name)
        handle = None if dead else await self._actors.find(name)
        if handle is None and (dead or self._actors.judges(name)):  # another cluster's may live there
            self.died(conversation_id, name)
            because = TakeoverReason.DIED
        asked_in_vain = self._not_hosting.get(conversation_id) == owner.token
        if handle is None or asked_in_vain or not self._actors.ours(name):
            return None, because
        return (name, handle), because

    async def _activate(
        self, host: tuple[str, Handle], conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool
    ) -> Hosted | Occupied | OwnedElsewhere | Failed | None:
        name, actor = host
        try:
            async with asyncio.timeout(self.patience_s):
                return await actor.activate(conversation_id, seen_token, because, create=create)
        except (ActorDied, ActorUnavailable, TimeoutError) as error:
            logger.debug("%s could not be adopted: %s", name, error)
            return None

    def died(self, conversation_id: str, name: str) -> None:
        """Note that the actor of that name, which hosted the conversation, is proven dead."""
        self._hosts.pop(conversation_id, None)
        self._pool.died(name)

    async def not_hosted(self, conversation_id: str, name: str, *, until: float) -> None:
        """Note that the actor of that name does not host the conversation, or does not answer.

        A store that hangs holds the caller no longer than until then; the note is made all the same, for whoever asks next.

        Raises:
            StoreError: The store is away.
            TimeoutError: It did not answer in time.
        """
        self._hosts.pop(conversation_id, None)
        async with asyncio.timeout_at(until):
            await asyncio.shield(self._noting.start(self._note(conversation_id, name)))

    async def _note(self, conversation_id: str, name: str) -> None:
        owner = await self._store.owner(conversation_id)
        if owner is not None and owner.holder == name:
            self._not_hosting[conversation_id] = owner.token

    async def answered_before(self, conversation_id: str, command: Command) -> Replied | Failed | None:
        """What a repeated command to a conversation in quarantine was answered before; None if it was never judged.

        No actor is needed for that, nor the conversation's state: whoever owned it was deposed, so what is not known now was
        never written.
        """
        known = await self._store.known(conversation_id, command.lookups())
        if not known:
            return None
        try:
            return Replied(decide(State(conversation_id=conversation_id), command.stamped(0, None, known)).reply)
        except HoldfastError as refusal:
            return Failed(refusal)

    async def pid(self, conversation_id: str) -> int | None:
        """The process that hosts the conversation now, None if none does. For demonstrations and tests of faults."""
        owner = await self._store.owner(conversation_id)
        actor = await self._actors.find(owner.holder) if owner is not None and owner.holder else None
        if actor is None:
            return None
        try:
            return await actor.pid()
        except (ActorDied, ActorUnavailable):
            return None

    async def close(self) -> None:
        """End what goes on in the background: an actor that is on its way is not waited for, and given up."""
        await self._noting.close()
        await self._pool.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
