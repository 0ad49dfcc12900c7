"""The rest of an activation: the time in which nothing goes on, or nothing that needs it; and how long an actor waits then."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection

from holdfast.actors.admission import Admission

HOLD_MS = 250
"""How long an actor keeps a conversation whose work ends soon: to leave it and to be taken for it again costs more."""
OFFER_AFTER_MS = 5
"""How long a conversation must have come to rest, at least, before its actor goes on offer."""
REMEMBERED = 16
TRIED = 32
"""Of how many waits one is held in any case, while most work goes on for longer: else nothing would show that it does not."""
TELLING = REMEMBERED // 2
"""For how many waits a short one counts while most were long: of those that are cut off, nobody knows how long they were."""


class Patience:
    """What one process has seen of the work that workers kept: whether most of it was over within `HOLD_MS`."""

    def __init__(self) -> None:
        self._long: deque[bool] = deque(maxlen=REMEMBERED)
        self._waits = 0

    def hold_ms(self) -> int:
        """How long the wait that begins now is held before the actor goes on offer."""
        self._waits += 1
        return OFFER_AFTER_MS if self._most_are_long and self._waits % TRIED else HOLD_MS

    def waited(self, for_ms: int, *, over: bool) -> None:
        """Note a wait: how long it was, and whether the work was over then; a short one that was cut off says nothing."""
        if for_ms >= HOLD_MS:
            self._long.append(True)
        elif over:
            self._long.extend([False] * (TELLING if self._most_are_long else 1))

    @property
    def _most_are_long(self) -> bool:
        return 2 * sum(self._long) > len(self._long)


class Rest:
    """Since when one activation rests, and which of its effects do not need it.

    Attributes:
        since: The moment since which the conversation rests, by the actor's clock; None while it does not rest.
        offer_at: The moment from which its actor may go on offer, while it rests.
    """

    def __init__(self, admission: Admission, *, clock: Callable[[], int], rested: asyncio.Event, patience: Patience) -> None:
        self.since: int | None = None
        self.offer_at = 0
        self._waiting_since: int | None = None
        self._patience = patience
        self._admission = admission
        self._clock = clock
        self._rested = rested
        self._paused: set[str] = set()
        self._kept: set[str] = set()
        self._waiting: set[str] = set()
        self._queued: set[str] = set()

    def paused(self, effects: Collection[str]) -> bool:
        """Whether there are any of these effects and all of them wait for the end of a pause."""
        return 0 < len(effects) <= len(self._paused) and self._paused.issuperset(effects)

    def kept_elsewhere(self, effects: Collection[str]) -> bool:
        """Whether there are any of these effects and each is kept by a worker, or waits for an app or the end of a pause."""
        elsewhere = (self._kept, self._paused, self._waiting)
        if not 0 < len(effects) <= sum(map(len, elsewhere)):
            return False
        return all(any(effect_id in one for one in elsewhere) for effect_id in effects)

    def see(self, *, idle: bool, busy: bool, effects: Collection[str]) -> None:
        """Note whether the conversation rests: no command waits, and it is not busy, or no effect needs this activation."""
        if not idle or (busy and not self.kept_elsewhere(effects)):
            self.since = None
            return
        if self.since is None or not busy:
            self._begin(waits=busy and not self.paused(effects))
        self._rested.set()

    def _begin(self, *, waits: bool) -> None:
        self.since = self._clock()
        self.offer_at = self.since + OFFER_AFTER_MS
        if waits and self._waiting_since is None:
            self._waiting_since = self.since
            self.offer_at = self.since + self._patience.hold_ms()

    def left(self) -> None:
        """Note that the conversation is left."""
        if self._waiting_since is not None:
            self._patience.waited(self._clock() - self._waiting_since, over=False)
            self._waiting_since = None

    @property
    def queued(self) -> bool:
        """Whether an effect waits for its turn at a worker, or for an app that can be opened."""
        return bool(self._queued or self._waiting)

    def kept(self, effect_id: str, *, queued: bool) -> None:
        """Note that a worker that lives has claimed an effect, or has it `queued` in its line."""
        self._kept.add(effect_id)
        self._waiting.discard(effect_id)
        if queued:
            self._queued.add(effect_id)

    def waits(self, effect_id: str) -> None:
        """Note that no worker can take an effect before somebody acts: another activation can try it again just as well."""
        self.works(effect_id)
        self._waiting.add(effect_id)

    def works(self, effect_id: str) -> None:
        """Note that the effect needs this activation (again)."""
        if effect_id in self._kept and self._waiting_since is not None:
            self._patience.waited(self._clock() - self._waiting_since, over=True)
            self._waiting_since = None
        self._kept.discard(effect_id)
        self._queued.discard(effect_id)
        self._waiting.discard(effect_id)

    def pause(self, effect_id: str) -> None:
        """Note that an effect waits for the end of a pause from now on."""
        self._paused.add(effect_id)

    async def reopened(self, effect_id: str, agent: str) -> None:
        """Return once the pause of the agent's new work is over, for which this effect waits."""
        try:
            await self._admission.reopened(agent)
        finally:
            self._paused.discard(effect_id)
