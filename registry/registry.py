"""The registry: `ensure_started` finds the actor that hosts a conversation, or has a free one take the conversation over."""

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
from .first_command import FirstCommand, undecided
from .pool import Pool

logger = logging.getLogger("holdfast.registry")

HANDLES = 10_000
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5
RETRY_AFTER_MS = 1000
PATIENCE_S = 5.0
"""How long a caller waits for one actor, at least, before it asks the store whether another actor may take over."""


class Registry:
    """Finds and revives conversations with the store and the actors, and caches handles; many registries may work at once.

    Attributes:
        patience_s: How long a caller waits for one actor before it asks the store whether another actor may take over.
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

    async def ensure_started(
        self, conversation_id: str, *, timeout_s: float, create: bool = False, first: FirstCommand | None = None
    ) -> tuple[str, Handle]:
        """The name and handle of the actor that hosts the conversation, which is revived from the store if no such actor lives.

        A `first` command goes to the actor with the takeover, if there is one; without an answer to it, the caller asks.

        Raises:
            ConversationNotFound: The conversation was never started, and `create` is false.
            LeaseHeld: The owner does not answer, and its lease did not run out in time.
            Quarantined: The conversation is in quarantine.
            StoreUnavailable: The store refused, each time, until the time was up.
            Overloaded: The pool is full, and none of its actors came free in time.
            ClusterError: No actor can be spawned.
            HoldfastError: The actor refused to take the conversation over, with this error.
            TimeoutError: The time was up.
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
                host = self._hosts.get(conversation_id) or await self._revived(
                    conversation_id, until, create=create, first=first
                )
            finally:
                lock.release()
        finally:
            if not lock.locked():
                self._ensuring.pop(conversation_id, None)
        self._hosts[conversation_id] = host
        while len(self._hosts) > HANDLES:
            self._hosts.popitem(last=False)
        return host

    async def revive(self, conversation_id: str, *, timeout_s: float) -> None:
        """Have an actor take over a conversation that nobody owns, and find there what is outstanding.

        Raises:
            As `ensure_started`.
        """
        self._hosts.pop(conversation_id, None)  # who hosted it once has left it
        await self.ensure_started(conversation_id, timeout_s=timeout_s)
        self._hosts.pop(conversation_id, None)  # it may be left again before anybody asks

    async def _revived(
        self, conversation_id: str, until: float, *, create: bool, first: FirstCommand | None
    ) -> tuple[str, Handle]:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        free: tuple[str, Handle] | None = None
        hindrance: HoldfastError | None = None  # why the revival takes so long, if that is known
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
                    match await self._activate(host, conversation_id, owner.token, because, create=create, first=first):
                        case Hosted():
                            self._not_hosting.pop(conversation_id, None)
                            return host
                        case Failed(LeaseHeld() as held):
                            held_s = held.retry_after_ms / 1000
                            if _now() + held_s > until:
                                raise held
                            self._not_hosting.pop(conversation_id, None)  # the owner holds its lease: perhaps it answers now
                        case Failed(StoreUnavailable() as unavailable):
                            hindrance = unavailable
                            free = host  # this actor is as good as any other for the next try
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
        """The owner of the conversation; an `Owner` without a holder if it has none yet."""
        owner = await self._store.owner(conversation_id)
        if (owner is None or not owner.started) and not create:
            raise ConversationNotFound(conversation_id)
        if owner is not None and owner.quarantine is not None:  # the store says so without an actor, and none may be free
            raise Quarantined(conversation_id, owner.quarantine.reason, owner.quarantine.at)
        return owner or Owner("", 0, "")

    async def _host(self, conversation_id: str, owner: Owner) -> tuple[tuple[str, Handle] | None, TakeoverReason]:
        """The owner's actor, None if it cannot be asked; and the reason for which another actor may take over."""
        name, because = owner.holder, TakeoverReason.ASKED
        if not name:
            return None, because
        dead = self._pool.is_dead(name)
        handle = None if dead else await self._actors.find(name)
        if handle is None and (dead or self._actors.judges(name)):  # an actor of another cluster may live there
            self.died(conversation_id, name)
            because = TakeoverReason.DIED
        asked_in_vain = self._not_hosting.get(conversation_id) == owner.token
        if handle is None or asked_in_vain or not self._actors.ours(name):
            return None, because
        return (name, handle), because

    async def _activate(
        self,
        host: tuple[str, Handle],
        conversation_id: str,
        seen_token: str,
        because: TakeoverReason,
        *,
        create: bool,
        first: FirstCommand | None,
    ) -> Hosted | Occupied | OwnedElsewhere | Failed | None:
        name, actor = host
        command, had_it = (first.command, first.handed) if first is not None else (None, False)
        if first is not None:
            first.handed = True  # until the actor says otherwise
        try:
            async with asyncio.timeout(self.patience_s):
                answer = await actor.activate(conversation_id, seen_token, because, create=create, first=command)
        except ActorDied:
            self._pool.died(name)
            return None
        except (ActorUnavailable, TimeoutError) as error:
            logger.debug("%s could not be adopted: %s", name, error)
            return None
        if first is not None:
            first.answer = answer.first if isinstance(answer, Hosted) else None
            first.handed = had_it or not undecided(first.answer)
        return answer

    def died(self, conversation_id: str, name: str) -> None:
        """Note that the actor of that name, which hosted the conversation, is proven dead; its handle is forgotten."""
        self._hosts.pop(conversation_id, None)
        self._pool.died(name)

    async def not_hosted(self, conversation_id: str, name: str, *, until: float) -> None:
        """Note that the actor of that name does not host the conversation, or does not answer.

        If the store hangs, the caller waits until `until` and no longer; the note is still made, for the next caller.

        Raises:
            StoreError: The store is away.
            TimeoutError: The store did not answer in time.
        """
        self._hosts.pop(conversation_id, None)
        async with asyncio.timeout_at(until):
            await asyncio.shield(self._noting.start(self._note(conversation_id, name)))

    async def _note(self, conversation_id: str, name: str) -> None:
        owner = await self._store.owner(conversation_id)
        if owner is not None and owner.holder == name:
            self._not_hosting[conversation_id] = owner.token

    async def answered_before(self, conversation_id: str, command: Command) -> Replied | Failed | None:
        """The earlier answer to a repeated command for a conversation in quarantine; None if the command was never judged.

        The idempotency records suffice, without an actor or the conversation's state: quarantine deposed the owner, so a
        command without a record now was never written.
        """
        known = await self._store.known(conversation_id, command.lookups())
        if not known:
            return None
        try:
            return Replied(decide(State(conversation_id=conversation_id), command.stamped(0, None, known)).reply)
        except HoldfastError as refusal:
            return Failed(refusal)

    async def pid(self, conversation_id: str) -> int | None:
        """The id of the process that hosts the conversation now, None if none does. For demonstrations and tests of faults."""
        owner = await self._store.owner(conversation_id)
        actor = await self._actors.find(owner.holder) if owner is not None and owner.holder else None
        if actor is None:
            return None
        try:
            return await actor.pid()
        except (ActorDied, ActorUnavailable):
            return None

    async def close(self) -> None:
        """End the background tasks: actors that are on their way are given up."""
        await self._noting.close()
        await self._pool.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
