"""The rest of an activation: when no effect needs it, and how long its actor then keeps the conversation."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from holdfast.actors.admission import Admission

HOLD_MS = 250
"""How long (ms) an actor keeps a conversation whose work ends soon: leaving it and taking it over again costs more."""
OFFER_AFTER_MS = 5
"""How long (ms) a conversation must have rested before its actor goes on offer."""
REMEMBERED = 16
TRIED = 32
"""While most waits are long, every 32nd is held for `HOLD_MS` anyway: only that shows when waits become short."""
TELLING = REMEMBERED // 2
"""While most waits are long, one short wait counts as this many: few are seen, since most waits are cut off."""


class Patience:
    """Whether most of the work that workers kept lately took longer than `HOLD_MS`, as one process has seen it."""

    def __init__(self) -> None:
        self._long: deque[bool] = deque(maxlen=REMEMBERED)
        self._waits = 0

    def hold_ms(self) -> int:
        """How long (ms) the wait that begins now is held before the actor goes on offer."""
        self._waits += 1
        return OFFER_AFTER_MS if self._most_are_long and self._waits % TRIED else HOLD_MS

    def waited(self, for_ms: int, *, over: bool) -> None:
        """Note a wait of `for_ms`; `over`: the work was over then. A short wait that was cut off tells nothing."""
        if for_ms >= HOLD_MS:
            self._long.append(True)
        elif over:
            self._long.extend([False] * (TELLING if self._most_are_long else 1))

    @property
    def _most_are_long(self) -> bool:
        return 2 * sum(self._long) > len(self._long)


@dataclass(eq=False)
class Rest:
    """The effects of one activation that do not need it, and the rest that follows.

    The conversation has rested from `since` (None: it does not rest), and its actor may go on offer at `offer_at`, both by the
    actor's clock.
    """

    _admission: Admission
    _clock: Callable[[], int]
    _rested: asyncio.Event
    _patience: Patience
    since: int | None = None
    offer_at: int = 0
    _waiting_since: int | None = None
    _paused: set[str] = field(default_factory=set)
    _kept: set[str] = field(default_factory=set)
    _waiting: set[str] = field(default_factory=set)
    _queued: set[str] = field(default_factory=set)

    def paused(self, effects: Collection[str]) -> bool:
        """Whether there are effects and all of them wait for the end of a pause."""
        return 0 < len(effects) <= len(self._paused) and self._paused.issuperset(effects)

    def kept_elsewhere(self, effects: Collection[str]) -> bool:
        """Whether there are effects and each is kept by a worker, or waits for an app or the end of a pause."""
        elsewhere = (self._kept, self._paused, self._waiting)
        if not 0 < len(effects) <= sum(map(len, elsewhere)):
            return False
        return all(any(effect_id in one for one in elsewhere) for effect_id in effects)

    def see(self, *, idle: bool, busy: bool, effects: Collection[str]) -> None:
        """Note whether the conversation rests: no command waits, and it is not busy, or no effect needs this activation.

        After a command that left it at rest, it has rested only since then, and its actor stays on offer.
        """
        if not idle or (busy and not self.kept_elsewhere(effects)):
            self.since = None
        elif self.since is not None and not busy:
            self.since = self._clock()
        else:
            if self.since is None:
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
        """Whether an effect waits in a worker's queue, or for its app to be repaired."""
        return bool(self._queued or self._waiting)

    def kept(self, effect_id: str, *, queued: bool) -> None:
        """Note that a living worker has claimed an effect, or has it `queued`."""
        self._kept.add(effect_id)
        self._waiting.discard(effect_id)
        if queued:
            self._queued.add(effect_id)

    def waits(self, effect_id: str) -> None:
        """Note that an effect waits for an app that needs repair: any later activation can try it again just as well."""
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
        """Return once the pause of the agent's new work, for which this effect waits, is over."""
        try:
            await self._admission.reopened(agent)
        finally:
            self._paused.discard(effect_id)
