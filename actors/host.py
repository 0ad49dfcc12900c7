"""Hosting one conversation at a time: the work of a `ConversationActor`, on interfaces and without Ray."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection

from holdfast import metrics
from holdfast.conversation import Command, Resolve, ResolveMany
from holdfast.conversation.records.command_base import Request
from holdfast.counting import Counts
from holdfast.errors import ConversationNotFound, CorruptStore, Fenced, HoldfastError, LeaseHeld, Quarantined, StoreError
from holdfast.persistence import Store, TakeoverReason
from holdfast.redaction import PLAIN
from holdfast.settings import ProcessLimits, Timing, TraceSettings

from .activation.activation import Activation
from .activation.context import ActivationContext
from .activation.rest import OFFER_AFTER_MS
from .admission import Admission
from .answers import AnswerToActivate, AnswerToAsk, Failed, Hosted, NotHosted, Occupied, OwnedElsewhere, Replied
from .memory import allowed_mb, resident_mb
from .proofs import CheckProof, refuse_proof
from .steps import Reached, Step, logged
from .telling import tell
from .workers import Workers

logger = logging.getLogger("holdfast.actor")

UNLIMITED = 1_000_000_000


class Host:
    """Hosts one conversation at a time; another can adopt the actor once the hosted one rests or is left."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        *,
        name: str,
        timing: Timing,
        process_limits: ProcessLimits,
        clock: Callable[[], int],
        leave: Callable[[], None],
        drained: Callable[[Collection[str]], Awaitable[bool]] | None = None,
        counts: Counts | None = None,
        traces: TraceSettings | None = None,
        reached: Reached = logged,
        check_proof: CheckProof = refuse_proof,
    ) -> None:
        self._store = store
        self._counts = Counts() if counts is None else counts
        self._look_around = drained
        self._drained = False
        self._check_proof = check_proof
        self._name = name
        self._timing = timing
        self._process_limits = process_limits
        self._clock = clock
        self._leave = leave
        self._reached = reached
        self._activation: Activation | None = None
        self._activating = asyncio.Lock()
        self._blank_since = clock()
        self._rested = asyncio.Event()
        self._adoptions = 0
        self._on_offer = False
        self._context = ActivationContext(
            store,
            workers,
            Admission(store),
            actor=name,
            timing=timing,
            clock=clock,
            rested=self._rested,
            strikes=process_limits.strikes,
            counts=self._counts,
            traces=traces or TraceSettings(),
            reached=reached,
        )
        self._allowed_mb = allowed_mb(process_limits.actor_mb)
        self._leaving = False
        self._heard_at = clock()
        self._housekeeping = asyncio.create_task(self._keep_house())

    @property
    def hosted(self) -> str | None:
        """The id of the hosted conversation; None if the actor is blank."""
        return self._activation.conversation_id if self._activation is not None and not self._activation.over else None

    async def activate(
        self, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool, first: Command | None = None
    ) -> AnswerToActivate:
        """Host a conversation, if the one hosted now rests and can be left, and have the `first` command judged."""
        began_s = time.perf_counter()
        answer = await self._activate(conversation_id, seen_token, because, create=create)
        if first is None or not isinstance(answer, Hosted):
            return answer
        return Hosted(await self._asked(conversation_id, first, "taken_up", began_s))

    async def _activate(
        self, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool
    ) -> AnswerToActivate:
        async with self._activating:
            self._reached(Step.ACTIVATE_1_ASKED)
            if self.hosted == conversation_id:
                return Hosted()
            if self._leaving:
                return Occupied()
            if self._drained:
                self._on_offer = False  # the caller has taken the offer
                return Occupied()
            if self._activation is not None and not await self._activation.passivate():
                self._rested.set()  # the caller has taken the offer
                return Occupied()
            self._activation = None
            self._on_offer = False
            self._adoptions += 1
            activation = Activation(self._context, conversation_id)
            try:
                await self._store.hosts(self._name, conversation_id)  # before the conversation can make this process hang
                moved = await activation.activate(seen_token=seen_token, because=because, create=create)
                answer: AnswerToActivate = Hosted() if moved is None else OwnedElsewhere(moved.owner)
            except (LeaseHeld, ConversationNotFound, Quarantined, StoreError) as error:
                answer = Failed(error)
            except Exception as error:
                logger.exception("conversation %s cannot be taken up", conversation_id)
                answer = Failed(CorruptStore(f"{conversation_id!r} cannot be taken up ({PLAIN.said(error, 300)})"))
            if isinstance(answer, Hosted):
                self._activation = activation
                self._reached(Step.ACTIVATE_3_STARTED)
            else:
                await self.offer_blank()
            return answer

    async def ask(self, conversation_id: str, command: Command) -> AnswerToAsk:
        """Have a command judged, if the conversation is hosted here, or nobody owns it and this actor is blank."""
        began_s, was = time.perf_counter(), "hosted"
        if self.hosted != conversation_id and self._activating.locked():
            async with self._activating:  # perhaps this very conversation is being activated
                pass
        if self.hosted is None:  # it has left the conversation, and its caller knows no other
            was = "taken_up"
            await self._activate(conversation_id, "", TakeoverReason.ASKED, create=False)
        return await self._asked(conversation_id, command, was, began_s)

    async def _asked(self, conversation_id: str, command: Command, was: str, began_s: float) -> AnswerToAsk:
        activation = self._activation
        if activation is None or self.hosted != conversation_id:
            return NotHosted()
        try:
            if isinstance(command, Request) and (command.of_machine or command.proven is not None):
                await self._check_proof(conversation_id, command)
            reply = await activation.ask(command)
            if isinstance(command, Resolve | ResolveMany):
                self._counts.observe(metrics.RESOLVE_S, time.perf_counter() - began_s, was)
            return Replied(reply)
        except Fenced:
            return NotHosted()
        except HoldfastError as error:
            return Failed(error)

    async def offer_blank(self) -> None:
        """Offer this blank actor for adoption; a worn actor is not offered, and leaves soon."""
        self._blank_since = self._clock()
        worn = self._worn()  # under load, a worn actor on offer would be adopted again and again
        if worn:
            self._rested.set()
        else:
            self._on_offer = True
        try:
            await self._store.hosts(self._name, None)  # if this process hangs from now on, no conversation is to blame
            if worn:
                return
            await self._store.offer(self._name, 0)
        except StoreError as error:
            logger.warning("%s could not offer itself: %s", self._name, error)
        self._reached(Step.PASSIVATE_3_OFFERED)

    async def _keep_house(self) -> None:
        """Leave a conversation that rests for long, stay on offer while idle, and end if there are enough blank actors."""
        tick_s = pause_s = self._timing.tick_ms / 1000
        while not self._leaving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._rested.wait()
            self._rested.clear()
            await asyncio.sleep(OFFER_AFTER_MS / 1000)
            pause_s = tick_s
            try:
                await self._be_heard()
                await self._tidy()
                pause_s = self._idle_ms() / 1000
            except StoreError as error:
                logger.warning("%s: %s", self._name, error)
            except Exception:  # an actor whose housekeeping has ended is never offered, and never leaves
                logger.exception("the housekeeping of %s failed", self._name)

    def _idle_ms(self) -> float:
        """Ms until this actor's next look, unless its conversation comes to rest: many actors rest at once."""
        activation, timing, now = self._activation, self._timing, self._clock()
        until = [self._heard_at + timing.lease_ms / 3]
        if activation is None:
            until += [self._blank_since + timing.linger_ms] if now - self._blank_since < timing.linger_ms else []
        elif activation.rest.since is not None:
            until.append(activation.rest.since + timing.linger_ms)
        return max(min(until) - now, timing.tick_ms)

    async def _be_heard(self) -> None:
        """About every third of a lease, look whether this node is drained, then send a heartbeat and the counts."""
        now = self._clock()
        if now - self._heard_at >= self._timing.lease_ms / 3:
            self._heard_at = now
            if self._look_around is not None:
                self._drained = await self._look_around(await self._store.withheld())
            await self._store.heartbeat(self._name, limit=UNLIMITED)
            await tell(self._store, self._counts)

    async def _tidy(self) -> None:
        linger_ms = self._timing.linger_ms
        async with self._activating:
            activation, now, worn = self._activation, self._clock(), self._worn()
            if activation is not None and activation.over:
                self._activation = None
                await self.offer_blank()
            elif activation is not None and activation.rest.since is not None:
                if now - activation.rest.since < linger_ms and not worn:
                    await self._store.offer(self._name, activation.spare_from or 1)
                elif await activation.passivate():
                    self._activation = None
                    await self.offer_blank()
                    self._blank_since = now - linger_ms  # it has been idle for that long
                    self._rested.set()
            elif activation is None:
                spare = now - self._blank_since >= linger_ms and await self._store.offers() > self._process_limits.standby
                if not spare and not worn:
                    self._on_offer = True
                    await self._store.offer(self._name, 0)
                elif await self._store.offer(self._name, None) or not self._on_offer:  # the offer was not taken meanwhile
                    self._leaving = True  # the process may take a while to end, and must not be adopted meanwhile
                    await tell(self._store, self._counts)
                    with contextlib.suppress(StoreError):  # without a heartbeat the actor counts as gone anyway
                        await self._store.deregister(self._name)
                    self._leave()

    def _worn(self) -> bool:
        """Whether this process should end when it can: it has had enough adoptions, grew too much, or its node is drained."""
        return self._drained or self._adoptions >= self._process_limits.adoptions or resident_mb() > self._allowed_mb
