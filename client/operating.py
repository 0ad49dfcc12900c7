"""A client as those use it who operate: pauses of new work, and what conversations owe."""

from holdfast.persistence import OutboxState, Pause

from . import verbs
from .gateway import Gateway, asked
from .outbox import Undelivered
from .results import Page


class Operating:
    """What a client that operates does with its namespace."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def pause(self, agent: str | None = None, reason: str = "") -> Pause:
        """Stop new work of one agent, or (None) of the whole namespace, until `unpause`.

        Decisions, messages, cancellations, ends and deadlines are still recorded and acknowledged. Turns, model calls and
        runs that have not begun wait; none is lost, and their time limits stop meanwhile. Work that has begun goes on, a model
        call with its own retries, and its outcome is recorded. A pause of the namespace and the pauses of its agents are
        independent of each other. A pause needs Redis alone. `reason` is for people who look at the pauses; at most 1024 bytes.

        Once this returns, no new work begins: a worker reads the pauses before each model call and run, that view counts for
        at most a second, and this call takes that much longer. The store refuses a run that is claimed later; a model call
        could begin later only in a process that was stopped (SIGSTOP) between its look and its request. If this call is
        interrupted, the pause may stand already: call again.

        Returns:
            The pause: who made it, why and since when. `duplicate` says that it already stood and is unchanged.

        Raises:
            InvalidInput: 64 pauses stand, and this would pause one more agent.
        """
        return await asked(self.gateway, verbs.PAUSE, agent=agent, reason=reason)

    async def unpause(self, agent: str | None = None) -> Pause | None:
        """Lift a pause; returns it, or None if none stood. Waiting work continues within a few seconds.

        Unpausing the namespace lifts no agent's pause, and unpausing an agent does not lift the namespace's.
        """
        return await asked(self.gateway, verbs.UNPAUSE, agent=agent)

    async def paused(self) -> list[Pause]:
        """The pauses that stand, that of the namespace first, then by the agent's name."""
        return await asked(self.gateway, verbs.PAUSED)

    async def outbox(
        self, state: OutboxState | str = OutboxState.OWED, *, limit: int = 50, after: str | None = None
    ) -> Page[Undelivered]:
        """A page of what conversations owe notification targets and each other: the first of each queue, oldest first.

        With the state `set_aside`, those that could not be delivered: they wait for `redeliver` or `drop`.
        A page is shorter than `limit` if some of it was delivered meanwhile.
        """
        return await asked(self.gateway, verbs.OUTBOX, state=state, limit=limit, after=after)

    async def redeliver(self, outbox_id: str) -> bool:
        """Have something in the outbox delivered now, also if it was set aside; false if it is not there (any more).

        It is delivered in the order of its conversation's log, and with the same message id as before.
        """
        return await asked(self.gateway, verbs.REDELIVER, outbox_id=outbox_id)

    async def drop(self, outbox_id: str) -> bool:
        """Remove something from the outbox undelivered; false if it is not there (any more)."""
        return await asked(self.gateway, verbs.DROP, outbox_id=outbox_id)
