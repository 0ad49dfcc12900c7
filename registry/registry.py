"""`ensure_started`: whoever holds a conversation id gets the handle of the actor that hosts it, reviving it if need be."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Protocol

from holdfast.actors import AnswerToAsk, Failed, Hosted, NotHosted, Occupied, OwnedElsewhere, Replied
from holdfast.conversation import Command, State, decide
from holdfast.errors import (
    ConversationNotFound,
    HoldfastError,
    LeaseHeld,
    Overloaded,
    Quarantined,
    StoreError,
    StoreUnavailable,
)
from holdfast.persistence import Conversations, Directory, Owner, TakeoverReason
from holdfast.settings import Timing

from .actors import ActorDied, Actors, ActorUnavailable, Handle
from .pool import Pool, PoolFull

logger = logging.getLogger("holdfast.registry")

HANDLES = 10_000
SPAWNING_AT_ONCE = 2
LATE_S = 5.0
MOST_ON_THE_WAY = 8
SHORT_S = 0.1
"""How long nobody must be on offer before somebody is spawned: a process costs about a second of a processor."""
LOOK_AGAIN_S = 0.02
FULL_S = 0.2
RETRY_AFTER_MS = 1000
PATIENCE_S = 5.0
"""How long one actor is waited for, at least, before the store is asked whether another may take over."""


class ConversationsAndDirectory(Conversations, Directory, Protocol):
    """What a registry asks of a store."""


class Registry:
    """A function over the store and the actors, with a cache of handles; any number of them may work at once."""

    def __init__(self, store: ConversationsAndDirectory, actors: Actors, *, pool: Pool, timing: Timing) -> None:
        self._store = store
        self._actors = actors
        self._pool = pool
        self._hosts: OrderedDict[str, tuple[str, Handle]] = OrderedDict()
        self._dead: set[str] = set()
        self._not_hosting: dict[str, str] = {}
        self._ensuring: dict[str, asyncio.Lock] = {}
        self._noting: set[asyncio.Task[None]] = set()
        self._line = asyncio.Lock()
        self._waiting = 0
        self._on_the_way: dict[asyncio.Task[None], float] = {}
        self._short_since: float | None = None
        self._full = False
        self._cannot_spawn: HoldfastError | None = None
        self._spawned: list[tuple[str, Handle]] = []
        self._patience_s = max(timing.lease_ms / 2000, PATIENCE_S)

    async def ask(self, conversation_id: str, command: Command, *, timeout_s: float, create: bool = False) -> AnswerToAsk:
        """Have a command judged by whoever hosts the conversation; asked anew as often as the host changes.

        Raises:
            TimeoutError: No answer in time; whether the command was judged is unknown.
            ConversationNotFound: It was never started.
            LeaseHeld: Its owner does not answer, and its lease did not run out in time.
            Overloaded: No actor came free in time, and none has had the command.
            Quarantined: It is in quarantine, and the command was never judged.
            StoreUnavailable: The store refuses, and no actor has had the command.
            ClusterUnavailable: This process is in no cluster any more, and no actor has had the command.
        """
        give_up = _now() + timeout_s
        delay_s = 0.01
        handed = False  # whether an actor may have judged it
        while True:
            left_s = give_up - _now()
            if left_s <= 0:
                raise TimeoutError
            try:
                name, actor = await self.ensure_started(conversation_id, timeout_s=left_s, create=create)
            except Quarantined as error:
                try:
                    async with asyncio.timeout_at(give_up):
                        return await self._answered_before(conversation_id, command, error)
                except StoreUnavailable as unavailable:
                    if not handed:
                        raise
                    return Failed(unavailable)
            except HoldfastError as error:
                if not handed:
                    raise
                if isinstance(error, StoreUnavailable):
                    return Failed(error)  # which leaves open whether it was judged, unlike the error itself
                raise TimeoutError(str(error)) from error
            try:
                left_s = min(give_up - _now(), self._patience_s)
                # Not `wait_for`: before Python 3.12 it swallows a caller's deadline that meets the answer.
                async with asyncio.timeout(max(left_s, 0.001)):
                    answer: AnswerToAsk = await actor.ask(conversation_id, command)
            except ActorDied:
                handed = True
                self.died(conversation_id, name)
                continue
            except TimeoutError:  # it may hang: the store decides whether another may take over, and ids make this safe
                handed = True
                with contextlib.suppress(StoreError):  # without it, the same one is asked again; "unknown" is the answer then
                    await self._note_not_hosted(conversation_id, name, give_up)
            except ActorUnavailable as error:  # which is no proof of death
                handed = True
                logger.debug("%s: %s", name, error)
            else:
                if not isinstance(answer, NotHosted):
                    return answer
                await self._note_not_hosted(conversation_id, name, give_up)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, 0.5)

    async def _answered_before(self, conversation_id: str, command: Command, quarantined: Quarantined) -> AnswerToAsk:
        """What a command that is repeated was answered before; no actor is needed for that, nor the conversation's state.

        Whoever owned the conversation was deposed, so what is not known now was never written.

        Raises:
            Quarantined: It was never judged.
        """
        known = await self._store.known(conversation_id, command.lookups())
        if not known:
            raise quarantined
        try:
            judgement = decide(State(conversation_id=conversation_id), command.stamped(0, None, known))
        except HoldfastError as refusal:
            return Failed(refusal)
        return Replied(judgement.reply)

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
        for task in list(self._noting):
            task.cancel()
        await asyncio.gather(*self._noting, return_exceptions=True)
        await self._pool.close()

    def died(self, conversation_id: str, name: str) -> None:
        """The actor of that name is proven dead."""
        if len(self._dead) > HANDLES:
            self._dead.clear()
        self._hosts.pop(conversation_id, None)
        if name not in self._dead:
            self._dead.add(name)
            self._begin(self._pool.gone(name))  # nobody waits for that

    async def not_hosted(self, conversation_id: str, name: str) -> None:
        """The actor of that name said that it does not host the conversation."""
        self._hosts.pop(conversation_id, None)
        owner = await self._store.owner(conversation_id)
        if owner is not None and owner.holder == name:
            self._not_hosting[conversation_id] = owner.token

    async def _note_not_hosted(self, conversation_id: str, name: str, give_up: float) -> None:
        """`not_hosted`, for as long as the caller has time: a store that hangs must not hold it; whoever asks next profits."""
        noting = self._begin(self.not_hosted(conversation_id, name))
        async with asyncio.timeout_at(give_up):
            await asyncio.shield(noting)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        noting = asyncio.create_task(work)
        self._noting.add(noting)
        noting.add_done_callback(self._noted)
        return noting

    def _noted(self, noting: asyncio.Task[None]) -> None:
        self._noting.discard(noting)
        if not noting.cancelled():
            noting.exception()  # whoever still waited has it

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
        lock = self._ensuring.setdefault(conversation_id, asyncio.Lock())
        refusals: list[StoreUnavailable | Overloaded] = []
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
        self, conversation_id: str, timeout_s: float, refusals: list[StoreUnavailable | Overloaded], *, create: bool
    ) -> tuple[str, Handle]:
        give_up = _now() + timeout_s
        delay_s = 0.01
        adopted: tuple[str, Handle] | None = None
        while True:
            owner = await self._store.owner(conversation_id)
            if (owner is None or not owner.started) and not create:
                raise ConversationNotFound(conversation_id)
            if owner is not None and owner.quarantine is not None:  # known without an actor, of which there may be none
                raise Quarantined(conversation_id, owner.quarantine.reason, owner.quarantine.at)
            owner = owner or Owner("", 0, "")
            because = TakeoverReason.ASKED
            if owner.holder:
                dead = owner.holder in self._dead
                handle = None if dead else await self._actors.find(owner.holder)
                if handle is None and (dead or self._actors.judges(owner.holder)):  # another cluster's may live there
                    self.died(conversation_id, owner.holder)
                    because = TakeoverReason.DIED
                if (
                    handle is not None
                    and self._actors.ours(owner.holder)
                    and self._not_hosting.get(conversation_id) != owner.token
                ):
                    return owner.holder, handle
            name, actor = adopted or await self._adopt(conversation_id, refusals)
            adopted = None
            match await self._activate(name, actor, conversation_id, owner.token, because, create=create):
                case Hosted():
                    self._not_hosting.pop(conversation_id, None)
                    return name, actor
                case OwnedElsewhere() | Occupied() | None:
                    pass
                case Failed(LeaseHeld() as held):
                    if _now() + held.retry_after_ms / 1000 > give_up:
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
        self, name: str, actor: Handle, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool
    ) -> Hosted | Occupied | OwnedElsewhere | Failed | None:
        try:
            async with asyncio.timeout(self._patience_s):
                return await actor.activate(conversation_id, seen_token, because, create=create)
        except (ActorDied, ActorUnavailable, TimeoutError) as error:
            logger.debug("%s could not be adopted: %s", name, error)
            return None

    async def _adopt(self, conversation_id: str, refusals: list[StoreUnavailable | Overloaded]) -> tuple[str, Handle]:
        """An actor that is on offer; while there is none, first come, first served, and a new one is spawned."""
        self._waiting += 1
        try:
            async with self._line:
                return await self._taken(conversation_id, refusals)
        except asyncio.CancelledError:
            if self._full and not refusals:
                refusals[:] = [Overloaded(conversation_id, RETRY_AFTER_MS)]
            raise
        finally:
            self._waiting -= 1
            if not self._waiting:  # what came of it since is nobody's: an actor that was spawned puts itself on offer
                self._short_since = self._cannot_spawn = None
                self._full = False
                self._spawned.clear()

    async def _taken(self, conversation_id: str, refusals: list[StoreUnavailable | Overloaded]) -> tuple[str, Handle]:
        while True:
            if self._spawned:
                return self._spawned.pop()
            name = await self._store.take()
            if name is not None and not self._actors.ours(name):
                continue  # it offers itself again to those that it can talk to
            if name is not None:
                self._short_since = None
                handle = None if name in self._dead else await self._actors.find(name)
                if handle is not None:
                    return name, handle
                await self._pool.gone(name)
                continue
            self._short_since = self._short_since or _now()
            if _now() - self._short_since >= SHORT_S and self._may_spawn():
                coming = self._begin(self._spawn())
                self._on_the_way[coming] = _now()
                coming.add_done_callback(self._on_the_way.pop)
            if self._full:
                refusals[:] = [Overloaded(conversation_id, RETRY_AFTER_MS)]
            await asyncio.sleep(LOOK_AGAIN_S)
            if self._cannot_spawn is not None:
                error, self._cannot_spawn = self._cannot_spawn, None
                raise error

    def _may_spawn(self) -> bool:
        """Whether too few are on their way; one that is late may never come, and does not count as one for long."""
        in_time = sum(begun > _now() - LATE_S for begun in self._on_the_way.values())
        return in_time < min(SPAWNING_AT_ONCE, self._waiting) and len(self._on_the_way) < MOST_ON_THE_WAY

    async def _spawn(self) -> None:
        """Spawn one for whoever waits first by then; if nobody waits any more, the actor puts itself on offer."""
        try:
            spawned = await self._pool.spawn(offer=False)
        except PoolFull:
            self._full = self._waiting > 0
            await asyncio.sleep(FULL_S)
        except ActorUnavailable as error:
            self._full = False
            logger.warning("an actor did not start: %s", error)
            await asyncio.sleep(1)
        except HoldfastError as error:
            self._full = False
            self._cannot_spawn = error if self._waiting else None
        except Exception:
            self._full = False
            logger.exception("an actor could not be made")
            await asyncio.sleep(1)
        else:
            self._full = False
            if self._waiting:
                self._spawned.append(spawned)


def _now() -> float:
    return asyncio.get_running_loop().time()
