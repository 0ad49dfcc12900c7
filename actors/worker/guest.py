"""Recording outcomes: where nobody owns the conversation, the worker judges the outcome itself, as a guest."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

from holdfast.actors.activation.counted import Counted
from holdfast.actors.activation.judge import Held, Judge
from holdfast.actors.activation.notices import tell
from holdfast.actors.activation.turn_trace import TurnTrace
from holdfast.actors.published import SpecCache
from holdfast.actors.steps import Reached, Step
from holdfast.actors.workers import ModelRequest, RunRequest, WorkOutcome
from holdfast.backoff import Backoff
from holdfast.conversation import BeginTurn, Command, State
from holdfast.conversation.records.commands import TurnPrepared
from holdfast.counting import Counts
from holdfast.errors import CipherFailed, Fenced, StoreUnavailable
from holdfast.persistence import Append, Appended, Store, Visited, codec
from holdfast.settings import TraceSettings

logger = logging.getLogger("holdfast.worker")

TRIES = 3
"""How often a guest judges an outcome anew because another writer came first; then an actor does."""
LOOK_MS = 10_000
"""How long (ms) a conversation is left to a guest, and work that it has made outstanding to the workers."""

GUESTS = "HOLDFAST_GUESTS"
"""The variable that turns guests off, with the value 0, in tests of what actors do."""

Begin: TypeAlias = Callable[[BeginTurn, State], Awaitable[TurnPrepared]]
_T = TypeVar("_T")


def _clock() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True)
class Guest:
    """What judges outcomes: `begin` prepares the turn that an outcome makes due, `allowed` says whether it may."""

    store: Store
    specs: SpecCache
    begin: Begin
    reached: Reached
    counts: Counts = field(default_factory=Counts)
    traces: TraceSettings = field(default_factory=TraceSettings)
    allowed: Callable[[], bool] = lambda: True

    async def judged(self, conversation_id: str, visited: Visited, outcome: WorkOutcome) -> State:
        """The state after an outcome that was judged and written.

        Raises:
            Fenced: Another writer came first; nothing was written.
            HoldfastError: The outcome was refused; after a `StoreError` it is unknown whether it was written.
        """
        held = Held(self.store, self.specs, _clock, conversation_id, lease_ms=LOOK_MS)
        held.visit(visited)
        trace, counted = TurnTrace(conversation_id, self.traces), Counted(self.counts)

        def wrote(write: Append, written: Appended, command: Command) -> None:
            del written  # the workers of settled work find out themselves
            tell((trace, counted), write, command)
            trace.written(write)
            counted.written(write)

        try:
            await Judge(held, trace, begin=self.begin, wrote=wrote).judged(outcome)
        finally:
            trace.left()
        return held.state


async def deposit(
    store: Store,
    guest: Guest | None,
    request: ModelRequest | RunRequest,
    incarnation: str,
    outcome: WorkOutcome,
    *,
    keeps_late: bool = True,
) -> bool:
    """Record the outcome, however long the store is away or the cipher fails; false if the work is settled or reclaimed.

    If nobody owns the conversation, the outcome is judged, too. Whatever keeps the guest from it, the outcome is recorded by
    then, and an actor judges it.
    """
    work = request.conversation_id, request.effect_id
    said: dict[str, Any] = {"incarnation": incarnation, "outcome": codec.encode(outcome)}
    if guest is None or not guest.allowed():
        return await _told(request, partial(store.finish, *work, **said, keeps_late=keeps_late))
    recorded = False
    for _ in range(TRIES):
        # Once it is recorded, whoever has settled the work knew this outcome: it is not late.
        visit = partial(store.finish_as_guest, *work, **said, keeps_late=keeps_late and not recorded, look_ms=LOOK_MS)
        found = await _told(request, visit)
        if isinstance(found, bool):
            return found or recorded
        recorded = True
        guest.reached(Step.GUEST_1_READ)
        try:
            await guest.judged(request.conversation_id, found, outcome)
        except Fenced:
            continue
        except Exception as error:  # noqa: BLE001 - an actor meets it again, and knows what to do
            logger.info("%s of %s is left to an actor: %s", request.effect_id, request.conversation_id, error)
            break
        guest.reached(Step.GUEST_2_WRITTEN)
        return True
    return await _told(request, partial(store.finish, *work, **said, keeps_late=False)) or recorded


async def _told(request: ModelRequest | RunRequest, record: Callable[[], Awaitable[_T]]) -> _T:
    backoff = Backoff(0.1, 5)
    while True:
        try:
            found = await record()
        except (StoreUnavailable, CipherFailed) as error:
            logger.warning("%s of %s: its outcome is not recorded yet: %s", request.effect_id, request.conversation_id, error)
            await backoff.sleep()
        else:
            if found is False:
                logger.warning("%s of %s ended late; nobody waits for it", request.effect_id, request.conversation_id)
            return found
