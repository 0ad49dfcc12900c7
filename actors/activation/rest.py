"""Which effects of an activation do not need it, and since when its conversation rests."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.actors.workers import Claimed

OFFER_AFTER_MS = 5
"""How long (ms) a conversation must have rested before its actor goes on offer."""
KEPT_MS = 1_000
"""How long (ms) after a command an actor is kept for its conversation, if another command came within that time before."""


class Elsewhere(StrEnum):
    """Why an effect that no worker has does not need the activation."""

    NO_APP = "no_app"  # its app needs repair: any later activation can try it again just as well
    PAUSED = "paused"  # it waits for the end of a pause


LATER = frozenset({Claimed.QUEUED, Elsewhere.NO_APP})


@dataclass(eq=False)
class Rest:
    """Which effects of one activation do not need it; the conversation has rested from `since` (None: it does not rest).

    Other conversations get the actor from `spare_from` on. `clock` is the actor's, and `rested` is set when the conversation
    comes to rest, and when the actor's offer should name a later time.
    """

    clock: Callable[[], int]
    rested: asyncio.Event
    since: int | None = None
    spare_from: int = 0
    _renewed_at: int = 0
    _effects: dict[str, Claimed | Elsewhere] = field(default_factory=dict)

    def put(self, effect_id: str, where: Claimed | Elsewhere | None) -> None:
        """Note where an effect is; None: it needs this activation (again)."""
        if where is None:
            self._effects.pop(effect_id, None)
        else:
            self._effects[effect_id] = where

    def paused(self, effects: Collection[str]) -> bool:
        """Whether there are effects and all of them wait for the end of a pause."""
        return bool(effects) and all(self._effects.get(one) is Elsewhere.PAUSED for one in effects)

    def elsewhere(self, effects: Collection[str]) -> bool:
        """Whether there are effects and none needs this activation."""
        return 0 < len(effects) <= len(self._effects) and all(one in self._effects for one in effects)

    @property
    def handed_over(self) -> bool:
        """Whether a worker has effects."""
        return any(isinstance(where, Claimed) for where in self._effects.values())

    @property
    def later(self) -> bool:
        """Whether an effect waits in a worker's queue, or for an app that can be opened."""
        return not LATER.isdisjoint(self._effects.values())

    def see(self, *, idle: bool, busy: bool, effects: Collection[str]) -> None:
        """Note whether the conversation rests: no command waits, and it is not busy, or no effect needs this activation.

        After a command that left it at rest, it has rested only since then, and its actor stays on offer, from a later time on.
        """
        now = self.clock()
        if not idle or (busy and not self.elsewhere(effects)):
            self.since = None
        elif self.since is not None and not busy:
            self.spare_from = now + (KEPT_MS if now - self.since <= KEPT_MS else 0)
            self.since = now
            if now - self._renewed_at >= KEPT_MS / 2:
                self._renewed_at = now
                self.rested.set()
        else:
            if self.since is None:
                self.since = self.spare_from = now
            self.rested.set()
