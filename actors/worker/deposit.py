"""Recording outcomes. If nobody owns the conversation, the worker judges the outcome itself, as a guest."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from holdfast.actors.activation.guest import LOOK_MS, Guest
from holdfast.actors.steps import Step
from holdfast.actors.workers import ModelRequest, RunRequest, WorkOutcome
from holdfast.backoff import Backoff
from holdfast.errors import CipherFailed, Fenced, StoreUnavailable
from holdfast.persistence import codec

from .bench import Bench

logger = logging.getLogger("holdfast.worker")

TRIES = 3
"""How often a guest judges an outcome anew because another writer came first; then an actor does."""

_T = TypeVar("_T")


async def deposit(
    bench: Bench, request: ModelRequest | RunRequest, incarnation: str, outcome: WorkOutcome, *, keeps_late: bool = True
) -> bool:
    """Record the outcome, however long the store is away or the cipher fails; false if the work is settled or reclaimed.

    If nobody owns the conversation, the outcome is judged, too. If that fails, the outcome is recorded all the same, and an
    actor judges it.
    """
    store, guest = bench.store, bench.guest
    work = request.conversation_id, request.effect_id
    said: dict[str, Any] = {"incarnation": incarnation, "outcome": codec.encode(outcome)}
    if guest is None or not guest.allowed:
        return await _told(request, partial(store.finish, *work, **said, keeps_late=keeps_late))
    async with guest.turn(request.conversation_id):
        return await _judged(bench, guest, request, outcome, said, keeps_late=keeps_late)


async def _judged(
    bench: Bench,
    guest: Guest,
    request: ModelRequest | RunRequest,
    outcome: WorkOutcome,
    said: dict[str, Any],
    *,
    keeps_late: bool,
) -> bool:
    store, work, recorded = bench.store, (request.conversation_id, request.effect_id), False
    for _ in range(TRIES):
        # A writer that settled the work after this outcome was recorded knew it: then the outcome is not late.
        visit = partial(store.finish_as_guest, *work, **said, keeps_late=keeps_late and not recorded, look_ms=LOOK_MS)
        found = await _told(request, visit, late=not recorded)
        if isinstance(found, bool):
            return found or recorded
        recorded = True
        bench.reached(Step.GUEST_1_READ)
        try:
            wrote = await guest.judged(request.conversation_id, found, outcome)
        except Fenced:
            continue
        except Exception as error:  # noqa: BLE001 - an actor judges the outcome, and handles the error
            logger.info("%s of %s is left to an actor: %s", request.effect_id, request.conversation_id, error)
            break
        bench.reached(Step.GUEST_2_WRITTEN)
        for further in wrote.requests():
            bench.carry_on(further)
        return True
    return await _told(request, partial(store.finish, *work, **said, keeps_late=False), late=False) or recorded


async def _told(request: ModelRequest | RunRequest, record: Callable[[], Awaitable[_T]], *, late: bool = True) -> _T:
    """The store's answer, however long it takes. With `late`, an outcome that the store refuses is logged as late."""
    backoff = Backoff(0.1, 5)
    while True:
        try:
            found = await record()
        except (StoreUnavailable, CipherFailed) as error:
            logger.warning("%s of %s: its outcome is not recorded yet: %s", request.effect_id, request.conversation_id, error)
            await backoff.sleep()
        else:
            if found is False and late:
                logger.warning("%s of %s ended late; nobody waits for it", request.effect_id, request.conversation_id)
            return found
