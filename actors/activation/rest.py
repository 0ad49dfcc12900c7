"""Since when nothing goes on in an activation, and which of its effects wait for the end of a pause."""

import asyncio
from collections.abc import Callable, Collection

from holdfast.actors.admission import Admission


class Rest:
    """The rest of one activation.

    Args:
        admission: Says when a pause is over.
        clock: The actor's, in ms.
        rested: Set where the conversation is found at rest.

    Attributes:
        since: Since when it rests, by the clock; None while it does not.
    """

    def __init__(self, admission: Admission, *, clock: Callable[[], int], rested: asyncio.Event) -> None:
        self.since: int | None = None
        self._admission = admission
        self._clock = clock
        self._rested = rested
        self._paused: set[str] = set()

    def paused(self, effects: Collection[str]) -> bool:
        """Whether all these effects, of which there are some, wait for the end of a pause: they are at nothing meanwhile."""
        return 0 < len(effects) <= len(self._paused) and self._paused.issuperset(effects)

    def see(self, *, idle: bool, busy: bool, effects: Collection[str]) -> None:
        """Note whether the conversation rests: nobody asks anything of it, and it is not busy, or waits whole for a pause."""
        if not idle or (busy and not self.paused(effects)):
            self.since = None
            return
        if self.since is None or not busy:
            self.since = self._clock()
        self._rested.set()

    def pause(self, effect_id: str) -> None:
        """Note that an effect waits from now on."""
        self._paused.add(effect_id)

    async def reopened(self, effect_id: str, agent: str) -> None:
        """Wait for the end of the pause for which an effect waits."""
        try:
            await self._admission.reopened(agent)
        finally:
            self._paused.discard(effect_id)
