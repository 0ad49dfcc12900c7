"""Pauses: the new work of one agent, or of the whole namespace, waits; so do conversations released meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from holdfast.errors import InvalidInput

PAUSE_LAG_MS = 1_000
"""The greatest age (ms) of a worker's view of the pauses when it begins work: later than this, no paused work begins."""
MOST_PAUSED = 64
"""The most pauses to which an agent's can be added, since each look reads all. The namespace's is never refused."""


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
    """The pauses at the time `now` (ms UTC) of the store's clock."""

    now: int
    pauses: Sequence[Pause] = ()

    def of(self, agent: str) -> Pause | None:
        """The pause that holds this agent's new work, the namespace's before the agent's own; None if there is none."""
        return next((pause for pause in self.pauses if pause.agent in (None, agent)), None)


def too_many() -> InvalidInput:
    """The error for a pause beyond `MOST_PAUSED`."""
    fix = "lift some of them (`holdfast unpause --agent NAME`), or pause the whole namespace"
    return InvalidInput("agent", f"{MOST_PAUSED} pauses stand already", fix)


class Pausing(Protocol):
    """The verbs of a `Store` that pause new work, and lift pauses."""

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        """Pause the new work of an agent, or (None) of the namespace; an existing pause stays as it is.

        Raises:
            InvalidInput: There are `MOST_PAUSED` other pauses, and this one is an agent's.
        """

    async def unpause(self, agent: str | None) -> Pause | None:
        """Lift only the pause of this agent, or (None) of the namespace, and return it; None if there was none."""

    async def paused(self) -> Paused:
        """The pauses: the namespace's first, then those of agents by name."""

    async def readmit(self, limit: int) -> int:
        """Have conversations that were released as paused need attention again once no pause holds them; returns how many.

        At most `limit` conversations in each bucket are readmitted at a time.
        """
