"""The beginning of a turn: the code and the spec that it has to its end are those that stand when it begins."""

import asyncio

from holdfast.actors.admission import Admission
from holdfast.actors.workers import NoWorker, Workers, WorkPaused
from holdfast.conversation import BeginTurn, State, outstanding
from holdfast.conversation.commands import TurnPrepared
from holdfast.conversation.machine import effect_of
from holdfast.errors import HoldfastError

AT_ONCE_S = 0.25
"""How long a command waits, at most, for the beginning of the turn that it leads to; a turn can begin with a later write."""


class Beginning:
    """Finds with what the turns of one conversation begin.

    Args:
        workers: The workers, which know what is published.
        admission: Says whether new work may begin.
    """

    def __init__(self, workers: Workers, admission: Admission) -> None:
        self._workers = workers
        self._admission = admission

    async def of(self, effect: BeginTurn, state: State) -> TurnPrepared:
        """The outcome of `BeginTurn`.

        Raises:
            WorkPaused: New work of the agent waits.
            NoWorker: The record of the app was not written by a publisher of this cluster.
            StoreError: The store does not answer.
            ClusterError: This process is in no cluster (any more).
        """
        app, agent = state.app, state.agent
        await self._admission.admit(agent)  # else a paused turn would begin with the code from before the pause
        standing = await self._workers.standing(app, agent)
        if standing is None:
            return TurnPrepared(effect_id=effect.effect_id, problem=f"no app {app!r} is known to the store")
        if standing.spec is None:
            return TurnPrepared(effect_id=effect.effect_id, problem=f"app {app!r} has no agent {agent!r} any more")
        return TurnPrepared(effect_id=effect.effect_id, code=standing.code, spec=standing.spec)

    async def at_once(self, before: State, after: State) -> TurnPrepared | None:
        """The outcome of a `BeginTurn` that is outstanding only after a command, so that one write holds both.

        None if there is no such effect, or if its outcome is not known in a moment: then it is carried out like any other.
        """
        if after.turn is not None:  # else each end of one run of many would list the others
            return None
        effect = next((effect for effect in outstanding(after) if isinstance(effect, BeginTurn)), None)
        if effect is None or effect_of(before, effect.effect_id) is not None:
            return None
        try:
            async with asyncio.timeout(AT_ONCE_S):
                return await self.of(effect, after)
        except (WorkPaused, NoWorker, HoldfastError, TimeoutError):
            return None
