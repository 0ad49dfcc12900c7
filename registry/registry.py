"""The registry finds the actor that hosts a conversation, or has a free actor take it over, and hands it a command."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TypeAlias

from holdfast.actors.answers import AnswerToActivate, AnswerToAsk, Failed, Hosted, NotHosted, Replied
from holdfast.background import Background
from holdfast.backoff import Backoff
from holdfast.conversation import Command, State, Wake, decide
from holdfast.errors import (
    ConversationNotFound,
    HoldfastError,
    LeaseHeld,
    Overloaded,
    Quarantined,
    StoreError,
    StoreUnavailable,
)
from holdfast.persistence import Conversations, Owner, TakeoverReason
from holdfast.settings import Timing
from holdfast.work_context import about

from .pool import ActorDied, Actors, ActorUnavailable, Handle, Pool

HANDLES = 10_000
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5
RETRY_AFTER_MS = 1000
PATIENCE_S = 5.0
"""How long a caller waits for an actor, at least, before it asks the store whether another may take over."""

Host: TypeAlias = tuple[str, Handle]

logger = logging.getLogger("holdfast.registry")


@dataclass(frozen=True, slots=True)
class Refused:
    """The command was judged and refused."""

    error: HoldfastError


@dataclass(frozen=True, slots=True)
class Unsent:
    """No actor has judged the command or will: it has no effect."""

    error: HoldfastError | TimeoutError


@dataclass(frozen=True, slots=True)
class Unknown:
    """An actor may have judged the command, or may still do so. The same ids make a repetition safe."""

    error: HoldfastError | TimeoutError


DeliveryResult: TypeAlias = Replied | Refused | Unsent | Unknown


@dataclass(slots=True, eq=False)
class Delivery:
    """One command on its way to the actor that hosts its conversation; the command's ids make a repetition safe.

    It may take `timeout_s` from now on, until `until` in the loop's time. `create` lets the command start the conversation.
    `proves`: this process has verified the command's principal, and signs the command. `waits_for_store`: an unavailable store
    is tried again while there is time. `handed`: an actor may have judged the command; it also holds after a cancellation.
    `answer` is the answer of an actor that got the command together with the takeover, if one did. `began` is the
    state that a start or message left which this process wrote itself.
    """

    conversation_id: str
    command: Command
    _: KW_ONLY
    timeout_s: InitVar[float]
    create: bool = False
    proves: bool = False
    waits_for_store: bool = True
    until: float = field(init=False)
    handed: bool = field(default=False, init=False)
    answer: AnswerToAsk | None = field(default=None, init=False)
    began: State | None = field(default=None, init=False)

    def __post_init__(self, timeout_s: float) -> None:
        self.until = asyncio.get_running_loop().time() + timeout_s

    @property
    def left_s(self) -> float:
        """The seconds left, never below 0."""
        return max(self.until - asyncio.get_running_loop().time(), 0.0)

    def given_up(self, error: HoldfastError | TimeoutError) -> Unsent | Unknown:
        """The result if the command is given up after this error: `Unknown` if it was `handed`, else `Unsent`."""
        return Unknown(error) if self.handed else Unsent(error)


@dataclass(slots=True)
class _Search:
    """A search for an actor, which may take several looks.

    `turn` is the conversation's lock while this search holds it, so that one search at a time takes an actor. `free` is an
    actor from the pool that is not yet adopted. `hindrance` is the known reason for a long search. `held_s` is how much was
    left of the owner's lease at the last look.
    """

    turn: asyncio.Lock | None = None
    free: Host | None = None
    hindrance: HoldfastError | None = None
    held_s: float = 0.0


class Registry:
    """Finds and revives conversations, and caches handles. Many registries may work on one store at once.

    `patience_s` is how long a caller waits for one actor before it asks the store whether another may take over.
    """

    def __init__(self, store: Conversations, actors: Actors, *, pool: Pool, timing: Timing) -> None:
        self.patience_s = max(timing.lease_ms / 2000, PATIENCE_S)
        self._store = store
        self._actors = actors
        self._pool = pool
        self._hosts: OrderedDict[str, Host] = OrderedDict()
        self._not_hosting: dict[str, str] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._noting = Background()

    async def deliver(self, delivery: Delivery) -> DeliveryResult:
        """Send a command, again with the same ids until it is answered or the time is up; its result."""
        search = _Search()
        with about(conversation=delivery.conversation_id):
            try:
                return await self._retried(delivery, search)
            finally:
                self._end(search, delivery.conversation_id)

    async def ensure_started(self, conversation_id: str, *, timeout_s: float, create: bool = False) -> None:
        """Have an actor host the conversation, which is revived from the store if it has none.

        Raises the reason if none does: `Overloaded` if the pool was full, `LeaseHeld` if a silent owner kept its lease.
        """
        wake = Delivery(conversation_id, Wake(), timeout_s=timeout_s, create=create, waits_for_store=False)
        result = await self.deliver(wake)
        if not isinstance(result, Replied):
            raise result.error

    async def _retried(self, delivery: Delivery, search: _Search) -> DeliveryResult:
        """Look for a host and hand it the command, until the answer or error of a try is final."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        away: StoreUnavailable | None = None
        while True:
            search.held_s = 0.0
            try:
                answer = await self._tried(delivery, search)
            except ActorDied:
                continue
            except TimeoutError as error:
                return delivery.given_up(search.hindrance or (error if away is None else TimeoutError(str(away))))
            except Quarantined as error:
                return Unsent(error)
            except StoreUnavailable as error:
                self._end(search, delivery.conversation_id)
                answer = Failed(error)
            except HoldfastError as error:
                return delivery.given_up(error)
            match answer:
                case Replied():
                    return answer
                case Failed(StoreUnavailable() as away):
                    if not delivery.waits_for_store or delivery.left_s <= backoff.pause_s:
                        return delivery.given_up(away)
                case Failed(refusal):
                    return Refused(refusal)
                case _:
                    pass
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(delivery.until):
                    await backoff.sleep(at_least_s=min(search.held_s, LONGEST_PAUSE_S))

    async def _tried(self, delivery: Delivery, search: _Search) -> AnswerToAsk:
        """The answer of the conversation's host."""
        if not delivery.left_s:
            raise TimeoutError
        delivery.answer = None
        try:
            host = await self._found(delivery, search)
        except Quarantined:
            before = await self._answered_before(delivery)
            if before is None:
                raise
            return before
        if host is None:
            return NotHosted()
        answer = delivery.answer or await self._asked(delivery, host)
        if isinstance(answer, NotHosted):
            await self.not_hosted(delivery.conversation_id, host[0], until=delivery.until)
        elif isinstance(answer, Failed) and isinstance(answer.error, Overloaded):
            raise answer.error
        return answer or NotHosted()

    async def _asked(self, delivery: Delivery, host: Host) -> AnswerToAsk | None:
        """The host's answer; None if it gives none, which does not prove its death."""
        (name, actor), conversation_id = host, delivery.conversation_id
        had_it, delivery.handed = delivery.handed, True
        try:
            # Not `wait_for`: before Python 3.12 it swallows a caller's deadline that coincides with the answer.
            async with asyncio.timeout(max(min(delivery.left_s, self.patience_s), 0.001)):
                answer = await actor.ask(conversation_id, delivery.command)
        except ActorDied:
            self._died(conversation_id, name)
            raise
        except ActorUnavailable as error:
            logger.debug("%s: %s", name, error)
            return None
        except TimeoutError:  # the actor may hang: the store decides whether another takes over, and ids make that safe
            with contextlib.suppress(StoreError):  # without the note the same actor is asked again: `Unknown`
                await self.not_hosted(conversation_id, name, until=delivery.until)
            return None
        if _undecided(answer):
            delivery.handed = had_it
        return answer

    async def _found(self, delivery: Delivery, search: _Search) -> Host | None:
        """The cached host, or a revived one (one caller at a time revives); None to try again."""
        conversation_id = delivery.conversation_id
        host = self._hosts.get(conversation_id)
        if host is None:
            async with asyncio.timeout_at(delivery.until):
                if search.turn is None:
                    turn = self._turns.setdefault(conversation_id, asyncio.Lock())
                    await turn.acquire()
                    search.turn = turn
                host = self._hosts.get(conversation_id) or await self._revived(delivery, search)
            if host is None:
                return None
            self._hosts[conversation_id] = host
            while len(self._hosts) > HANDLES:
                self._hosts.popitem(last=False)
        self._end(search, conversation_id)
        return host

    def _end(self, search: _Search, conversation_id: str) -> None:
        if search.turn is not None:
            search.turn.release()
        turn = self._turns.get(conversation_id)
        if turn is not None and not turn.locked():
            del self._turns[conversation_id]
        search.turn = search.free = search.hindrance = None

    async def _revived(self, delivery: Delivery, search: _Search) -> Host | None:
        conversation_id = delivery.conversation_id
        owner = await self._owner(conversation_id, create=delivery.create)
        host, because = await self._host(conversation_id, owner)
        if host is not None:
            return host
        if search.free is None:
            try:
                search.free = await self._pool.take()
            finally:
                if self._pool.full:
                    search.hindrance = Overloaded(conversation_id, RETRY_AFTER_MS)
        host, search.free = search.free, None
        match await self._activated(delivery, host, owner.token, because):
            case Hosted():
                self._not_hosting.pop(conversation_id, None)
                return host
            case Failed(LeaseHeld() as held):
                search.held_s = held.retry_after_ms / 1000
                if delivery.left_s < search.held_s:
                    raise held
                self._not_hosting.pop(conversation_id, None)  # the owner holds its lease, and may answer now
            case Failed(StoreUnavailable() as unavailable):
                search.hindrance = unavailable
                search.free = host  # the next try uses this actor
            case Failed(error):
                raise error
            case _:
                pass
        return None

    async def _owner(self, conversation_id: str, *, create: bool) -> Owner:
        """The owner; an `Owner` without an actor if there is none yet."""
        owner = await self._store.owner(conversation_id)
        if (owner is None or not owner.started) and not create:
            raise ConversationNotFound(conversation_id)
        if owner is not None and owner.quarantine is not None:  # this needs no actor: none may be free
            raise Quarantined(conversation_id, owner.quarantine.reason, owner.quarantine.at)
        return owner or Owner("", 0, "")

    async def _host(self, conversation_id: str, owner: Owner) -> tuple[Host | None, TakeoverReason]:
        """The owner's actor (None if it cannot be asked), and the reason for which another may take over."""
        name, because = owner.actor, TakeoverReason.ASKED
        if not name:
            return None, because
        dead = name in self._pool.dead
        handle = None if dead else await self._actors.find(name)
        if handle is None and (dead or self._actors.judges(name)):  # an actor of another cluster may live there
            self._died(conversation_id, name)
            because = TakeoverReason.DIED
        asked_in_vain = self._not_hosting.get(conversation_id) == owner.token
        if handle is None or asked_in_vain or not self._actors.ours(name):
            return None, because
        return (name, handle), because

    async def _activated(
        self, delivery: Delivery, host: Host, seen_token: str, because: TakeoverReason
    ) -> AnswerToActivate | None:
        """The answer of an actor asked to take the conversation over and judge the command in one call."""
        name, actor = host
        had_it, delivery.handed = delivery.handed, True  # until the actor says otherwise
        try:
            async with asyncio.timeout(self.patience_s):
                answer = await actor.activate(
                    delivery.conversation_id, seen_token, because, create=delivery.create, first=delivery.command
                )
        except ActorDied:
            self._pool.died(name)
            return None
        except (ActorUnavailable, TimeoutError) as error:
            logger.debug("%s could not be adopted: %s", name, error)
            return None
        delivery.answer = answer.first if isinstance(answer, Hosted) else None
        delivery.handed = had_it or not _undecided(delivery.answer)
        return answer

    def _died(self, conversation_id: str, name: str) -> None:
        self._hosts.pop(conversation_id, None)
        self._pool.died(name)

    async def not_hosted(self, conversation_id: str, name: str, *, until: float) -> None:
        """Note that this actor does not host the conversation, or does not answer.

        If the store hangs, the caller waits until `until` at most; the note is made later, for the next caller.
        """
        self._hosts.pop(conversation_id, None)
        async with asyncio.timeout_at(until):
            await asyncio.shield(self._noting.start(self._note(conversation_id, name)))

    async def _note(self, conversation_id: str, name: str) -> None:
        owner = await self._store.owner(conversation_id)
        if owner is not None and owner.actor == name:
            self._not_hosting[conversation_id] = owner.token

    async def _answered_before(self, delivery: Delivery) -> Replied | Failed | None:
        """The earlier answer to a repeated command for a conversation in quarantine; None if the command was never judged.

        The idempotency records suffice: quarantine deposed the owner, so a command without a record by now was never written.
        """
        conversation_id, command = delivery.conversation_id, delivery.command
        async with asyncio.timeout_at(delivery.until):
            known = await self._store.known(conversation_id, command.lookups())
        if not known:
            return None
        try:
            return Replied(decide(State(conversation_id=conversation_id), command.stamped(0, None, known)).reply)
        except HoldfastError as refusal:
            return Failed(refusal)

    async def pid(self, conversation_id: str) -> int | None:
        """The id of the hosting process, None if there is none. For demonstrations and tests of faults."""
        owner = await self._store.owner(conversation_id)
        actor = await self._actors.find(owner.actor) if owner is not None and owner.actor else None
        if actor is None:
            return None
        try:
            return await actor.pid()
        except (ActorDied, ActorUnavailable):
            return None

    async def close(self) -> None:
        """End the background tasks, and give up starting actors."""
        await self._noting.close()
        await self._pool.close()


def _undecided(answer: AnswerToAsk | None) -> bool:
    """Whether this answer says that the actor has not judged the command and will not."""
    match answer:
        case None | NotHosted() | Failed(Overloaded()):
            return True
        case _:
            return False
