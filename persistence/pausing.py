"""What a store keeps of pauses: which new work waits, of the whole namespace or of one agent, and who waits for it to go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import InvalidInput

PAUSE_LAG_MS = 1_000
"""How old, at most, may be what a worker knows of the pauses when it begins something: after a pause, nothing begins later."""
MOST_PAUSED = 64
"""How many may stand at once where an agent's is added: each look reads them all. The namespace's is never refused."""


@dataclass(frozen=True, slots=True)
class Pause:
    """New work that waits: that of one agent, or (`agent` is None) of the whole namespace.

    Attributes:
        agent: Whose work it is; None for everybody's.
        reason: Why, as whoever paused it said; may be empty.
        by: Who paused it, as that process says: a user and a machine.
        since: Since when, in integer milliseconds UTC by the store's clock.
        duplicate: Whether it stood before it was asked for this time. What stood then is what is said here.
    """

    agent: str | None
    reason: str
    by: str
    since: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """The pauses that stood at one moment; `now` is that moment by the store's clock, in ms UTC."""

    now: int
    pauses: Sequence[Pause] = ()

    def of(self, agent: str) -> Pause | None:
        """The pause for which this agent's new work waits, if any: the namespace's before its own."""
        return next((pause for pause in self.pauses if pause.agent in (None, agent)), None)


def too_many() -> InvalidInput:
    """Why there is no room for another pause."""
    fix = "resume some of them (`holdfast resume --agent NAME`), or pause the whole namespace"
    return InvalidInput("agent", f"{MOST_PAUSED} pauses stand already", fix)


class Pausing(Protocol):
    """The verbs of a `Store` by which new work is stopped and started."""

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        """Have the new work of an agent, or of the namespace, wait from now on; a pause that stands already stays as it is.

        Raises:
            InvalidInput: `MOST_PAUSED` others stand, and this is an agent's.
        """
        ...

    async def resume(self, agent: str | None) -> Pause | None:
        """Lift the pause of an agent, or that of the namespace, and no other; what was lifted, None if there was none."""
        ...

    async def paused(self) -> Paused:
        """The pauses that stand, that of the namespace first, then by the agent's name."""
        ...

    async def readmit(self, limit: int) -> int:
        """Have those need attention again that were released as paused and are it no more; how many, `limit` in each bucket."""
        ...
