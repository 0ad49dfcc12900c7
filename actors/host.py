"""Hosting one conversation at a time, on interfaces: what a `ConversationActor` does, without Ray."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection

from holdfast.conversation import Command
from holdfast.errors import (
    ConversationNotFound,
    CorruptStore,
    Fenced,
    HoldfastError,
    LeaseHeld,
    Quarantined,
    StoreError,
)
from holdfast.persistence import Because, Store
from holdfast.redaction import PLAIN
from holdfast.settings import Fleet, Timing

from .admission import Admission
from .answers import Activation, AnswerToAsk, Failed, Hosted, NotHosted, Occupied, OwnedElsewhere, Replied
from .crew import Crew
from .hosting import Hosting
from .memory import allowed_mb, resident_mb
from .steps import Reached, Step, untrapped

logger = logging.getLogger("holdfast.actor")

UNLIMITED = 1_000_000_000
OFFER_AFTER_S = 0.02
"""How long a conversation must have come to rest before its actor goes on offer."""


class Host:
    """Hosts one conversation at a time, and is adopted by the next when that one is left."""

    def __init__(
        self,
        store: Store,
        crew: Crew,
        *,
        name: str,
        timing: Timing,
        fleet: Fleet,
        clock: Callable[[], int],
        leave: Callable[[], None],
        drained: Callable[[Collection[str]], Awaitable[bool]] | None = None,
        reached: Reached = untrapped,
    ) -> None:
        self._store = store
        self._look_around = drained
        self._drained = False
        self._crew = crew
        self._admission = Admission(store)
        self._name = name
        self._timing = timing
        self._fleet = fleet
        self._clock = clock
        self._leave = leave
        self._reached = reached
        self._hosting: Hosting | None = None
        self._activating = asyncio.Lock()
        self._blank_since = clock()
        self._rested = asyncio.Event()
        self._adoptions = 0
        self._on_offer = False
        self._allowed_mb = allowed_mb(fleet.actor_mb)
        self._leaving = False
        self._heard_at = clock()
        self._housekeeping = asyncio.create_task(self._keep_house())

    @property
    def hosted(self) -> str | None:
        """The conversation that is hosted, if any."""
        return self._hosting.conversation_id if self._hosting is not None and not self._hosting.over else None

    async def activate(self, conversation_id: str, seen_token: str, because: Because, *, create: bool) -> Activation:
        """Host a conversation, leaving the one before if that rests."""
        async with self._activating:
            self._reached(Step.ACTIVATE_1_ASKED)
            if self.hosted == conversation_id:
                return Hosted()
            if self._leaving:
                return Occupied()
            if self._drained:
                self._on_offer = False  # whoever asks has taken the offer
                return Occupied()
            if self._hosting is not None and not await self._hosting.passivate():
                return Occupied()
            self._hosting = None
            self._on_offer = False
            self._adoptions += 1
            hosting = Hosting(
                self._store,
                self._crew,
                admission=self._admission,
                conversation_id=conversation_id,
                holder=self._name,
                timing=self._timing,
                clock=self._clock,
                rested=self._rested,
                strikes=self._fleet.strikes,
                reached=self._reached,
            )
            try:
                await self._store.hosts(self._name, conversation_id)  # before anything of it can make this process hang
                moved = await hosting.activate(seen_token=seen_token, because=because, create=create)
            except (LeaseHeld, ConversationNotFound, Quarantined, StoreError) as error:
                await self.offer_blank()
                return Failed(error)
            except Exception as error:
                logger.exception("conversation %s cannot be taken up", conversation_id)
                await self.offer_blank()
                return Failed(CorruptStore(f"{conversation_id!r} cannot be taken up ({PLAIN.said(error, 300)})"))
            if moved is not None:
                await self.offer_blank()
                return OwnedElsewhere(moved.owner)
            self._hosting = hosting
            self._reached(Step.ACTIVATE_3_STARTED)
            return Hosted()

    async def ask(self, conversation_id: str, command: Command) -> AnswerToAsk:
        """Have a command judged, if the conversation is hosted here."""
        if self.hosted != conversation_id and self._activating.locked():
            async with self._activating:  # it may be this very conversation that is being activated
                pass
        hosting = self._hosting
        if hosting is None or self.hosted != conversation_id:
            return NotHosted()
        try:
            return Replied(await hosting.ask(command))
        except Fenced:
            return NotHosted()
        except HoldfastError as error:
            return Failed(error)

    async def offer_blank(self) -> None:
        """Be on offer for adoption, hosting nothing; or leave soon, if it has been used for long enough."""
        self._blank_since = self._clock()
        worn = self._worn()  # then, with much to do, it would be adopted again and again
        if worn:
            self._rested.set()
        else:
            self._on_offer = True
        try:
            await self._store.hosts(self._name, None)  # whatever makes this process hang from now on, it is no conversation
            if worn:
                return
            await self._store.offer(self._name, 0)
        except StoreError as error:
            logger.warning("%s could not offer itself: %s", self._name, error)
        self._reached(Step.PASSIVATE_3_OFFERED)

    async def _keep_house(self) -> None:
        """Leave what rests for long, stay on offer while idle, and end when there are blank actors enough."""
        while not self._leaving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.tick_ms / 1000):
                    await self._rested.wait()
            self._rested.clear()
            await asyncio.sleep(OFFER_AFTER_S)
            try:
                await self._be_heard()
                await self._tidy()
            except StoreError as error:
                logger.warning("%s: %s", self._name, error)
            except Exception:  # whoever keeps no house is never offered, and never leaves
                logger.exception("%s could not keep house", self._name)

    async def _be_heard(self) -> None:
        """Say now and then that this actor lives, so that it counts."""
        now = self._clock()
        if now - self._heard_at >= self._timing.lease_ms / 3:
            self._heard_at = now
            if self._look_around is not None:
                self._drained = await self._look_around(await self._store.withheld())
            await self._store.enlist(self._name, limit=UNLIMITED)

    async def _tidy(self) -> None:
        linger_ms = self._timing.linger_ms
        async with self._activating:
            hosting, now, worn = self._hosting, self._clock(), self._worn()
            if hosting is not None and hosting.over:
                self._hosting = None
                await self.offer_blank()
            elif hosting is not None and hosting.rested_at is not None:
                if now - hosting.rested_at < OFFER_AFTER_S * 1000:
                    self._rested.set()  # it worked meanwhile: look again when it has rested for as long
                elif now - hosting.rested_at < linger_ms and not worn:
                    await self._store.offer(self._name, hosting.rested_since or 1)
                elif await hosting.passivate():
                    self._hosting = None
                    await self.offer_blank()
                    self._rested.set()
            elif hosting is None:
                spare = now - self._blank_since >= linger_ms and await self._store.offers() > self._fleet.standby
                if not spare and not worn:
                    self._on_offer = True
                    await self._store.offer(self._name, 0)
                elif await self._store.withdraw(self._name) or not self._on_offer:  # nobody has taken it meanwhile
                    self._leaving = True  # its process may take a while to end, and is not to be adopted meanwhile
                    with contextlib.suppress(StoreError):  # it is found out that it lives no more
                        await self._store.delist(self._name)
                    self._leave()

    def _worn(self) -> bool:
        """Whether this process is to end when it can: it was used for long enough, or grew too much, or its node is drained."""
        return self._drained or self._adoptions >= self._fleet.adoptions or resident_mb() > self._allowed_mb
