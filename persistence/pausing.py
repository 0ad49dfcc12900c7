"""Pauses: new work of one agent, or of the whole namespace, waits, and so do conversations that are released meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from holdfast.errors import InvalidInput

PAUSE_LAG_MS = 1_000
"""How old (ms) a worker's view of the pauses may be when it begins work: so long after a pause, no new work begins any more."""
MOST_PAUSED = 64
"""How many pauses may stand when an agent's is added, since each look reads all. The namespace's pause is never refused."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause of one agent, or of the whole namespace: its new work waits."""

    agent: Annotated[str | None, Field(description="The agent whose work waits; None: the whole namespace.")]
    reason: Annotated[str, Field(description="The reason given for the pause; may be empty.")]
    by: Annotated[str, Field(description="The user and the machine that paused the work, as the pausing process says.")]
    since: Annotated[int, Field(description="The start of the pause, in integer milliseconds UTC by the store's clock.")]
    duplicate: Annotated[
        bool,
        Field(
            description="Whether the pause stood already when it was requested; the other fields are then those of the earlier "
            "pause."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Paused:
    """The pauses that stood at one moment; `now` is that moment by the store's clock, in ms UTC."""

    now: int
    pauses: Sequence[Pause] = ()

    def of(self, agent: str) -> Pause | None:
        """The pause for which this agent's new work waits, None if there is none: the namespace's before the agent's own."""
        return next((pause for pause in self.pauses if pause.agent in (None, agent)), None)


def too_many() -> InvalidInput:
    """The error that says that there is no room for another pause."""
    fix = "resume some of them (`holdfast resume --agent NAME`), or pause the whole namespace"
    return InvalidInput("agent", f"{MOST_PAUSED} pauses stand already", fix)


class Pausing(Protocol):
    """The verbs of a `Store` by which new work is stopped and started."""

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        """Have the new work of an agent, or of the namespace, wait from now on; a pause that stands already stays as it is.

        Raises:
            InvalidInput: `MOST_PAUSED` other pauses stand, and this one is an agent's.
        """

    async def resume(self, agent: str | None) -> Pause | None:
        """Lift the pause of an agent, or that of the namespace, and no other; returns that pause, None if there was none."""

    async def paused(self) -> Paused:
        """The pauses that stand: that of the namespace first, then those of agents by name."""

    async def readmit(self, limit: int) -> int:
        """Let conversations that were released as paused need attention again once no pause holds them; returns how many.

        At most `limit` conversations in each bucket are readmitted at a time.
        """
